"""Kernels with a schedule that a test writes down: `tree_from(text)` is what the schedule makes of the kernel."""

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.frontend.stock import standard_steps, stock_instructions
from tilegen.ir.written import tree_of
from tilegen.primitives.calling.call import bind
from tilegen.schedule import apply, expand


def tree_from(text, schedule=None, parameters=None, **values):
    """The tree after the only schedule of `text`, or after the one that is named.

    Args:
        parameters: those of the schedule, with their values.
        values: integer attributes and sizes to fix.
    """
    module = parse(Source("test.tg", text))
    (chosen,) = (s for s in module.schedules if schedule in (None, s.name))
    defines = {**standard_steps(), **{d.word: d for d in module.defines}}
    kernel = build(module.kernels[chosen.kernel], values)
    return apply(kernel, chosen, parameters or {}, defines, stock_instructions).tree


def built(text, kernel=None):
    """The tree of a kernel as written, of the only one or of the one that is named."""
    kernels = parse(Source("test.tg", text)).kernels
    (chosen,) = [kernels[kernel]] if kernel else kernels.values()
    return tree_of(build(chosen))


def stepped(tree, *steps):
    """The trees after one step more each: built, and not judged."""
    text = "schedule s for any:\n" + "".join(f"    {step}\n" for step in steps)
    for call in parse(Source("test.tg", text)).schedules[0].steps:
        for each in expand(call, standard_steps()):
            tree = bind(each).apply(tree)
        yield tree


# A small product with tiles in shared memory and operands in registers, for the steps that run ahead.
PRODUCT = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule small for gemm(TK=4, STAGES=3, R=2) where STAGES > 0 and R > 0:
    tile(i, 8) -> bi, ti
    tile(j, 8) -> bj, tj
    tile(k, TK) -> ko, ki
    tile(ti, 2) -> ti, wi
    tile(tj, 2) -> tj, wj
    order(bi, bj, ko, ti, tj, ki, wi, wj)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
    cache_shared(A, at=ko, layout=[k, i])
    cache_shared(B, at=ko)
    cache_register(A.shared, at=ki)
    cache_register(B.shared, at=ki)
    unroll(ki)
"""


def ahead(steps, text=PRODUCT, **values):
    """The tree after the schedule of `text` and these steps after it, with values for its parameters."""
    return tree_from(text + "".join(f"    {step}\n" for step in steps), parameters=values)
