"""What a reduction over whole tiles has beyond its range adds nothing: each of these terms is zero, or what a choice
has there is what the reduction starts from."""

from __future__ import annotations

from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.choices import cases_of
from tilegen.ir.nodes import INTEGERS, Cast, Condition, Const, Expr, Kernel, Load, Op
from tilegen.ir.parts.derived import RoundedUp
from tilegen.ir.reductions.initial import COMBINES, init_value
from tilegen.ir.reductions.rounded import round_up_range
from tilegen.judge.derived.parts import equation_of
from tilegen.poly.instances import original_of
from tilegen.poly.system import Row, rows_of, solvable
from tilegen.poly.verdict import Refused, counterexample


def check_rounded(kernel: Kernel, origin: Kernel, made: RoundedUp) -> None:
    """Refused where the sum that `kernel` has over whole tiles is not the one of `origin`.

    A product with one factor that is zero is not always zero: the other may be infinite. With two it is.
    """
    old, new = equation_of(origin, made.target), equation_of(kernel, made.target)
    ranges = [r for r in old.reduced if r.name == made.loop]
    if len(ranges) != 1 or made.by < 1 or kernel != round_up_range(origin, made):
        raise Refused(f"kernel '{kernel.name}' has more than the range of '{made.target}' rounded up")
    original = original_of(kernel)
    leaf = original.statements[made.target].leaf
    beyond = (*original.context, *leaf.domain, *rows_of(Condition(var(made.loop) - ranges[0].extent)))
    if not solvable(beyond):
        return
    neutral = init_value(new.reduce, new.value.dtype).value if new.reduce in COMBINES else None
    other = _other_points(kernel, new.value, beyond, neutral)
    words = counterexample(original, other, leaf.names) if other is not None else None
    if words is None:
        return
    more = f"{words.instance(leaf)} is one term more"
    if new.reduce != "sum":
        raise Refused(f"'{made.target}' is no sum, so that zeros beyond its range change it", more + words.sizes)
    raise Refused(
        f"the terms of '{made.target}' beyond its range are not all products of zeros",
        f"{more}, and its factors are not all read outside of a tensor{words.sizes}",
    )


def _other_points(kernel: Kernel, value: Expr, where: tuple[Row, ...], neutral: float | None) -> tuple[Row, ...] | None:
    """Where, of what `where` has points of, `value` may be another number than the neutral one; None if nowhere."""
    match value:
        case Const(number):
            return where if number != neutral else None
        case Op("select", (test, *arms)):
            places = (
                _other_points(kernel, arm, (*where, *(row for c in case for row in rows_of(c))), neutral)
                for arm, cases in zip(arms, cases_of(test), strict=True)
                for case in cases
            )
            return next((rows for rows in places if rows is not None and solvable(rows)), None)
        case _ if neutral != 0:
            return where
        case Load(fallback=Const(0)):
            inside = (*where, *_inside_rows(value.index, kernel.tensor(value.buffer).shape))
            return inside if solvable(inside) else None
        case Cast(arg):
            return _other_points(kernel, arg, where, 0)
        case Op("*", (one, two), dtype) if dtype in INTEGERS:
            found = _other_points(kernel, one, where, 0)
            return None if found is None else _other_points(kernel, two, found, 0)
        # What is zero where all operands are.
        case Op("+" | "-" | "*" | "neg" | "abs" | "min" | "max" | "tf32" | "tf32_rz" | "power_of_two", (*arguments,)):
            places = (_other_points(kernel, a, where, 0) for a in arguments)
            return next((rows for rows in places if rows is not None), None)
        case _:
            return where


def _inside_rows(index: tuple[Affine, ...], shape: tuple[Affine, ...]) -> tuple[Row, ...]:
    pairs = zip(index, shape, strict=True)
    return tuple(row for i, extent in pairs for c in (Condition(i), Condition(extent - 1 - i)) for row in rows_of(c))
