"""The lines that the architecture draws: who imports whom, how long things get, what loads when."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tilegen"
FILES = sorted(PACKAGE.rglob("*.py"))

# From the bottom up; parts of one rank do not import each other.
RANKS = [
    {"errors", "installation", "version"},
    {"ir"},
    {"frontend", "poly", "interpreter"},
    {"judge"},
    {"primitives"},
    {"schedule"},
    {"lowering"},
    {"proof"},
    {"backends"},
    {"lab"},
    {"suggest"},
    {"export", "report"},
    {"api"},
    {"torch", "tune", "profile", "course"},
    {"cli"},
    {"__main__", "__init__"},
]
# What can be deleted, and the rest works: `api`, `cli` and the face of the package alone import these, when needed.
PLUGINS = ("course", "export", "profile", "report", "torch", "tune")
# A library is imported by its own part alone; within the backends, by its runtime alone.
DOORS = {
    "lark": "tilegen/frontend/",
    "islpy": "tilegen/poly/",
    "cupy": "tilegen/backends/",
    "cuda": "tilegen/backends/",
    "pyopencl": "tilegen/backends/",
    "platformdirs": "tilegen/backends/",
    "jinja2": ("tilegen/export/", "tilegen/report/"),
    "markupsafe": "tilegen/report/",
    "matplotlib": "tilegen/report/",
    "plotly": "tilegen/report/",
    "pynvml": "tilegen/backends/",
    "fastjsonschema": "tilegen/lab/",
    "click": "tilegen/cli",
    "pygments": "tilegen/cli",
    "rich": "tilegen/cli",
    "optuna": "tilegen/tune",
    "pebble": "tilegen/tune",
    "distributed": "tilegen/tune",
}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def rank(part: str) -> int:
    return next(i for i, parts in enumerate(RANKS) if part in parts)


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """(dotted module, line) of every import in the file, those inside functions too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}:{node.lineno}: write imports from the top of the package"
            module = node.module or ""
            yield module, node.lineno
            if module == "tilegen":
                yield from ((f"tilegen.{alias.name}", node.lineno) for alias in node.names)


def test_imports_point_down() -> None:
    climbing = [
        f"{name(path)}:{line}: {part_of(path)} must not import {module}"
        for path in FILES
        for module, line in imports(path)
        if (words := module.split("."))[0] == "tilegen" and len(words) > 1 and words[1] != part_of(path)
        if rank(words[1]) >= rank(part_of(path))
    ]
    assert not climbing


def room_of(module: str) -> str | None:
    """The folder inside of a part that `module` lies in."""
    words = module.split(".")
    return ".".join(words[:3]) if len(words) > 2 and (PACKAGE / words[1] / words[2]).is_dir() else None


def test_rooms_do_not_import_each_other_in_circles() -> None:
    above: dict[str, set[str]] = {}
    for path in FILES:
        if mine := room_of(dotted(path)):
            found = {room for module, _ in imports(path) if (room := room_of(module))}
            above.setdefault(mine, set()).update(found - {mine})
    assert not in_circles(above)


def test_modules_do_not_import_each_other_in_circles() -> None:
    known = set(map(dotted, FILES))
    above = {dotted(path): modules_of(path, known) - {dotted(path)} for path in FILES}
    # A node is printed by the printer, which imports it.
    above["tilegen.ir.nodes"].remove("tilegen.ir.printing.show")
    assert not in_circles(above)


def dotted(path: Path) -> str:
    return name(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def modules_of(path: Path, known: set[str]) -> set[str]:
    """What the file imports of the known modules: of `from a import b` the module a.b, if there is one, else a.

    Nodes hold each other, a loop an instruction, which has a kernel: within `ir`, imports for types alone do not count.
    """
    nodes = [n for n in ast.walk(parsed(path)) if isinstance(n, ast.ImportFrom) and n.module]
    if part_of(path) == "ir":
        of_types = {n for each in parsed(path).body if isinstance(each, ast.If) for n in ast.walk(each)}
        nodes = [n for n in nodes if n not in of_types]
    pairs = [(n.module or "", f"{n.module}.{alias.name}") for n in nodes for alias in n.names]
    return {inner if inner in known else module for module, inner in pairs} & known


def in_circles(above: dict[str, set[str]]) -> set[str]:
    """Those of the keys that import each other: what is left when all that no one in them needs has gone."""
    rest = dict(above)
    while ends := [each for each in rest if not above[each] & rest.keys() or not any(each in above[o] for o in rest)]:
        for each in ends:
            del rest[each]
    return set(rest)


def test_plugins_are_imported_where_they_are_needed() -> None:
    early = []
    for path in FILES:
        top = {line for node in parsed(path).body for line in _lines_of_import(node)}
        for module, line in imports(path):
            plugin = next((each for each in PLUGINS if f"{module}.".startswith(f"tilegen.{each}.")), part_of(path))
            if plugin != part_of(path) and (line in top or part_of(path) not in ("api", "cli")):
                early += [f"{name(path)}:{line}: {module} belongs in a function of api or cli"]
    assert not early
    folders = [path for path in (ROOT / "tests").iterdir() if path.is_dir() and not path.name.endswith(PLUGINS)]
    tests = [path for folder in folders if folder.name != "support" for path in folder.rglob("*.py")]
    plugins = tuple(f"tilegen.{each}" for each in PLUGINS)
    assert not [name(path) for path in tests if any(module.startswith(plugins) for module, _ in imports(path))]


def _lines_of_import(node: ast.stmt) -> list[int]:
    return [node.lineno] if isinstance(node, ast.Import | ast.ImportFrom) else []


@pytest.mark.long
def test_the_rest_works_without_plugins(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        f"for name in {PLUGINS!r}: sys.modules['tilegen.' + name] = None\n"
        "from tilegen.cli import run\n"
        "for words in ('check FILE', 'compare FILE', 'explain FILE', 'help sum', 'help -s pad'):\n"
        "    assert run(words.replace('FILE', 'vector_add:plain').split()) == 0, words\n"
        "sys.exit(run(['learn']))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    assert done.stderr.endswith("error: this needs tilegen.course, a part of tilegen that is not installed\n")


def test_each_library_has_one_door() -> None:
    beside = [
        f"{name(path)}:{line}: {module} belongs in {door}"
        for path in FILES
        for module, line in imports(path)
        if (door := DOORS.get(module.split(".")[0])) and not name(path).startswith(door)
    ]
    assert not beside


def test_primitives_do_not_import_each_other() -> None:
    primitives = {f"tilegen.primitives.{path.stem}": path for path in (PACKAGE / "primitives").glob("[a-z]*.py")}
    others = [
        f"{name(path)}:{line}: a primitive imports {module}"
        for path in primitives.values()
        for module, line in imports(path)
        if primitives.get(".".join(module.split(".")[:3]), path) != path
    ]
    assert not others


def test_files_and_functions_stay_short() -> None:
    long = []
    for path in [*FILES, *sorted((ROOT / "tests").rglob("*.py"))]:
        limit = 150 if name(path).startswith("tilegen/primitives/") else 400
        heads = [node.end_lineno or 0 for node in parsed(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
        if (lines := len(path.read_text().splitlines()) - max(heads, default=0)) > limit:
            long += [f"{name(path)} has {lines} lines behind its imports, {limit} are the limit: split it by idea"]
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef) and (lines := (node.end_lineno or 0) - node.lineno + 1) > 50:
                long += [f"{name(path)}:{node.lineno}: {node.name} has {lines} lines, 50 are the limit"]
    assert not long


def test_modules_say_what_they_are_for() -> None:
    files = [*FILES, *sorted((ROOT / "tests").rglob("*.py"))]
    assert not [name(path) for path in files if not ast.get_docstring(parsed(path))]


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
