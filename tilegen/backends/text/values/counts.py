"""A name for the number of iterations of a loop, where the text asks for it often: `ko_count` for (K + TK - 1) / TK."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tilegen.ir.affine import Affine, Atom, Div
from tilegen.ir.printing.reserved_words import fresh
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import For

OFTEN = 3  # index expressions with a number that is worth a name


def counts_of_loops(launch: Launch, names: Mapping[str, str]) -> dict[Atom, str]:
    """The rounded quotients of sizes that loops of `launch` run to, each with a name beside `names`."""
    sizes = frozenset(launch.kernel.sizes)
    loops: dict[Atom, str] = {}
    for node in launch.nodes:
        match node:
            case For(name, extent=Affine(((Div(arg) as atom, 1),), 0 | -1)) if arg.names() and arg.names() <= sizes:
                loops.setdefault(atom, name)
    asked: Counter[Atom] = Counter(
        atom for v in launch.inside if loops and isinstance(v, Affine) for atom in {*v.divisions()}
    )
    taken = {*names.values(), launch.name}
    return {atom: fresh(f"{names[name]}_count", taken) for atom, name in loops.items() if asked[atom] >= OFTEN}
