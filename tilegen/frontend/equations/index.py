"""Index arithmetic and conditions: syntax that has to be affine in loops and sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tilegen.errors import LARGEST, SourceError, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.ir.affine import Affine, Div, Mod, const
from tilegen.ir.facts.choices import comparison
from tilegen.ir.nodes import Condition, Scalar

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def affine_of(
    value: s.Syntax, names: Mapping[str, Affine], tensors: Mapping[str, object] = {}, what: str = "an index"
) -> Affine:
    """`value` as an index expression over `names`. Raises SourceError where it is none.

    `what` says in messages what is being read: one of the keys of `_DATA`.
    """

    def inner(part: s.Syntax) -> Affine:
        return affine_of(part, names, tensors, what)

    match value:
        case s.Num(int(number)) if number >= -LARGEST:
            return const(number)
        case s.Num():
            raise SourceError("an index is made of integers", value.span)
        case s.Name(text):
            if text in names:
                return names[text]
            raise _unknown_name(value, names, tensors, what)
        case s.Unary("-" | "+" as sign, arg):
            return -inner(arg) if sign == "-" else inner(arg)
        case s.Binary("+", left, right):
            return inner(left) + inner(right)
        case s.Binary("-", left, right):
            return inner(left) - inner(right)
        case s.Binary("*", left, right):
            return _product(value, inner(left), inner(right))
        case s.Binary("/" | "//" | "%" as operator, left, right):
            whole, by = inner(left), inner(right)
            return _quotient(value, operator, whole, by)
        case s.Subscript():
            raise SourceError(
                f"{what} cannot depend on data, and '{value.span.text}' is data",
                value.span,
                notes=(_DATA[what],),
            )
        case _:
            raise SourceError("this is no index expression", value.span, notes=(_ALLOWED,))


_DATA = {
    "an index": "an index is a sum of loop indices and sizes times constants",
    "a place to write to": "a result at a place that data give is a sum, max or min over an equality: "
    "h[b] = sum[i](1 if x[i] == b else 0), with the step scatter(b)",
    "a range": "ends that depend on data stand after 'in': sum[k in start[i]..start[i + 1]](x[k]); to leave out other "
    "terms, choose them point by point: sum[k](A[i, k] if f32(k) < x[i] else 0)",
    "a condition on indices": "to choose values point by point, write 'a if condition else b' on the right side",
}

_ALLOWED = "an index is made of loop indices, sizes, integers, + - and products, floors and remainders by constants"


def conditions_of(
    value: s.Syntax,
    names: Mapping[str, Affine],
    tensors: Mapping[str, object] = {},
    what: str = "a condition on indices",
) -> list[Condition]:
    """A conjunction of comparisons as affine facts, one for each. Raises SourceError for anything else."""
    return [_condition(part, names, tensors, what) for part in comparisons_of(value)]


def comparisons_of(value: s.Syntax | None) -> Iterator[s.Syntax]:
    """The parts of a conjunction in their order; none of nothing."""
    match value:
        case None:
            return
        case s.Binary("and", left, right):
            yield from comparisons_of(left)
            yield from comparisons_of(right)
        case _:
            yield value


def _condition(value: s.Syntax, names: Mapping[str, Affine], tensors: Mapping[str, object], what: str) -> Condition:
    match value:
        case s.Binary("!=" | "or", _, _) | s.Unary("not", _):
            raise SourceError(
                "a condition on indices is one comparison or several joined by 'and'",
                value.span,
                notes=("to choose values point by point, write 'a if condition else b' on the right side",),
            )
        case s.Binary(operator, left, right) if operator in COMPARISONS:
            sides = (affine_of(side, names, tensors, what) for side in (left, right))
            return comparison(operator, *sides)
        case _:
            raise SourceError("a comparison is expected here, such as j <= i", value.span)


def constant_truth(condition: Condition) -> bool | None:
    """The truth of a condition without names; None if it has names."""
    if not condition.value.is_const:
        return None
    return condition.value.const == 0 if condition.equal else condition.value.const >= 0


def never_negative(value: Affine, loops: Collection[str] = (), counted: Collection[str] = ()) -> bool:
    """True if the signs of coefficients show `value` >= 0, where sizes are >= 1 and loops, if `counted`, are >= 0."""
    least = value.const
    for atom, factor in value.terms:
        match atom:
            case str():
                least += 0 if atom in loops else factor
                surely = atom in counted or atom not in loops
            case Div(arg):
                surely = never_negative(arg, loops, counted)
            case Mod():
                surely = True
            case _:
                raise TypeError(atom)
        if factor < 0 or not surely:
            return False
    return least >= 0


def _product(value: s.Syntax, left: Affine, right: Affine) -> Affine:
    if left.is_const:
        return right * left.const
    if right.is_const:
        return left * right.const
    raise SourceError(
        f"'{value.span.text}' multiplies two indices or sizes, so it is not affine",
        value.span,
        notes=("an index may be multiplied by an integer or an integer attribute (n: int = 2) only",),
    )


def _quotient(value: s.Syntax, operator: str, left: Affine, by: Affine) -> Affine:
    if not by.is_const:
        raise SourceError(
            f"'{value.span.text}' divides by something that is not constant, so it is not affine",
            value.span,
            notes=("an index may be divided by an integer or an integer attribute (n: int = 2) only",),
        )
    if by.const <= 0:
        raise SourceError(f"an index cannot be divided by {by.const}; the divisor has to be positive", value.span)
    return left % by.const if operator == "%" else left // by.const


def _unknown_name(name: s.Name, names: Mapping[str, Affine], tensors: Mapping[str, object], what: str) -> SourceError:
    if name.text in tensors:
        scalar = isinstance(tensors[name.text], Scalar)
        kind = "a scalar" if scalar else "a tensor"
        notes = (_DATA[what], *((f"an integer that is known when it is compiled is '{name.text}: int'",) * scalar))
        return SourceError(f"{what} cannot depend on data, and '{name.text}' is {kind}", name.span, notes=notes)
    return SourceError(f"there is no index or size '{name.text}' here", name.span, notes=did_you_mean(name.text, names))
