"""What is public in Python is what the reference lists; all of it is typed and documented."""

import inspect
import re
import subprocess
import sys

import numpy
import pytest

import tilegen
from tests.support.documents import ROOT, tables
from tilegen import api, errors
from tilegen.backends.calls.calls import Prepared
from tilegen.backends.calls.device_program import Program
from tilegen.ir.nodes import Tree
from tilegen.lab.measure.compare import Comparison
from tilegen.lab.measure.ladder import Ladder
from tilegen.lab.predict.explanation import Explanation
from tilegen.proof import Proof

FILE = tilegen.load("vector_add")
SCHEDULED = FILE.kernel().schedule()
CLASSES = {
    each.__name__: each
    for each in (api.File, api.Kernel, api.Scheduled, Program, Prepared, Tree, Proof, Explanation, Comparison, Ladder)
}
PROGRAM = SCHEDULED.compile("interpreter")
X = numpy.ones(8, "f4")
MADE = {
    "File": FILE,
    "Kernel": FILE.kernel(),
    "Scheduled": SCHEDULED,
    "Program": PROGRAM,
    "Prepared": PROGRAM.prepare(X, X),
}
# What other parts of tilegen use of a program: it may change.
INNER = {"Program": {"bind", "cuda", "demand_proof", "engine", "launches", "launches_at", "unproved"}}
(LISTED,) = [table for table in tables("examples/language.md") if table[0] == ["name", "members"]]
PUBLIC = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in LISTED[1:]}


def members(name: str) -> set[str]:
    """The names of a class and of what it has made, without those of the steps."""
    classes = CLASSES[name].__mro__[:-1]
    found = {key for each in classes for key in (*vars(each), *vars(each).get("__annotations__", ()))}
    found |= set(getattr(MADE.get(name), "__dict__", ()))
    return {each for each in found if not each.startswith("_")} - INNER.get(name, set())


@pytest.mark.parametrize("name", CLASSES)
def test_the_reference_lists_what_is_public(name: str) -> None:
    assert members(name) == PUBLIC[name]


def test_the_reference_lists_the_face_of_the_package_and_the_errors() -> None:
    assert set(tilegen.__all__) | {"torch"} == PUBLIC["tilegen"]
    kinds = {n for n, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.TilegenError)}
    assert kinds | {"exit_code"} == PUBLIC["tilegen.errors"]
    assert all(getattr(errors, each).__doc__ for each in kinds)


def functions():
    """(name, function) of all methods and properties that are public."""
    for name, cls in CLASSES.items():
        for word in (*sorted(members(name)), "__call__"):
            found = inspect.getattr_static(cls, word, None)
            if isinstance(found, property):
                yield f"{name}.{word}", found.fget
            elif inspect.isfunction(found):
                yield f"{name}.{word}", found
    yield from (("load", api.load), ("op", tilegen.torch.op), ("schema_of", tilegen.torch.schema_of))


@pytest.mark.parametrize(
    ("name", "function"), list(functions()), ids=lambda each: each if isinstance(each, str) else ""
)
def test_it_is_typed_and_documented(name: str, function) -> None:
    signature = inspect.signature(function)
    assert inspect.getdoc(function), name
    assert signature.return_annotation is not inspect.Signature.empty, name
    untyped = [p for p in list(signature.parameters.values()) if p.annotation is p.empty and p.name != "self"]
    assert not untyped, name
    assert all(inspect.getdoc(each) for each in CLASSES.values())


def test_a_tree_is_printed_whole() -> None:
    tree = SCHEDULED.blocks("i", 256, into=("b", "t")).tree
    assert str(tree).startswith("global A: f32[N]  input\n")
    assert "for b < (N + 255)/256  block.x\n  for t < 256  thread.x\n" in str(tree)
    assert repr(tree) == "<Tree of vector_add: 1 launch, 3 buffers>"


def test_the_help_of_python_names_what_is_raised() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tilegen; help(tilegen.Scheduled.compile)"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Raises:" in done.stdout
