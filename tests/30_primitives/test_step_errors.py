"""One file per mistake that a schedule can hold: what is said about it is a golden text beside it."""

from pathlib import Path

import pytest

from tilegen.errors import Source, TilegenError
from tilegen.frontend import build, parse
from tilegen.frontend.stock import stock_instructions
from tilegen.judge.kernel.recurrences import in_sequence
from tilegen.schedule import apply

FILES = sorted((Path(__file__).parents[1] / "errors" / "steps").glob("*.tg"))


def schedule_source(source):
    module = parse(source)
    schedule = module.schedules[0]
    defines = {d.word: d for d in module.defines}
    kernel = in_sequence(build(module.kernels[schedule.kernel]))
    return apply(kernel, schedule, defines=defines, instructions=stock_instructions)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_mistake_is_explained(path, golden_error):
    with pytest.raises(TilegenError) as caught:
        schedule_source(Source(path.name, path.read_text()))
    text = caught.value.render() + f"\nexit code {caught.value.exit_code}\n"
    golden_error(text, f"steps/{path.stem}.txt")
