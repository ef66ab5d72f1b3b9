"""fast_math(sin, log)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError, did_you_mean
from tilegen.ir.nodes import Op, Tree
from tilegen.ir.parts.operations import APPROXIMATIONS
from tilegen.ir.walk import walk
from tilegen.primitives import primitive


@primitive("arithmetic")
class FastMath:
    """Allow these functions to be approximated by the hardware, in f32 and shorter types.

    kernel:
        kernel wave(a: f32[N]) -> b: f32[N]:
            b[i] = sin(a[i]) / sqrt(a[i])
    before:
        for i < N
          b[i] = sin(a[i]) / sqrt(a[i])
    steps:
        fast_math(sin, divide)
    after:
        approximate /, sin
        for i < N
          b[i] = sin(a[i]) / sqrt(a[i])

    The kernel means what it meant, and is checked against the exact functions, within the wider bound that is
    documented for the approximations; outside the range for which one is documented (beyond -pi .. pi for sin
    and cos, at subnormal numbers for most others) a check claims nothing, and says for how many elements.
    CUDA text calls the intrinsics. OpenCL leaves the error of its native functions open, so there the
    accurate ones stay. `divide` is the word for /.
    """

    functions: tuple[str, ...]

    def apply(self, tree: Tree) -> Tree:
        if not self.functions:
            raise StepError("fast_math takes the functions that may be approximated", notes=(_known_words(),))
        for word in self.functions:
            if word not in APPROXIMATIONS:
                notes = (*did_you_mean(word, APPROXIMATIONS), _known_words())
                raise StepError(f"there is no approximation of '{word}' with a known error", notes=notes)
            _need_use(tree, word)
        chosen = {APPROXIMATIONS[word] for word in self.functions}
        return replace(tree, approximate=tuple(sorted({*tree.approximate, *chosen})))


def _known_words() -> str:
    return f"the functions with one are {', '.join(APPROXIMATIONS)}"


def _need_use(tree: Tree, word: str) -> None:
    """StepError if the kernel does not compute the function, or only in f64."""
    ops = [node for node in walk(tree.kernel.equations) if isinstance(node, Op)]
    uses = [op for op in ops if op.name == APPROXIMATIONS[word]]
    if not uses:
        here = {op.name for op in ops}
        words = [known for known, name in APPROXIMATIONS.items() if name in here]
        note = f"of those with an approximation it has {', '.join(words) or 'none'}"
        raise StepError(f"kernel '{tree.kernel.name}' does not compute {word}", notes=(note,))
    if all(op.dtype == "f64" for op in uses):
        note = f"leave {word} out, or compute it in f32: f32(...) makes a value shorter"
        raise StepError(f"the kernel computes {word} in f64, and approximations have 24 bits at most", notes=(note,))
