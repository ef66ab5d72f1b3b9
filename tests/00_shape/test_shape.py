"""The lines that the architecture draws: who imports whom, how long things get, what loads when."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tilegen"
FILES = sorted(PACKAGE.rglob("*.py"))

# From the bottom up; parts of one rank do not import each other.
RANKS = [
    {"errors", "version"},
    {"ir"},
    {"frontend", "poly", "interpreter"},
    {"judge"},
    {"primitives"},
    {"schedule"},
    {"lowering"},
    {"proof"},
    {"backends"},
    {"lab"},
    {"export"},
    {"report"},
    {"api"},
    {"torch"},
    {"tune", "profile", "course"},
    {"cli"},
    {"__main__", "__init__"},
]
# A library is imported by its own part alone; within the backends, by its runtime alone.
DOORS = {
    "lark": "tilegen/frontend/",
    "islpy": "tilegen/poly/",
    "cupy": "tilegen/backends/",
    "cuda": "tilegen/backends/",
    "pyopencl": "tilegen/backends/",
    "platformdirs": "tilegen/backends/",
    "jinja2": "tilegen/report/",
    "markupsafe": "tilegen/report/",
    "matplotlib": "tilegen/report/",
    "plotly": "tilegen/report/",
    "pynvml": "tilegen/backends/",
    "fastjsonschema": "tilegen/lab/",
    "click": "tilegen/cli",
    "pygments": "tilegen/cli",
    "rich": "tilegen/cli",
    "optuna": "tilegen/tune",
    "distributed": "tilegen/tune",
}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def rank(part: str) -> int:
    return next(i for i, parts in enumerate(RANKS) if part in parts)


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """(dotted module, line) of every import in the file, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}:{node.lineno}: write imports from the top of the package"
            module = node.module or ""
            yield module, node.lineno
            if module == "tilegen":
                yield from ((f"tilegen.{alias.name}", node.lineno) for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_imports_point_down(path: Path) -> None:
    own = part_of(path)
    for module, line in imports(path):
        words = module.split(".")
        if words[0] != "tilegen" or len(words) == 1 or words[1] == own:
            continue
        assert rank(words[1]) < rank(own), f"{name(path)}:{line}: {own} must not import {module}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_each_library_has_one_door(path: Path) -> None:
    for module, line in imports(path):
        door = DOORS.get(module.split(".")[0])
        assert door is None or name(path).startswith(door), f"{name(path)}:{line}: {module} belongs in {door}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "primitives").glob("*.py")), ids=name)
def test_primitives_do_not_import_each_other(path: Path) -> None:
    words = {p.stem for p in path.parent.glob("[a-z]*.py")} if not path.name.startswith("_") else set()
    for module, line in imports(path):
        parts = module.split(".")
        other = parts[2] if parts[:2] == ["tilegen", "primitives"] and len(parts) > 2 else None
        assert other not in words - {path.stem}, f"{name(path)}:{line}: a primitive imports the primitive {other}"


@pytest.mark.parametrize("path", [*FILES, *sorted((ROOT / "tests").rglob("*.py"))], ids=name)
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text()
    primitive = name(path).startswith("tilegen/primitives/")
    assert len(text.splitlines()) <= (150 if primitive else 400), f"{name(path)} is too long: split it by idea"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= 50, f"{name(path)}:{node.lineno}: {node.name} has {length} lines, 50 are the limit"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_modules_say_what_they_are_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{name(path)} has no docstring"


def test_package_door_is_short() -> None:
    assert len((PACKAGE / "__init__.py").read_text().splitlines()) <= 40


def test_test_files_have_unique_names() -> None:
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)


def test_helpers_are_imported_by_their_full_names() -> None:
    helpers = {path.stem for path in (ROOT / "tests" / "support").rglob("*.py")} - set(sys.stdlib_module_names)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        bare = {module for module, _ in imports(path)} & helpers
        assert not bare, f"{name(path)}: {bare} lie in tests/support: from tests.support... import ..."


def test_import_is_light() -> None:
    heavy = ["cupy", "pyopencl", "torch", "islpy", "lark", "numpy", "rich", "click"]
    code = f"import sys, tilegen; print([m for m in {heavy!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.strip() == "[]"


def test_scheduling_needs_no_device_library() -> None:
    code = (
        "import sys, tilegen; tilegen.load('gemm').schedule('tiled').source('cuda');"
        "print([m for m in ('cupy', 'pyopencl', 'torch', 'rich', 'click') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.stdout.strip() == "[]", result.stderr
