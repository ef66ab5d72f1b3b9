"""From the parse tree of a kernel to its declaration."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from tilegen.errors import SourceError
from tilegen.frontend.equations.lists import counting
from tilegen.frontend.equations.ragged import by_rows
from tilegen.frontend.parsing.expressions import convert, convert_all, name
from tilegen.frontend.parsing.place import Branch, Place, branch, branches, rule, token
from tilegen.frontend.syntax import (
    Assign,
    BesideLine,
    ClaimDecl,
    FunctionDecl,
    KernelDecl,
    Num,
    Param,
    StorageOrder,
    Subscript,
    Syntax,
    Unary,
)


def kernel(place: Place, tree: Branch, functions: dict[str, FunctionDecl]) -> KernelDecl:
    """The declaration of a kernel, which may call the functions. Raises SourceError."""
    _, word, _, params, _, _, outputs, where, *lines = tree.children
    given = _params(place, params) if params is not None else []
    variables: list[Param] = []
    equations: list[Assign] = []
    claims: list[ClaimDecl] = []
    beside: list[BesideLine] = []
    for line in branches(lines):
        match rule(line):
            case "variables":
                variables += _params(place, line)
            case "equation":
                equations.append(_equation(place, line, given))
            case "claim":
                claims.append(_claim(place, line))
            case "beside":
                beside.append(_beside(place, line))
            case other:
                raise TypeError(other)
    attributes = [p for p in given if p.type.text in ("int", "float")]
    for number, param in enumerate(attributes):
        if param.name.text in [other.name.text for other in attributes[:number]]:
            raise SourceError(f"'{param.name.text}' is declared twice", param.name.span)
    span = place.of(token(word))
    return KernelDecl(
        name=str(word),
        inputs=tuple(p for p in given if p not in attributes),
        outputs=tuple(_params(place, outputs)),
        variables=tuple(variables),
        assumptions=convert_all(place, where) if where is not None else (),
        equations=tuple(equations),
        claims=tuple(claims),
        attributes={p.name.text: _integer(p) for p in attributes if p.type.text == "int"},
        functions=functions,
        doc=place.doc_above(span),
        span=span,
        beside=tuple(beside),
        fractions={p.name.text: _number(p) for p in attributes if p.type.text == "float"},
    )


def _beside(place: Place, tree: Branch) -> BesideLine:
    _, libraries, *texts, _, options, _ = tree.children
    lists = [branch(each).children[::2] if each is not None else [] for each in (libraries, options)]
    names = [tuple(name(place, word) for word in each) for each in (lists[0], texts, lists[1])]
    return BesideLine(names[0], names[1], names[2], place.of(tree))


def _params(place: Place, node: Branch | Token | None) -> list[Param]:
    return [_param(place, p) for p in branches(branch(node).children)]


def _param(place: Place, tree: Branch) -> Param:
    word, _, type_, _, shape, _, storage, _, default = tree.children
    return Param(
        name(place, word),
        name(place, type_),
        convert_all(place, shape) if shape is not None else None,
        _storage(place, branch(storage)) if storage is not None else None,
        convert(place, branch(default)) if default is not None else None,
        place.of(tree),
    )


def _storage(place: Place, tree: Branch) -> StorageOrder:
    word, _, dims, _ = tree.children
    return StorageOrder(name(place, word), convert_all(place, dims) if dims is not None else None, place.of(tree))


def _number(param: Param) -> float | None:
    """The default of an attribute. Raises SourceError where it is no number."""
    if param.shape is not None or param.storage is not None:
        raise SourceError(f"'{param.name.text}' is an attribute, one number; it has no shape", param.span)
    match param.default:
        case None:
            return None
        case Num(value) | Unary("+", Num(value)):
            return value
        case Unary("-", Num(value)):
            return -value
        case other:
            raise SourceError(f"the default of '{param.name.text}' is no number", other.span)


def _integer(param: Param) -> int | None:
    """The default of an integer attribute. Raises SourceError where it is not an integer."""
    name, value = param.name.text, _number(param)
    if isinstance(value, float):
        assert param.default
        notes = (f"a number with a fraction is {name}: float, or given in each call: {name}: f32",)
        raise SourceError(f"the default of '{name}' is not an integer", param.default.span, notes=notes)
    return value


def _equation(place: Place, tree: Branch, given: Sequence[Param]) -> Assign:
    target, _, value, _, condition, _ = tree.children
    left: Syntax = convert(place, branch(target))
    assert isinstance(left, Subscript)
    where = convert_all(place, condition) if condition is not None else ()
    return by_rows(counting(Assign(left, convert(place, branch(value)), None, place.of(tree))), where, given)


def _claim(place: Place, tree: Branch) -> ClaimDecl:
    target, _, value, _, slack, _ = tree.children
    left: Syntax = convert(place, branch(target))
    assert isinstance(left, Subscript)
    return ClaimDecl(
        left,
        convert(place, branch(value)),
        convert(place, branch(slack)) if slack is not None else None,
        place.of(tree),
    )
