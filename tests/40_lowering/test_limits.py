"""What a GPU does not have is told before anything runs: at the step that asks for it, with the way out."""

from pathlib import Path

import pytest

from tilegen import load
from tilegen.errors import LimitError
from tilegen.lowering import lower

FILES = sorted((Path(__file__).parents[1] / "errors" / "limits").glob("*.tg"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_limit_is_explained(path, golden_error, monkeypatch):
    monkeypatch.chdir(path.parent)
    file = load(path.name)
    (schedule,) = file.schedules
    with pytest.raises(LimitError) as caught:
        lower(file.schedule(schedule.name).tree)
    text = caught.value.render() + f"\nexit code {caught.value.exit_code}\n"
    golden_error(text, f"limits/{path.stem}.txt")
