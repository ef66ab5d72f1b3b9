"""Values of expressions as terms, for the simulator."""

from __future__ import annotations

from tilegen.ir.nodes import Cast, Const, Gather, Index, Load, Op, Scalar

COMPARE = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__, "==": int.__eq__, "!=": int.__ne__}


def tensor_of(launch, name):
    """The tensor that a buffer is a copy of, or a copy of such a copy; itself where it is none."""
    while name in launch.buffers and launch.buffers[name].copy_of:
        name = launch.buffers[name].copy_of
    return name


class Values:
    """The part of a thread that computes values."""

    def _value(self, expr):
        terms = self.home.terms
        match expr:
            case Const(value, _):
                return terms.of("const", value)
            case Index(index):
                return terms.of("index", index.evaluate(self.env))
            case Scalar(name):
                return terms.of("scalar", name)
            case Load():
                return self._read(expr)
            case Gather(buffer, index, _, other):
                return terms.of("gather", buffer, *map(self._value, index), other and self._value(other))
            case Op("select", (test, yes, no)) if (known := self._truth_of(test)) is not None:
                return self._value(yes if known else no)
            case Op(name, args):
                return terms.of(name, *(self._value(a) for a in args))
            case Cast(arg, dtype):
                return terms.of(dtype, self._value(arg))
            case _:
                raise TypeError(expr)

    def _truth_of(self, test):
        """Whether a test of indices holds; None for one of data."""
        match test:
            case Op(name, (left, right)) if name in COMPARE:
                sides = [self._whole(side) for side in (left, right)]
                return None if None in sides else COMPARE[name](*sides)
            case Op("not", (arg,)) if (known := self._truth_of(arg)) is not None:
                return not known
            case Op("and" | "or" as name, (left, right)):
                sides = [self._truth_of(side) for side in (left, right)]
                decides = name == "or"
                return decides if decides in sides else None if None in sides else not decides
            case _:
                return None

    def _whole(self, value):
        match value:
            case Index(index):
                return index.evaluate(self.env)
            case Const(int(number)):
                return number
            case _:
                return None
