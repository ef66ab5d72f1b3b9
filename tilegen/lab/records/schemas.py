"""JSON Schemas of this package: what one has against a value that was read."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from textwrap import shorten
from typing import Any

from tilegen.errors import did_you_mean


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of this name, "record" or "machine"."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath(f"{name}.schema.json").read_text("utf-8"))
    return found


def find_complaint(name: str, value: Any) -> str | None:
    """The first thing that a schema has against a value; None where it has nothing."""
    from fastjsonschema import JsonSchemaValueException

    try:
        _validator(name)(value)
    except JsonSchemaValueException as error:
        place = ".".join(map(str, error.path[1:]))
        owner = repr(place) if place else "it"
        match error.rule:
            case "required":
                return f"{owner} has no {_listed(each for each in error.rule_definition if each not in error.value)}"
            case "additionalProperties":
                known = list(error.definition["properties"])
                unknown = [each for each in error.value if each not in known]
                near = did_you_mean(unknown[0], known)
                return f"{owner} has {_listed(unknown)}, which nothing reads{f': {near[0]}' if near else ''}"
            case "enum":
                return f"{owner} is {_text(error.value)}, which is none of {', '.join(error.rule_definition)}"
            case _:
                return f"{owner} is {_text(error.value)}, and {error.message.split(' ', 1)[1]}"
    return None


@cache
def _validator(name: str) -> Callable[[Any], Any]:
    import fastjsonschema

    found: Callable[[Any], Any] = fastjsonschema.compile(schema(name))
    return found


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _text(value: Any) -> str:
    return shorten(json.dumps(value, default=str), 60, placeholder=" ...")
