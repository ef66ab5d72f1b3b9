"""Faults put into the printed text, one at a time: each is a pattern, and what stands in its place.

`results` reads faulty texts back, CUDA's and OpenCL's (reader/readback.py). `ran` asks what there is without
that: some faulty OpenCL texts are compiled, and run under Oclgrind.
"""

from __future__ import annotations

import re

from tests.support.devices.on_simulator import Job, edit_text, run_all, split_helpers
from tests.support.mutants import list_faults, place_faults, ragged_faults, warp_faults
from tests.support.reader.readback import difference
from tilegen.backends.text import emit
from tilegen.ir.affine import Div
from tilegen.ir.walk import loops
from tilegen.lowering import lower

_BARRIER = r"(?:barrier|__syncthreads)\(.*\n"
# fault -> what it looks for in the text, and what stands there then; of some kinds there are several
FAULTS = {
    "barrier dropped": [(rf"^ *{_BARRIER}", "")],
    "barrier moved": [
        (rf"^( *{_BARRIER})(\s*)(.*\{{\n)", r"\3\2\1"),
        (rf"^( *\}}\n)(\s*)( *{_BARRIER})", r"\3\2\1"),
    ],
    "copies not waited for": [(r"^ *wait_copies.*\n", ""), (r"wait_copies<(\d)>", r"wait_copies<1\1>")],
    "group of copies not ended": [(r"^ *end_copies\(\);\n", "")],
    "bound off by one": [
        (r"(for \((?:int|long|long long) (\w+) = 0; \2 )<(?= )", r"\1<="),
        (r"(for \(.*? < )(.*)(; \+\+)", r"\1\2 - 1\3"),
        (r"(for \(.*?) = 0;", r"\1 = 1;"),
    ],
    "tail guard gone": [(r"if \(.*\) \{", "if (true) {"), (r"(if \(.*?) &&? .*\) \{", r"\1) {")],
    "guard off by one": [(r"(if \(.*?) < ", r"\1 <= "), (r"(const bool \w+ = .*?) < ", r"\1 - 1 < ")],
    "wrong shared index": [
        (r"(_shared\[)(?=[^\d\]]+\])", r"\g<1>1 + "),
        (r"^(?! *(?:__shared__|__local))(.*_shared)\[(\w+)\]\[(\w+)\]", r"\1[\3][\2]"),
    ],
    "wrong global index": [
        (r"\b([A-Z]\w*\[)(?=[^\]]* )", r"\g<1>1 + "),
        (r"^( *const (?:int|long|long long) \w+ = )(?=x\w*\[)", r"\g<1>1 + "),
    ],
    "wrong pitch": [(r"\) \* ([A-Z])\b", r") * (\1 + 1)")],
    "wrong pad": [(r"^( *(?:__shared__|__local).*)\[(\d+)\]( __attribute.*)?;", r"\1[\2 + 1]\3;")],
    "wrong swizzle": [
        (r"(_shared[^;=]*\[)([^\[;=]*) \^ [^\];=]*\]", r"\1\2]"),
        (r"& (\d+)(?=[ )<\d]*\])", r"& (\1 >> 1)"),
        (r" \^ \(([^;\]\n]*)\)(?=\])", r" ^ (1 + \1)"),
    ],
    "copy too small": [(r"^( *(?:__shared__|__local)[^\[]*)\[(\d+)\]", r"\1[\2 - 1]")],
    "missing initialisation": [(r" = 0(\.0f)?;(?!.*\+\+)", ";"), (r"^ *.* = 0\.0f;\n", "")],
    "doubled reduction": [(r"^( *[\w.]+(?:\[.*\])* \+= .*;\n)", r"\1\1")],
    "register element shared": [(r"(_reg)((?:\[.*?\])*)\[\w+\](?= [-+*=;])", r"\1\2[0]")],
    "vector misaligned": [
        (r"(4 ?\*>?\)\(?&[\w.]+(?:\[\w+\])*\[)", r"\g<1>1 + "),
        (r" __align__\(16\)(?= \w+ \w+\[)| __attribute__\(\(aligned\(16\)\)\)", ""),
    ],
    "vector of another width": [(r"float4(?=\*)", "float2"), (r"copy_async<16>", "copy_async<8>")],
    "wrong lane of a vector": [(r"_vec(\d*)\.[xs][0]?(?= |;)", r"_vec\1.y")],
    "stale buffer": [(r"\[\((\w+) \+ \d\) % (\d)\]", r"[\1 % \2]"), (r"\[(\w+) % (\d)\]", r"[(\1 + 1) % \2]")],
    "swapped loops or statements": [
        (r"^( *for .*\n)(\s*#pragma.*\n|)( *for .*\n)", r"\3\2\1"),
        (r"^(?! *const )( *[\w\[\]. ]+ [+*]?= .*;\n)(?! *const )( *[\w\[\]. ]+ [+*]?= .*;\n)", r"\2\1"),
    ],
    "wrong call": [(r"^( *\w*(?:multiply|load_|store_|update_)\w*\((?:.*, )?)(?=[^,&\n]+\);\n)", r"\g<1>1 + ")],
    "wrong coordinate": [
        (r"\bget_group_id\(\d\)", "0 * get_group_id(0)"),
        (r"\b(block|thread)Idx\.x", r"\1Idx.y"),
        (r"get_local_id\(0\)", "get_local_id(1)"),
        (r"(const \w+(?: long)? tid = .*?) \* (\d+)", r"\1 * 2 * \2"),
    ],
    "wrong size of a block": [(r"(reqd_work_group_size\(|__launch_bounds__\()(\d+)", r"\g<1>1\2")],
    "store-back missing": [(r"^ *[A-Za-z]\w*\[.*\] = \w+_reg.*;\n", "")],
    "wrong value": [(r" \+= (.*) \* ", r" += \1 + "), (r"(= .*\]) - ", r"\1 + "), (r" (<) (\w+_best\w*\))", r" > \2")],
    "narrowed offset": [
        (r"\blong(?: long)? (\w+)(?=[,)])", r"int \1"),
        (r"for \(long(?: long)? ", "for (int "),
        (r"const long(?: long)? ", "const int "),
    ],
    "wrong exchange of lanes": [
        (r"_of_lanes<(\d+)>", r"_of_lanes<2\1>"),
        (r"_lanes_of, (.*?), (\d+), ", r"_lanes_of, \1, 2 * \2, "),
        (r"\b(sum|max)(?=_of_(?:\w+_)?lanes)", "min"),
    ],
    "atomic update made plain": [(r"atomic\w+\(&([^;]*),\s+(\w+(?:\[[^;,]*\])*)\);", r"\1 += \2;")],
    "undeclared name": [(r"\b(threadIdx|get_local_id)\b", "laneIdx")],
    **place_faults.TEXT_FAULTS,
    **warp_faults.TEXT_FAULTS,
    **list_faults.TEXT_FAULTS,
    **ragged_faults.TEXT_FAULTS,
}

# What changes no result when it runs, and why: the reading alone sees it.
_TWICE = "all distances twice as large have the same order"
_FIRST = "the first candidate replaces the index, whatever it was"
_IDLE = "one round more, in which every test fails"
ALIKE = {
    ("matching.fused", "doubled reduction"): _TWICE,
    ("matching.two_launches", "doubled reduction"): _TWICE,
    ("matching.fused", "missing initialisation"): _FIRST,
    ("matching.tiled", "missing initialisation"): _FIRST,
    ("matching.tiled", "bound off by one"): _IDLE,
    ("conv1d.shared", "bound off by one"): _IDLE,
    ("gemm.tiled", "bound off by one"): _IDLE,
}
# The kinds of which one each is run, in OpenCL.
RUN = (
    "barrier dropped", "bound off by one", "wrong shared index", "missing initialisation", "doubled reduction",
    "undeclared name", "wrong coordinate", "store-back missing",
)  # fmt: skip


def versions(base):
    """(language, launches, their text) of all that is read back."""
    for language in ("cuda", "opencl"):
        for wide in (False, True):
            launches = lower(base.tree, wide=wide, instructions=language == "cuda")
            # A fault in what is said in front of an instruction or of a kernel is none.
            yield language, wide, launches, re.sub(r"^//.*\n", "", emit(launches, language), flags=re.M)


def edits(text, each):
    """(fault, number, edit) for at most `each` places of each pattern, spread over the text."""
    for fault, patterns in FAULTS.items():
        count = 0
        for pattern, new in patterns:
            places = len(re.findall(pattern, split_helpers(text)[1], re.MULTILINE))
            for n in range(0, places, max(1, -(-places // each))):
                yield fault, count, (pattern, new, n)
                count += 1


def results(base, each):
    """[(fault, number, net)]: the texts in both languages, read back. The wide version has the offsets to narrow."""
    found = []
    for language, wide, launches, text in versions(base):
        for fault, number, edit in edits(text, each):
            faulty = edit_text(text, edit)
            if faulty != text and wide == (fault == "narrowed offset"):
                caught = difference(faulty, launches, language) is not None
                found += [(fault, f"{language} {number}", "the text read back" if caught else None)]
    return found


def ran(base):
    """[(fault, number, net)]: one of each kind in RUN, compiled and run, by the nets that do not read."""
    text = emit(lower(base.tree, instructions=False), "opencl")
    chosen = {fault: edit for fault, number, edit in edits(text, 1) if fault in RUN and number == 0}
    sizes = (*base.sizes, *whole_tiles(base.tree))
    outcomes = run_all([Job(base.name, base.tree, sizes, edit) for edit in chosen.values()])
    found = []
    for fault, outcome in zip(chosen, outcomes, strict=True):
        net = _net(outcome)
        found += [(fault, 0, "equivalent" if net is None and (base.name, fault) in ALIKE else net)]
    return found


def whole_tiles(tree):
    """Sizes at which there are two blocks, and whole tiles in each; a convolution has them already."""
    if len(tree.kernel.sizes) > 4:
        return ()
    extents = [e for launch in lower(tree) for blocks in launch.grid for e in blocks.factors]
    extents += [loop.extent for loop in loops(tree.body)]
    sizes = dict.fromkeys(tree.kernel.sizes, 16)
    for atom in (a for e in extents for a, _ in e.terms if isinstance(a, Div)):
        for size in atom.arg.names() & sizes.keys():
            sizes[size] = max(sizes[size], 2 * atom.by)
    return (sizes,)


def _net(outcome):
    """The compiler, then the simulator's own checks, then the result."""
    if outcome.refused:
        return "the compiler"
    if outcome.report:
        return "Oclgrind"
    return "a wrong result" if outcome.wrong else None
