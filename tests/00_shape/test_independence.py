"""What the nets hold tilegen against must not be tilegen: these files import nothing of it."""

from __future__ import annotations

import ast
from pathlib import Path

MEANING = Path(__file__).parents[1] / "support" / "meaning"


def test_the_meaning_of_a_kernel_is_worked_out_without_tilegen() -> None:
    for path in MEANING.glob("*.py"):
        tree = ast.parse(path.read_text())
        modules = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        modules += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [m for m in modules if m.split(".")[0] in ("tilegen", "lark")], path
        assert not [m for m in modules if m.startswith("tests.") and not m.startswith("tests.support.meaning")], path
