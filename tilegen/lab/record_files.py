"""Files of records: lines, each of which is one, or what `compare --json` writes, whose rows are records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from json import JSONDecodeError
from typing import Any

from tilegen.errors import UsageError
from tilegen.lab.records import SCHEMA, Conditions, Device, Readings, RunRecord
from tilegen.lab.schemas import find_complaint
from tilegen.lab.values import parse_json
from tilegen.version import __version__


def read_records(text: str, name: str) -> list[RunRecord]:
    """The records of a file, whose `text` is lines of them or a document that has them as its rows.

    A last line that is torn, of a run that was ended from outside, is left out; so is a line of another schema of
    tilegen's, such as the head of a tuning run.

    Args:
        name: what messages call the file.

    Raises:
        UsageError: it is neither, with the line and the field that is wrong.
    """
    document = _document_of(text, name)
    if document is not None:
        return [record_of(row, f"{name}, row {number}") for number, row in enumerate(_rows_of(document, name), 1)]
    found: list[RunRecord] = []
    lines = text.split("\n")  # what follows the last end of a line is torn, or nothing
    for number, line in enumerate(lines[:-1], 1):
        if line.strip():
            found += _records_of_line(line, f"{name}:{number}")
    if lines[-1].strip():
        found += _records_of_last_line(lines[-1], f"{name}:{len(lines)}", alone=not found)
    if not found:
        raise UsageError(f"{name} has no record", notes=_HINT)
    return found


def read_line(line: str, place: str) -> RunRecord:
    """The record of a line. Raises UsageError, with the `place` of the line, where it is none."""
    return record_of(_value_of(line, place), place)


def record_of(value: Any, place: str) -> RunRecord:
    """The record that a JSON value is. Raises UsageError, with its `place`, where it is none."""
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema != SCHEMA:
        newer = isinstance(schema, str) and schema.startswith("tilegen.record/")
        notes = (f"tilegen {value.get('tilegen')} wrote it",) if newer else _HINT
        raise UsageError(f"{place} is no record: {_told_schema(value, schema)}", notes=notes)
    if message := find_complaint("record", value):
        raise UsageError(f"{place} is no record: {message}", notes=_FIELDS)
    known = {f.name: value[f.name] for f in fields(RunRecord) if f.name in value}
    known |= {name: tuple(known[name]) for name in ("trials", "samples", "doubts") if name in known}
    return RunRecord(**known | _nested(value))


_HINT = ("tilegen compare ... --json F writes records, and so does tilegen tune",)
_FIELDS = ("tilegen help records says what a record has",)
_SENSORS = ("clock_mhz", "memory_clock_mhz", "power_w", "temperature_c")


def _document_of(text: str, name: str) -> dict[str, Any] | None:
    """The one JSON object that the text is, if that is no record itself."""
    try:
        found = parse_json(text)
    except JSONDecodeError:
        return None
    except ValueError as error:
        raise UsageError(f"{name} is no record: {error}") from None
    return found if isinstance(found, dict) and found.get("schema") != SCHEMA else None


def _rows_of(document: Mapping[str, Any], name: str) -> Sequence[Any]:
    rows = document.get("rows")
    if not isinstance(rows, list):
        command = document.get("command")
        if document.get("schema") == "tilegen.tune/1":
            notes = ("tilegen tune ... --resume FILE goes on with it",)
            raise UsageError(f"{name} has no record: no candidate of the run was tried", notes=notes)
        what = f"it is the result of '{command}'" if command else "it has no rows"
        raise UsageError(f"{name} has no records: {what}", notes=_HINT)
    if not rows:
        raise UsageError(f"{name} has no record", notes=_HINT)
    return rows


def _records_of_line(line: str, place: str) -> Iterator[RunRecord]:
    value = _value_of(line, place)
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(schema, str) or schema.startswith("tilegen.record/") or not schema.startswith("tilegen."):
        yield record_of(value, place)


def _records_of_last_line(line: str, place: str, *, alone: bool) -> list[RunRecord]:
    """The record of a line without an end: of a torn one none, if there are others."""
    try:
        parse_json(line)
    except JSONDecodeError:
        if not alone:
            return []
    except ValueError:
        pass
    return list(_records_of_line(line, place))


def _value_of(line: str, place: str) -> Any:
    try:
        return parse_json(line)
    except JSONDecodeError:
        raise UsageError(f"{place} is no JSON", notes=("a record is a JSON object on one line",)) from None
    except ValueError as error:
        raise UsageError(f"{place} is no record: {error}") from None


def _told_schema(value: Any, schema: Any) -> str:
    if not isinstance(value, dict):
        return "it is no JSON object"
    if schema is None:
        return "it has no 'schema'"
    if isinstance(schema, str) and schema.startswith("tilegen.record/"):
        return f"it is of {schema}, and this tilegen ({__version__}) reads {SCHEMA}"
    return f"its schema is {json.dumps(schema)}, not {SCHEMA}"


def _nested(value: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a record that are dataclasses of their own."""
    found: dict[str, Any] = {}
    if value.get("device"):
        found["device"] = _make(Device, value["device"])
    if value.get("conditions"):
        sensors = {n: _make(Readings, each) for n in _SENSORS if (each := value["conditions"].get(n))}
        found["conditions"] = _make(Conditions, {**value["conditions"], **sensors})
    return found


def _make(kind: Any, value: Mapping[str, Any]) -> Any:
    return kind(**{f.name: value[f.name] for f in fields(kind) if f.name in value})
