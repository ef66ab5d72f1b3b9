"""The judge's answer, and instances, elements and sizes in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilegen.errors import Code, Span
from tilegen.ir.affine import Affine
from tilegen.poly.instances import Leaf, Original, Use, symbols_alone
from tilegen.poly.rows import Row
from tilegen.poly.system import example


@dataclass(frozen=True)
class Violation:
    """Why a tree is not the kernel: a plain sentence, the concrete case, and the way out where one is known."""

    sentence: str
    witness: str | None = None
    notes: tuple[str, ...] = ()
    code: Code = "wrong"
    span: Span | None = None


class Refused(Exception):
    """Carries a violation out of the checks. `way` is one more note: a way out."""

    code: Code = "wrong"

    def __init__(
        self,
        sentence: str,
        witness: str | None = None,
        *notes: str,
        way: str = "",
        code: Code | None = None,
        span: Span | None = None,
    ) -> None:
        super().__init__(sentence)
        self.violation = Violation(sentence, witness, (*notes, way) if way else notes, code or self.code, span)


class NoForm(Refused):
    """Of something that has no such form as the hardware, or the lowering, takes."""

    code = "form"


class Misplaced(Refused):
    """Of loops and buffers that are not where their blocks, threads and memory are."""

    code = "structure"


class NoVector(Refused):
    """Of accesses that are no vector."""

    code = "vector"


def instance_words(original: Original, name: str, point: Mapping[str, int], values: Iterable[int]) -> str:
    """`i=3, r=-1`: the index words of the instance of statement `name` whose loops have these values.

    Args:
        point: the sizes, which the lower end of a range may depend on.
    """
    ranges = original.ranges(name)
    loops = dict(zip([r.name for r in ranges], values, strict=True))
    known = loops | {size: max(1, point.get(size, 1)) for size in original.kernel.symbols}
    return ", ".join(f"{r.index}={r.value(known)}" for r in ranges)


class Words:
    """A point of a question in words: the first instance has plain names, the second one primes."""

    def __init__(self, original: Original, point: Mapping[str, int], shared: frozenset[str] = frozenset()) -> None:
        self.original = original
        self.point = point
        self.shared = shared

    def at(self, name: str, second: bool = False) -> int:
        """What a loop or a size is; a loop that both instances are in the same iteration of has one name."""
        own = f"{name}'" if second and name not in self.shared else name
        return self.point.get(own, self.point.get(name, 0))

    def value(self, index: Affine, second: bool = False) -> int:
        return index.evaluate({n: self.at(n, second) for n in index.names() | index.symbols()})

    def instance(self, leaf: Leaf, second: bool = False) -> str:
        """`C(i=3, j=0)`; a copy is named by its iteration."""
        stmt = leaf.stmt
        if stmt.instance is None:
            return f"the copy {stmt.name}{self.iteration(leaf, second)}"
        values = [self.value(i, second) for i in stmt.instance]
        return f"{stmt.name}({instance_words(self.original, stmt.name, self.point, values)})"

    def iteration(self, leaf: Leaf, second: bool = False) -> str:
        """` at bi=0, ti=3`: the loops around the leaf."""
        if not leaf.names:
            return ""
        values = [f"{n}={self.at(n, second)}" for n in leaf.names]
        return f" at {', '.join(values)}"

    def element(self, use: Use, second: bool = False) -> str:
        """`A[3, 0]`."""
        return f"{use.buffer}[{', '.join(str(self.value(i, second)) for i in use.index)}]"

    @property
    def sizes(self) -> str:
        """` (M=4, N=1)`, or nothing where the kernel has no symbolic size."""
        known = symbols_alone(self.original.kernel)
        values = ", ".join(f"{s}={max(1, self.point.get(s, 1))}" for s in known)
        return f" ({values})" if known else ""


def counterexample(
    original: Original, question: Iterable[Row], loops: Iterable[str], shared: frozenset[str] = frozenset()
) -> Words | None:
    """The least point of a question in words; None where it has none.

    Args:
        loops: what is least after the sizes, in this order.
        shared: the loops that two instances are in the same iteration of.
    """
    point = example(question, (*original.kernel.symbols, *loops))
    return None if point is None else Words(original, point, shared)


class Unproved(Exception):
    """A question that is not followed up: nothing is known to be wrong, and nothing is proven."""
