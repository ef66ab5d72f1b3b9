"""Faults put into the printed text, one at a time: the OpenCL text, compiled and run by the simulator here."""

from __future__ import annotations

import re

from on_simulator import Job, run_all

from tilegen.backends.text import emit
from tilegen.ir.walk import loops
from tilegen.lowering import lower

# fault -> what it looks for in the text, and what stands there then
FAULTS = {
    "barrier dropped": (r"^ *barrier\(.*\n", ""),
    "bound off by one": (r"(for \(int (\w+) = 0; \2 )<(?= )", r"\1<="),
    "wrong shared index": (r"(_shared\[)(?=[^\d\]]+\])", r"\g<1>1 + "),
    "missing initialisation": (r" = 0(\.0f)?;(?!.*\+\+)", ";"),
    "doubled reduction": (r"^( *[\w.]+(?:\[.*\])* \+= .*;\n)", r"\1\1"),
    "undeclared name": (r"\bget_local_id\(", "get_lane_id("),
    "wrong coordinate": (r"\bget_group_id\(\d\)", "0 * get_group_id(0)"),
    "store-back missing": (r"^ *[A-Za-z]\w*\[.*\] = \w+_reg.*;\n", ""),
}


# Mutants that change no result, and why.
ALIKE = {
    ("matching.fused", "doubled reduction", 0): "all distances twice as large have the same order",
    ("matching.two_launches", "doubled reduction", 0): "all distances twice as large have the same order",
    ("matching.fused", "missing initialisation", 0): "the first candidate replaces the index, whatever it was",
    ("matching.tiled", "missing initialisation", 0): "the first candidate replaces the index, whatever it was",
}


def results(base, each):
    """[(fault, number, net)]: at most `each` of a kind, spread over its places, and what catches it first."""
    text = emit(lower(base.tree), "opencl")
    chosen = []
    for fault, (pattern, new) in FAULTS.items():
        places = len(re.findall(pattern, text, re.MULTILINE))
        chosen += [(fault, n, (pattern, new, n)) for n in range(0, places, max(1, -(-places // each)))]
    jobs = [Job(base.name, base.tree, (*base.sizes, *_whole_tiles(base.tree)), edit) for _, _, edit in chosen]
    nets = [_net(outcome) for outcome in run_all(jobs)]
    return [
        (f, n, "equivalent" if net is None and (base.name, f, n) in ALIKE else net)
        for (f, n, _), net in zip(chosen, nets, strict=True)
    ]


def _whole_tiles(tree):
    """Sizes at which there are several blocks, and whole tiles in each; a convolution has them already."""
    if len(tree.kernel.sizes) > 4:
        return ()
    wide = any(loop.name == "lane" for loop in loops(tree.body))
    return ({size: 16 for size in tree.kernel.sizes} if not wide else {"M": 64, "N": 136, "K": 64},)


def _net(outcome):
    """The compiler, then the simulator's own checks, then the result."""
    if outcome.refused:
        return "the compiler"
    if outcome.report:
        return "Oclgrind"
    return "a wrong result" if outcome.wrong else None
