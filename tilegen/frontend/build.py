"""From a declaration to a `Kernel`: names, shapes, storage, index ranges and types resolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilegen.errors import Collected, SourceError, TilegenError, UsageError, did_you_mean, join_errors
from tilegen.frontend import syntax as s
from tilegen.frontend.beside import beside_of
from tilegen.frontend.claims import claims_of
from tilegen.frontend.equations.first import argmax_place_and_start
from tilegen.frontend.equations.folding import Literal
from tilegen.frontend.equations.fractions import fix_fractions
from tilegen.frontend.equations.index import affine_of, conditions_of, constant_truth
from tilegen.frontend.equations.index_words import Declared, IndexWords, check_words, words_of
from tilegen.frontend.equations.lists import hits_of
from tilegen.frontend.equations.loops import loops_of
from tilegen.frontend.equations.nested import NestedReduction, write_out
from tilegen.frontend.equations.operators import DTYPES, Open, Typed, adapt, adapt_to_default, not_computed_error
from tilegen.frontend.equations.promises import promises_of
from tilegen.frontend.equations.ragged import in_ranges, with_whole_rows
from tilegen.frontend.equations.targets import check_left
from tilegen.frontend.equations.values import Scope, value_of
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.facts.choices import condition_of
from tilegen.ir.in_place import old_of
from tilegen.ir.nodes import BYTE_FLOATS, INTEGERS, REDUCTIONS, Condition, Equation, Expr, Kernel, Op, Scalar, Tensor
from tilegen.ir.parts.lists import LISTS
from tilegen.ir.reductions.initial import init_value
from tilegen.ir.walk import loads, walk

MOST_DIMENSIONS = 32  # as arrays have
_RESERVED = (*DTYPES, *REDUCTIONS, "int", "float", "bool", "inf", "pi")


def build(decl: s.KernelDecl, values: Mapping[str, float] = {}) -> Kernel:
    """The kernel of a declaration. Raises SourceError.

    `values` gives attributes (the others keep their defaults) and sizes to fix as constants; all are integers but
    those of fractions.
    """
    decl, others = fix_fractions(decl, values), {n: int(v) for n, v in values.items() if n not in decl.fractions}
    return _build(decl, others)


def build_with_defaults(decl: s.KernelDecl) -> Kernel | None:
    """The kernel with 1 for attributes without a default; None where it is not well formed, reported elsewhere."""
    try:
        return build(decl, {name: 1 for name, value in decl.constants.items() if value is None})
    except TilegenError:
        return None


def _build(decl: s.KernelDecl, values: Mapping[str, int]) -> Kernel:
    try:
        return with_whole_rows(decl.equations, _kernel(decl, values))
    except SourceError as error:
        every = (error, *error.others)
        nested = [each for each in every if isinstance(each, NestedReduction)]
        if others := [each for each in every if each not in nested]:
            others[0].others = ()
            raise join_errors(others) from None  # where all else is right, reductions may stand where they stand
        written = write_out(decl, nested[0], lambda other: _kernel(other, values))
    return _build(written, values)


def _kernel(decl: s.KernelDecl, values: Mapping[str, int]) -> Kernel:
    index = _constants(decl, values)
    sizes = tuple(n for n in decl.size_names() if n not in values)
    index |= {n: var(n) for n in sizes}
    declared = _declare_parameters(decl, index)
    scalars = {name: one for name, one in declared.items() if isinstance(one, Scalar)}
    tensors = {name: one for name, one in declared.items() if isinstance(one, Tensor)}
    assumptions = _assumptions(decl, index, declared)
    words = [words_of(equation, index, declared) for equation in decl.equations]
    used = Counter(word for w in words for word in w.all())
    behind = _tensors_behind(decl.equations)
    equations: list[Equation] = []
    done: dict[str, s.Assign] = {}
    collected = Collected()
    for equation, own in zip(decl.equations, words, strict=True):
        target = equation.target.base.text
        with collected:
            check_left(equation, tensors, scalars, done)
            names = {word: word if used[word] == 1 else f"{target}.{word}" for word in own.all()}
            defined, circle = frozenset(done), frozenset(name for name, needed in behind.items() if target in needed)
            built = _equation(
                decl, equation, own, names, index, tensors, scalars, defined, circle, assumed=bool(assumptions)
            )
            if built.best:
                tensors[built.best] = _tensor_of_best(tensors[target], built)
            equations.append(built)
        done |= {side.base.text: equation for side in (equation.target, equation.kept) if side}
    collected.raise_any()
    for param in (*decl.outputs, *decl.variables):
        if param.name.text not in done:
            raise SourceError(
                f"'{param.name.text}' has no equation", param.span, notes=(f"write {param.name.text}[...] = ...",)
            )
    different, rising = promises_of(decl, tensors, index)
    meant, slack = claims_of(decl, lambda other: _build(other, values))
    return Kernel(
        decl.name,
        sizes,
        tuple(tensors.values()),
        tuple(equations),
        assumptions,
        tuple(scalars.values()),
        tuple(param.name.text for param in decl.inputs),
        different=different,
        rising=rising,
        meant=meant,
        slack=slack,
        beside=tuple(beside_of(decl.beside, declared.values(), index)),
        span=decl.span,
    )


def _constants(decl: s.KernelDecl, values: Mapping[str, int]) -> dict[str, Affine]:
    """The attributes and the fixed sizes."""
    sizes = decl.size_names()
    for name, value in values.items():
        if name not in decl.attributes and name not in sizes:
            known = [*sizes, *decl.attributes]
            notes = did_you_mean(name, known, "it has")
            raise UsageError(f"the kernel '{decl.name}' has no size or attribute '{name}'", notes=notes)
        if name in sizes and value < 1:
            raise UsageError(f"size {name} is {value}, and sizes are at least 1")
    attributes = {}
    for name, default in decl.attributes.items():
        given = values.get(name, default)
        if given is None:
            raise SourceError(
                f"the attribute '{name}' of '{decl.name}' has no value",
                decl.span,
                notes=(f"give it one ({name}=1), or a default in the kernel: {name}: int = 1",),
            )
        attributes[name] = const(given)
    return attributes | {n: const(values[n]) for n in sizes if n in values}


def _declare_parameters(decl: s.KernelDecl, index: Mapping[str, Affine]) -> dict[str, Tensor | Scalar]:
    """The tensors and scalars by name, in order."""
    groups = ((decl.inputs, "input"), (decl.outputs, "output"), (decl.variables, "intermediate"))
    found: dict[str, Tensor | Scalar] = {}
    for params, role in groups:
        for param in params:
            name = param.name.text
            if role == "output" and _is_input(found.get(name)):
                found = _with_update_in_place(found, param, index)
                continue
            if name in found:
                raise SourceError(f"'{name}' is declared twice", param.name.span)
            if name in index:
                raise SourceError(f"'{name}' is both {_kind(param)} and a size or attribute", param.name.span)
            if name in _RESERVED or name in decl.functions:
                raise SourceError(f"'{name}' has a meaning already; take another name", param.name.span)
            found[name] = _parameter(param, role, index)
    return found


def _is_input(declared: Tensor | Scalar | None) -> bool:
    return isinstance(declared, Tensor) and declared.role == "input"


def _with_update_in_place(
    found: dict[str, Tensor | Scalar], param: s.Param, index: Mapping[str, Affine]
) -> dict[str, Tensor | Scalar]:
    """`found` with an input that is also an output under two names, for its old and for its new values."""
    name = param.name.text
    old, new = found[name], _parameter(param, "output", index)
    assert isinstance(old, Tensor)
    if replace(old, role="output") != new:
        raise SourceError(
            f"'{name}' is an input and an output, and is not declared alike in both places",
            param.span,
            notes=("what has another type, shape or order is another tensor, and has a name of its own",),
        )
    before = replace(old, name=old_of(name))
    renamed = ((before.name, before) if n == name else (n, one) for n, one in found.items())
    return dict(renamed) | {name: new}


def _kind(param: s.Param) -> str:
    return "a scalar" if param.shape is None else "a tensor"


def _parameter(param: s.Param, role: str, index: Mapping[str, Affine]) -> Tensor | Scalar:
    name, dtype = param.name.text, param.type.text
    if dtype in ("int", "float"):
        raise SourceError(f"'{name}' is not an input and cannot be an attribute", param.span)
    if dtype not in DTYPES:
        notes = did_you_mean(dtype, DTYPES) or (f"the types are {', '.join(DTYPES)}, and int and float for attributes",)
        raise SourceError(f"there is no type '{dtype}'", param.type.span, notes=notes)
    if param.shape is None and role != "input":
        notes = (f"only an input can be a scalar; a tensor of one element is {dtype}[1]",)
        raise SourceError(f"'{name}' has no shape", param.span, notes=notes)
    if param.default is not None:
        raise SourceError("only an attribute has a default", param.default.span)
    if param.shape is None:
        if param.storage is not None:
            raise SourceError(f"'{name}' is a scalar and has no storage order", param.storage.span)
        return Scalar(name, dtype)
    if len(param.shape) > MOST_DIMENSIONS:
        raise SourceError(
            f"'{name}' has {len(param.shape)} dimensions; {MOST_DIMENSIONS} is the limit", param.name.span
        )
    shape = tuple(_extent(dim, index) for dim in param.shape)
    return Tensor(name, dtype, shape, role, _order(param, len(shape)), span=param.span)


def _extent(dim: s.Syntax, index: Mapping[str, Affine]) -> Affine:
    extent = affine_of(dim, index)
    if extent.is_const and extent.const < 1:
        raise SourceError(f"this extent is {extent.const}, and extents are at least 1", dim.span)
    return extent


def _order(param: s.Param, rank: int) -> tuple[int, ...]:
    """The dimensions from the slowest to the fastest."""
    rows = tuple(range(rank))
    match param.storage:
        case None | s.StorageOrder(s.Name("row_major"), None):
            return rows
        case s.StorageOrder(s.Name("col_major"), None):
            return rows[::-1]
        case s.StorageOrder(s.Name("order"), dims) if dims is not None:
            order = tuple(d.value for d in dims if isinstance(d, s.Num) and isinstance(d.value, int))
            if sorted(order) == list(rows) and len(dims) == rank:
                return order
            raise SourceError(
                f"this order does not list the dimensions {', '.join(map(str, rows))} once each",
                param.storage.span,
                notes=("it goes from the slowest dimension to the fastest; row-major is "
                       f"order({', '.join(map(str, rows))})",),
            )  # fmt: skip
        case storage:
            raise SourceError(
                f"there is no storage order '{storage.word.text}'",
                storage.span,
                notes=did_you_mean(storage.word.text, ["row_major", "col_major", "order"])
                or ("it is row_major, col_major or order(...)",),
            )


def _assumptions(decl: s.KernelDecl, index: Mapping[str, Affine], tensors: Declared) -> tuple[Condition, ...]:
    found: list[Condition] = []
    for fact in (each for each in decl.assumptions if not isinstance(each, s.Apply)):
        for condition in conditions_of(fact, index, tensors):
            truth = constant_truth(condition)
            if truth is False:
                raise SourceError("this fact does not hold for the values given", fact.span)
            if truth is None:
                found.append(condition)
    return tuple(dict.fromkeys(found))


def _tensors_behind(equations: Sequence[s.Assign]) -> dict[str, set[str]]:
    """By target, the tensors that its equation reads, and those that their equations read."""
    found = {
        equation.target.base.text: {v.base.text for v in walk(equation.value) if isinstance(v, s.Subscript)}
        for equation in equations
    }
    for middle in found:
        for reads in found.values():
            reads |= found[middle] if middle in reads else set()
    return found


def _equation(
    decl: s.KernelDecl,
    equation: s.Assign,
    words: IndexWords,
    names: Mapping[str, str],
    known: Mapping[str, Affine],
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Scalar],
    readable: frozenset[str],
    circle: frozenset[str],
    assumed: bool,
) -> Equation:
    target = tensors[equation.target.base.text]
    declared: Declared = {**tensors, **scalars}
    check_words(equation, words, {*known, *names}, declared)
    loops = loops_of(equation, words, names, known, declared, assumed)
    index = {**known, **loops.values}
    readable |= {t.name for t in tensors.values() if t.role == "input"}
    extents = {r.name: r.extent for r in (*loops.left, *loops.reduced)}
    scope = Scope(tensors, scalars, index, decl.functions, readable, target.name, circle, extents, decl.size_names())
    reduce, body = _split_reduction(equation)
    kept = hits_of(scope, equation, index, declared) if equation.kept else None
    value = kept[0] if kept else value_of(scope, body)
    best = arg = first = None
    if reduce in ("argmax", "argmin"):
        best = f"{target.name}.best"
        _check_arg(equation, words, target, value)
        places = tuple(loops.values[word] for word in words.reduced)
        arg, first = argmax_place_and_start(loops, places, target.dtype, equation.value.span)
    typed = adapt(value, target.dtype) if best is None else adapt_to_default(value)
    if best is None and kept is None:
        _check_type(equation, typed.dtype, target)
    if reduce is not None and typed.dtype in BYTE_FLOATS:
        note = f"cast what it reduces: {reduce}[...](f32(...))"
        raise not_computed_error(reduce, typed.dtype, equation.value.span, note)
    typed = in_ranges(scope, equation, _term(typed, target, reduce, loops.on_all_terms), reduce) if reduce else typed
    return Equation(
        target.name,
        tuple(affine_of(item, index, declared) for item in equation.target.items),
        loops.left,
        typed,
        reduce,
        loops.reduced,
        loops.conditions,
        best,
        arg,
        first,
        hits=kept[1] if kept else None,
        span=equation.span,
    )


def _term(term: Expr, target: Tensor, reduce: str, conditions: tuple[Condition, ...]) -> Expr:
    """The term, and what changes no result of the reduction where the conditions leave out all terms.

    Raises SourceError where the term reads the old values of the target, which the start of the reduction overwrites.
    """
    _check_not_reduced(term, target)
    truths = {constant_truth(c) for c in conditions}
    if truths <= {True}:
        return term
    if reduce in LISTS:
        return Op("and", (condition_of(conditions), term), "bool")
    if False in truths:
        return init_value(reduce, term.dtype)
    return Op("select", (condition_of(conditions), term, init_value(reduce, term.dtype)), term.dtype)


def _check_not_reduced(value: Expr, target: Tensor) -> None:
    """Raises SourceError where a reduction reads the old values of its target, which its start overwrites."""
    for load in loads(value):
        if load.buffer == old_of(target.name):
            raise SourceError(
                f"the reduction that defines '{target.name}' reads its old values, which its start overwrites",
                load.span,
                notes=(f"reduce to a tensor of its own, var t: ..., and update with that: {target.name}[...] = "
                       f"{target.name}[...] + t[...]",),
            )  # fmt: skip


def _split_reduction(equation: s.Assign) -> tuple[str | None, s.Syntax]:
    """The reduction at the top of a right side, if there is one, and what it reduces."""
    value = equation.value
    if not isinstance(value, s.Reduction):
        return None, value
    return value.word.text, value.body


def _check_arg(equation: s.Assign, words: IndexWords, target: Tensor, value: Typed) -> None:
    assert isinstance(equation.value, s.Reduction)
    word = equation.value.word.text
    if target.dtype not in INTEGERS:
        notes = (f"declare {target.name}: i32[...]",)
        raise SourceError(f"'{word}' gives an index, and '{target.name}' is {target.dtype}", equation.span, notes=notes)
    if not isinstance(value, Literal | Open) and value.dtype == "bool":
        raise SourceError(f"'{word}' compares numbers, not conditions", equation.value.body.span)


def _check_type(equation: s.Assign, dtype: str, target: Tensor) -> None:
    if dtype == target.dtype:
        return
    what = f"{equation.value.word.text}[...]" if isinstance(equation.value, s.Reduction) else "the right side"
    if dtype == "bool":
        notes = (f"write {target.dtype}(...), or a choice: 1 if ... else 0",)
        raise SourceError(
            f"the right side is a condition, and '{target.name}' is {target.dtype}", equation.span, notes=notes
        )
    cast = f"{target.dtype}(...)"
    note = f"cast it: {cast}"
    if isinstance(equation.value, s.Reduction):
        note = f"cast what it reduces: {equation.value.word.text}[...]({cast}), and the sum is {target.dtype} too"
    raise SourceError(f"{what} is {dtype}, and '{target.name}' is {target.dtype}", equation.span, notes=(note,))


def _tensor_of_best(target: Tensor, equation: Equation) -> Tensor:
    """The tensor that holds the best value found by an argmax or argmin."""
    assert equation.best
    return Tensor(equation.best, equation.value.dtype, target.shape, "intermediate", target.order, span=target.span)
