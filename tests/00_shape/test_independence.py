"""What the nets hold tilegen against must not be tilegen: these files import nothing of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
INDEPENDENT = ("15_interpreter/numpy_references.py", "meaning.py", "meaning_numbers.py", "meaning_text.py")


@pytest.mark.parametrize("name", INDEPENDENT)
def test_imports_nothing_of_tilegen(name: str) -> None:
    tree = ast.parse((TESTS / name).read_text())
    modules = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [module for module in modules if module.split(".")[0] in ("tilegen", "lark")]
