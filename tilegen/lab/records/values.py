"""JSON and TOML of users: one reader, that takes finite numbers of 64 bits, and nothing nested without end."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from math import isfinite
from typing import Any

from tilegen.errors import LARGEST

DEEPEST = 64


def parse_json(text: str | bytes) -> Any:
    """The value of a text. Raises JSONDecodeError where it is no JSON; ValueError where a value is none of these."""
    return _checked(lambda: json.loads(text))


def parse_toml(text: str) -> dict[str, Any]:
    """The value of a text. Raises TOMLDecodeError where it is no TOML; ValueError where a value is none of these."""
    found: dict[str, Any] = _checked(lambda: tomllib.loads(text))
    return found


def _checked(parse: Callable[[], Any]) -> Any:
    try:
        value = parse()
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise
    except RecursionError:
        raise ValueError(_DEEP) from None
    except ValueError:  # more digits than Python takes
        raise ValueError(_LONG) from None
    todo = [(value, 0)]
    while todo:
        each, depth = todo.pop()
        if depth > DEEPEST:
            raise ValueError(_DEEP)
        match each:
            case dict():
                todo += [(part, depth + 1) for part in each.values()]
            case list():
                todo += [(part, depth + 1) for part in each]
            case float() if not isfinite(each):
                raise ValueError(f"{each} is no finite number")
            case int() if abs(each) > LARGEST:
                raise ValueError(_LONG)
    return value


_LONG = "an integer has more than 64 bits"
_DEEP = f"it is nested more than {DEEPEST} deep"
