"""What a user reads for each mistake: tests/errors/frontend/<mistake>.tg, and .txt beside it.

`pytest --update-golden` writes the texts; read the difference before committing it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tilegen.errors import Source, SourceError
from tilegen.frontend import build, parse
from tilegen.judge import check_equations

FOLDER = Path(__file__).parents[1] / "errors" / "frontend"
MISTAKES = sorted(path.stem for path in FOLDER.glob("*.tg"))


def build_all(source: Source) -> None:
    for kernel in parse(source).kernels.values():
        check_equations(build(kernel))


def error_text(source: Source) -> str:
    with pytest.raises(SourceError) as caught:
        build_all(source)
    assert caught.value.span is not None
    return caught.value.render() + "\n"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_error_text(mistake: str, golden_error) -> None:
    text = error_text(Source(f"{mistake}.tg", (FOLDER / f"{mistake}.tg").read_text()))
    golden_error(text, f"frontend/{mistake}.txt")


def test_every_golden_text_has_its_input() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == MISTAKES
