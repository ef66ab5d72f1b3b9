"""Values computed anew in iterations of loops are those of the undivided equation, and are there to be read."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.choices import tests_of
from tilegen.ir.nodes import Condition, Const, Equation, Expr, Kernel, Load, Op
from tilegen.ir.parts.derived import ComputedAt
from tilegen.ir.reductions.initial import init_value
from tilegen.ir.reductions.rounded import with_zeros
from tilegen.ir.walk import loads, rewrite, substitute
from tilegen.judge.derived.parts import equation_of
from tilegen.poly.instances import Leaf, original_of
from tilegen.poly.system import negation_rows, rows_of
from tilegen.poly.verdict import Refused, counterexample


def check_computed(kernel: Kernel, origin: Kernel, made: ComputedAt) -> None:
    """Refused where `kernel` computes or reads other values of the tensor than `origin`, which it was derived from.

    The new equation has to be the old one at the point that `made` names; what reads it has to read, seen
    through that point, the old element. That all of these are in the ranges is asked of isl. The new one may choose
    between this and a constant: then the test is whether the point is in the old ranges, both ways, and the constant
    is what reads outside of the tensor give. Without that choice all of it is inside of the tensor, and so are the
    reads, which are of nothing else.
    """
    old, new = equation_of(origin, made.target), equation_of(kernel, made.target)
    if not _same_value_at(old, new, made, frozenset(kernel.sizes)):
        raise Refused(f"'{made.target}' is not computed as in the kernel that this one was derived from")
    _check_rest(kernel, origin, made, old, new)
    own = original_of(kernel).statements[made.target].leaf
    tests = _tests(old, new, made)
    ranges = [(place, r.extent - 1 - place) for place, r in zip(made.point, old.loops, strict=True)]
    inside = tuple(Condition(value) for ends in ranges for value in ends)
    for condition in inside:
        what = f"'{made.target}' is computed where the kernel as written does not have it"
        _check_always(kernel, own, condition, what, "is there", tests or ())
    for condition in tests or ():
        _check_always(kernel, own, condition, f"'{made.target}' is not computed inside", "is there", inside)
    if tests is not None:
        _check_beyond(origin, made, old, new)
    for equation in kernel.equations:
        reader = original_of(kernel).statements[equation.target].leaf
        for load in loads(equation):
            if load.buffer == made.target:
                _check_there(kernel, reader, load, new)


def _same_value_at(old: Equation, new: Equation, made: ComputedAt, sizes: frozenset[str]) -> bool:
    """True if `new` has the value and the terms that `old` has at the point of `made`, at as many points or fewer."""
    if len(made.point) != len(old.loops) or [r.extent for r in new.reduced] != [r.extent for r in old.reduced]:
        return False
    at = {r.name: place for r, place in zip(old.loops, made.point, strict=True)}
    at |= {r.name: var(n.name) for r, n in zip(old.reduced, new.reduced, strict=True)}
    outer, terms = {r.name for r in new.loops}, {n.name for n in new.reduced}
    moved = substitute(old, at)
    kept, given = set(moved.conditions), set(new.conditions)
    points = replace(moved, index=new.index, loops=new.loops, reduced=new.reduced, conditions=new.conditions)
    return (
        old.best is None
        and new == replace(points, value=new.value)
        and outer.isdisjoint(terms)
        and all(place.names() <= outer | sizes for place in made.point)
        and new.value in (moved.value, _as_choice(new, moved.value))
        and kept <= given
        and all(c.value.names().isdisjoint(terms) for c in given - kept)
        and sorted(map(str, new.index)) == sorted(outer)
        and all(load.buffer != made.target for load in loads(new))
    )


def _as_choice(new: Equation, value: Expr) -> Expr | None:
    """The choice between `value`, with zeros for what it reads outside, and a constant; None if `new` has none."""
    match new.value:
        case Op("select", (test, _, Const() as beyond)):
            inner = with_zeros(value, {r.name for r in new.loops})
            return replace(new.value, args=(test, inner, beyond))
        case _:
            return None


def _tests(old: Equation, new: Equation, made: ComputedAt) -> tuple[Condition, ...] | None:
    """The tests that `new` makes the choice by; None if it has no more of one than `old`."""
    at = {r.name: place for r, place in zip(old.loops, made.point, strict=True)}
    at |= {r.name: var(n.name) for r, n in zip(old.reduced, new.reduced, strict=True)}
    if new.value == substitute(old.value, at):
        return None
    assert isinstance(new.value, Op)
    tests = tests_of(new.value.args[0])
    if tests is None:
        raise Refused(f"'{made.target}' is chosen by what is no test of its place")
    return tests


def _check_beyond(origin: Kernel, made: ComputedAt, old: Equation, new: Equation) -> None:
    """Refused unless what reads outside of the tensor give is what is computed there, by a reduction of such terms."""
    wanted = {load.fallback for e in origin.equations for load in loads(e) if load.buffer == made.target} - {None}
    beyond = new.value.args[2] if isinstance(new.value, Op) else None
    nothing = init_value(old.reduce, origin.tensor(made.target).dtype) if old.reduce else beyond
    if wanted - {beyond} or nothing != beyond or old.conditions:
        raise Refused(f"outside of '{made.target}', what is computed is not what reads there give")


def _check_rest(kernel: Kernel, origin: Kernel, made: ComputedAt, old: Equation, new: Equation) -> None:
    """Refused where the kernels differ in more than how this tensor is computed and read."""
    at = {r.name: place for r, place in zip(old.loops, made.point, strict=True)}

    def undone(value: object) -> object:
        if not isinstance(value, Load) or value.buffer != made.target:
            return value
        here = _loops_at(new, value.index)
        return replace(value, index=tuple(i.substitute(at).substitute(here) for i in old.index))

    def bare(value: object) -> object:
        if not isinstance(value, Load) or value.buffer != made.target:
            return value
        return replace(value, fallback=None)  # outside of the tensor: _check_beyond, or there is no such read

    tensors = tuple(replace(t, shape=o.shape, order=o.order) if t.name == o.name == made.target else t
                    for t, o in zip(kernel.tensors, origin.tensors, strict=False))  # fmt: skip
    equations = tuple(old if e is new else rewrite(e, undone) for e in kernel.equations)
    tensor = kernel.tensor(made.target)
    extents = {r.name: r.extent for r in new.loops}
    alike = (
        len(kernel.tensors) == len(origin.tensors)
        and replace(kernel, tensors=tensors, equations=equations, origin=origin.origin, derived=origin.derived)
        == replace(origin, equations=tuple(e if e is old else rewrite(e, bare) for e in origin.equations))
        and tensor.role == "intermediate"
        and tensor.shape == tuple(extents[str(i)] for i in new.index)
        and sorted(tensor.order) == list(range(len(tensor.shape)))
    )
    if not alike:
        raise Refused(f"kernel '{kernel.name}' has more than '{made.target}' computed at loops, or reads others of it")


def _check_there(kernel: Kernel, reader: Leaf, load: Load, new: Equation) -> None:
    """Refused unless each element that `load` reads is one that the new equation computes."""
    what = f"'{load.buffer}' is read where it is not computed"
    if load.fallback is not None:
        raise Refused(f"a read of '{load.buffer}' has a fallback, and only a part of it is computed there")
    here, terms = _loops_at(new, load.index), {r.name for r in new.reduced}
    for r in new.loops:
        for inside in (Condition(here[r.name]), Condition(r.extent - 1 - here[r.name])):
            _check_always(kernel, reader, inside, what, "reads it")
    for condition in new.conditions:
        if condition.value.names().isdisjoint(terms):
            _check_always(kernel, reader, substitute(condition, here), what, "reads it")


def _check_always(
    kernel: Kernel, leaf: Leaf, condition: Condition, what: str, verb: str, given: tuple[Condition, ...] = ()
) -> None:
    """Refused, with an instance, unless the condition holds at every instance of the leaf at which `given` do."""
    original = original_of(kernel)
    known = tuple(row for each in given for row in rows_of(each))
    for contrary in negation_rows(condition):
        rows = (*original.context, *leaf.domain, *known, *contrary)
        if words := counterexample(original, rows, leaf.names):
            raise Refused(what, f"{words.instance(leaf)} {verb}{words.sizes}")


def _loops_at(new: Equation, index: tuple[Affine, ...]) -> dict[str, Affine]:
    """The loops of the new equation at the element `index` of its tensor."""
    return {str(name): value for name, value in zip(new.index, index, strict=True)}
