"""Names for where a thread's share of a copy lies: `i` and `k` instead of l*64 + tid/4 and tid%4 all over."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.walk import rewrite_indices, walk
from tilegen.lowering.launch.program import For, Let, Spmd, names_in, with_body, with_lists
from tilegen.lowering.threads.distribute import Shares


def named_places(body: tuple[Spmd, ...], shares: Mapping[str, Shares]) -> tuple[Spmd, ...]:
    """`body` with the copy's own loop names inside each dealt loop; a loop of one round becomes its body, after which
    what is copied back has the same places."""
    out: list[Spmd] = []
    for node in body:
        match node:
            case For(name=name) if name in shares:
                inner = _name_indices(named_places(node.body, shares), node, shares[name])
                inner = inner if node.extent == const(1) else (with_body(node, inner),)
                out += [each for each in inner if not (isinstance(each, Let) and each in out)]
            case _:
                out.append(with_lists(node, lambda inner: named_places(inner, shares)))
    return tuple(out)


def _name_indices(body: tuple[Spmd, ...], loop: For, shares: Shares) -> tuple[Spmd, ...]:
    """`body` after the names that it uses. A loop variable inside a division gets the element's number."""
    name, element = loop.name, f"{loop.name[:-1]}e"
    first = {name: const(0)} if loop.extent == const(1) else {}
    values = {n: v.substitute(first) for n, v in shares.values.items() if any(v.divisions())}
    mixed = any(name in atom.arg.names() for v in values.values() for atom, _ in v.terms if not isinstance(atom, str))
    shown = shares.of_element() if mixed else values
    for place, value in values.items():
        body = _fold_value(body, place, value)
    used = names_in(walk(body))
    lets = [Let(place, shown[place]) for place in values if place in used]
    if mixed:
        body = _fold_value(body, element, shares.element)
        lets = [Let(element, shares.element), *lets]
    return (*lets, *body)


def _fold_value(body: tuple[Spmd, ...], name: str, value: Affine) -> tuple[Spmd, ...]:
    """`body` with `name` wherever a multiple of `value` stands in a sum."""
    # A division tells the value from other sums; the number of an element follows from its thread.
    key = next((atom for atom, _ in value.terms if not isinstance(atom, str)), value.terms[-1][0])
    factor = dict(value.terms)[key]

    def fold(part: Affine) -> Affine:
        found = dict(part.terms).get(key, 0)
        if not found or found % factor:
            return part
        new = part - value * (found // factor) + var(name) * (found // factor)
        return new if len(new.terms) <= len(part.terms) else part

    return rewrite_indices(body, fold)
