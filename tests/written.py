"""Kernels with a schedule that a test writes down: `tree_from(text)` is what the schedule makes of the kernel."""

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.schedule import apply


def tree_from(text, schedule=None, **values):
    """The tree after the only schedule of `text`, or after the one that is named.

    Args:
        values: integer attributes and sizes to fix.
    """
    module = parse(Source("test.tg", text))
    (chosen,) = (s for s in module.schedules if schedule in (None, s.name))
    defines = {d.word: d for d in module.defines}
    return apply(build(module.kernels[chosen.kernel], values), chosen, {}, defines).tree
