"""Records are read as they were written, their JSON Schema is what they are, and a bad line is told as such."""

import json
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import fastjsonschema
import pytest

from tilegen.errors import UsageError
from tilegen.lab.records.records import (
    SCHEMA,
    Conditions,
    Device,
    Outcome,
    Readings,
    RunRecord,
    line_of,
    read_records,
    to_dict,
)
from tilegen.lab.records.schemas import schema
from tilegen.version import __version__

ERRORS = Path(__file__).parents[1] / "errors" / "records"
PLAIN = RunRecord("naive", "gemm", "unmeasured", {"M": 4}, date="2026-01-02T03:04:05+00:00", tilegen="0.1.0")
FULL = replace(
    PLAIN,
    outcome="measured",
    parameters={"TS": 16},
    trials=({"sizes": {"M": 4}, "data": "random", "error": 0.25, "unbounded": 0.0},),
    device=Device("NVIDIA H200", True, "sm_90", {"driver": "580.1", "power_limit_w": 700.0}),
    conditions=Conditions(7, clock_mhz=Readings(1200.0, 1980.0, 1980.0), throttled={"heat": 0.5}, others=0),
    samples=(0.5, 0.25, 1.0),
    time={"median": 0.5, "p20": 0.35, "p80": 0.8, "samples": 3},
    doubts=("it was hot",),
    notes={"trial": 3},
)


@pytest.mark.parametrize("record", [PLAIN, FULL], ids=["plain", "full"])
def test_a_record_is_read_as_it_was_written(record) -> None:
    line = line_of(record)
    assert "\n" not in line
    assert read_records(line, "f.jsonl") == [record]
    assert list(json.loads(line))[:2] == ["schema", "tilegen"]


def test_the_middle_of_the_samples_is_their_median() -> None:
    assert (FULL.milliseconds, PLAIN.milliseconds) == (0.5, None)
    assert replace(FULL, samples=(1.0, 4.0, 2.0, 8.0)).milliseconds == 3.0


def test_the_schema_has_the_fields_of_a_record_and_no_others() -> None:
    """And a field with a default may be left out: a record of an older tilegen lacks the newer ones."""
    found = schema("record")
    assert set(found["properties"]) == {f.name for f in fields(RunRecord)}
    assert found["properties"]["schema"]["const"] == SCHEMA
    assert found["properties"]["outcome"]["enum"] == list(get_args(Outcome))
    for name, kind in {"device": Device, "conditions": Conditions}.items():
        assert set(found["properties"][name]["properties"]) == {f.name for f in fields(kind)}
    least = {name: value for name, value in to_dict(PLAIN).items() if name in found["required"]}
    assert read_records(json.dumps(least), "f") == [replace(PLAIN, **least | {"samples": ()})]


def test_the_schema_is_a_json_schema_and_refuses_what_is_of_another_type() -> None:
    validate = fastjsonschema.compile(schema("record"))
    for name, value in to_dict(FULL).items():
        wrong = {**to_dict(FULL), name: [value] if not isinstance(value, list | tuple) else "text"}
        wrong = json.loads(json.dumps(wrong))
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            validate(wrong)
    validate(json.loads(line_of(FULL)))


def test_the_schema_is_in_the_package() -> None:
    """What hatchling packs is the whole folder of the package: nothing there is left out."""
    packed = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert packed["targets"]["wheel"]["packages"] == ["tilegen"]
    assert "exclude" not in packed["targets"]["wheel"]


def test_lines_and_rows_are_records() -> None:
    text = f"{json.dumps({'schema': 'tilegen.tune/1'})}\n{line_of(PLAIN)}\n\n{line_of(FULL)}\n"
    assert read_records(text, "f") == [PLAIN, FULL]
    assert read_records(line_of(FULL), "f") == [FULL]
    document = {"schema": "tilegen.compare/1", "rows": [to_dict(PLAIN), to_dict(FULL)]}
    assert read_records(json.dumps(document, indent=2), "f") == [PLAIN, FULL]


def test_a_last_line_may_be_torn_at_any_byte() -> None:
    text = f"{line_of(PLAIN)}\n{line_of(FULL)}\n"
    for length in range(len(line_of(PLAIN)) + 1, len(text) + 1):
        assert read_records(text[:length], "f") == ([PLAIN, FULL] if length >= len(text) - 1 else [PLAIN])


def edited(**changes: object) -> str:
    return json.dumps({**to_dict(FULL), **changes})


def without(name: str) -> str:
    return json.dumps({key: value for key, value in to_dict(FULL).items() if key != name})


# name of the golden text -> what the file has
FILES = {
    "empty": "",
    "text": "kernel gemm(A: f32[M]) -> B: f32[M]:\n    B[i] = A[i]\n",
    "torn_alone": line_of(FULL)[:200],
    "torn_inside": f"{line_of(PLAIN)}\n{line_of(FULL)[:200]}\n{line_of(FULL)}\n",
    "nan": line_of(FULL).replace("0.25", "NaN"),
    "endless": line_of(FULL).replace("0.25", "1e999"),
    "nan_in_rows": json.dumps({"rows": [{**to_dict(FULL), "samples": [float("nan")]}]}, indent=2),
    "digits": line_of(FULL).replace("sm_90", "9" * 30) + "\n" + line_of(FULL).replace('"sm_90"', "9" * 30) + "\n",
    "deep": "[" * 100_000,
    "rather_deep": "[" * 66 + "]" * 66,
    "number": "5\n",
    "no_schema": '{"a": 1}\n{"a": 2}\n',
    "newer": edited(schema="tilegen.record/2") + "\n" + edited(schema="tilegen.record/2"),
    "other_schema": edited(schema="kernel_tuner") + "\n" + line_of(FULL) + "\n",
    "of_explain": json.dumps({"schema": "tilegen.explain/1", "command": "tilegen explain gemm", "steps": []}),
    "no_rows": json.dumps({"schema": "tilegen.compare/1", "rows": []}),
    "row": json.dumps({"schema": "tilegen.compare/1", "rows": [to_dict(FULL), 7]}),
    "missing": without("kernel") + "\n",
    "missing_nested": edited(device={"name": "NVIDIA H200"}) + "\n",
    "outcome": edited(outcome="fast") + "\n",
    "size": edited(sizes={"M": "4096"}) + "\n",
    "sample": edited(samples=[0.5, 0]) + "\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_told_as_reviewed(name, golden_error) -> None:
    with pytest.raises(UsageError) as raised:
        read_records(FILES[name], "run.jsonl")
    text = raised.value.render().replace(f"({__version__})", "(this version)") + "\n"
    golden_error(text, f"records/{name}.txt")


def test_every_golden_text_is_of_a_file() -> None:
    assert {path.stem for path in ERRORS.iterdir()} == set(FILES)
