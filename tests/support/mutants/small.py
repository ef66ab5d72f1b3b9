"""The stock schedules with tiles as small as their steps allow, so that sizes around them are quickly enumerated."""

from __future__ import annotations

import re

from tests.support.stock import find, schedule_stock, stock
from tilegen.lowering import lower
from tilegen.proof import prove

SMALL = {
    "T": 4, "TS": 4, "TI": 4, "TJ": 2, "TD": 2, "TM": 8, "TN": 8, "TK": 4, "WM": 2, "WN": 2, "W": 2, "WPT": 2,
    "TSM": 4, "TSN": 4, "TSK": 4, "WPTN": 2, "ROWS": 2, "TY": 2, "TX": 4, "WF": 2, "TC": 4,
}  # fmt: skip
# A product in warps: two of them, each with the fewest rows and columns that its lanes have.
WARPS = {"TM": 16, "TN": 64, "TK": 4, "WI": 1, "WJ": 2, "KP": 8}
REGISTERS = {"TM": 32, "TN": 16, "TK": 4, "WM": 4, "WN": 4}
# A patch of a convolution: several filters, rows and columns a thread, four lanes.
PATCH = {"TF": 8, "TY": 4, "TX": 4, "LANES_F": 2, "LANES_X": 2, "OWN_F": 2, "OWN_Y": 2, "OWN_X": 2, "STORE": 2}
WARP_TILES = {"TM": 32, "TN": 16, "TK": 16, "WM": 16, "WN": 16}  # by tensor cores: two fragments a warp
PRODUCT = {"TM": 64, "STAGES": 2, "KP": 128, "GZ": 2}  # by one warpgroup
PIPELINED = WARP_TILES | {"TN": 32, "WM": 32, "TK": 32}
# What the steps of a schedule allow where it is not SMALL, and the constants of its kernel: of the first that matches.
FITTING = {
    r"block_scaled\..*": {"STAGES": 2},
    r"columns\..*": {"L": 32, "WARPS": 2, "U": 2, "PART": 16},
    r"conv1x1\.product": {"TF": 16, "TP": 64, "TC": 4},
    r"conv2d\.patches": PATCH | {"TN": 2, "TC": 2},
    r"conv2d\.deep": PATCH | {"LANES_F": 4, "LANES_X": 1, "OWN_F": 1, "OWN_X": 4, "TC": 2},
    r"conv2d\.strided": PATCH,
    r"(conv2d_winograd\.products|transposed_winograd\.wide)": {
        "H": 4, "W": 6, "TH": 1, "TW": 2, "COUNT": 4, "WIDTH": 2, "TF": 16, "TP": 32, "TC": 2, "WF": 1, "WP": 1,
    },
    r"(gemm|syrk)\.(registers|strided)": REGISTERS,
    r"gemm\.padded.*": WARPS | {"TN": 32, "WJ": 1},
    r"gemm_pieces\.two_f16": {"TM": 128, "STAGES": 2, "WARPS": 2, "H": 2, "HB": 4},
    r"gemm_pieces\..*": {"TM": 128, "STAGES": 2, "H": 2},
    r"gemm.*\.(warps|pipelined|across|transposed.*|whole_rows|fused.*|split_.*|atomic)": WARPS,
    r"grouped\.overlapped": PIPELINED,
    r"grouped\.ping_pong": {"TM": 64, "STAGES": 2},
    r"grouped\.balanced": {"TN": 64, "STAGES": 2},
    r"grouped\.scaled": {"STAGES": 2},
    r"hconv.*\.warps": {"TN": 1, "TY": 2, "TX": 8, "TF": 16, "TC": 16, "WM": 16, "WF": 16, "STAGES": 2},
    r"hconv.*\.more_filters": {"TX": 4, "STAGES": 2},
    r"hconv\.windows": {"TY": 2, "TX": 16, "WY": 1},
    r"hconv\.warpgroups": {"TY": 8, "TX": 8},
    r"hconv\.(product|padded_warps|loaded)": PIPELINED,
    r"hconv\.turned": {"TN": 64, "STAGES": 2},
    r"hconv\.(persistent.*|whole_tiles|ping_pong_early|launched_early|split_early|padded_product)": PRODUCT,
    r"(hconv|conv_pieces).*\.(?!naive).*": {"TN": 1, "STAGES": 2},
    r"hgemm\.fragments": {"TM": 16, "TN": 8},
    r"hgemm\.(shared|ldmatrix|swizzled|pipelined)": WARP_TILES,
    r"hgemm\.bytes": PIPELINED | {"TK": 64},
    r"hgemm\.(hgemm_(f16|nt)\.)?(overlapped|staged|padded)": PIPELINED,
    r"hgemm\.(sums|rounded|cut_off(_transposed)?|(.*_)?stored)": PIPELINED,
    r"hgemm\..*\.fused": PIPELINED,
    r"hgemm\.turned_large": {"TN": 128, "STAGES": 2},
    r"hgemm\.turned_.*": {"TN": 64, "STAGES": 2},
    r"(epilogues|matching_products|hgemm)\.(?!naive).*": PRODUCT,
    r"(layer_norm|row_argmax|row_sum|softmax)\.warps": {"N": 256, "R": 2},  # two vectors a lane, two warps
    r"(layer_norm|row_argmax|row_sum|softmax)\.blocks": {"N": 512, "WARPS": 2},
    r"matching_dot\..*": {"TM": 32, "TN": 64},
    r"nbody\.(coarsened|split)": {"T": 4, "C": 2, "TJ": 4, "U": 2, "PART": 8},
    r"scan\..*": {"R": 2, "WARPS": 2, "PART": 256, "T": 4},
    r"sparse\.fragments": {"WF": 16, "WARPS": 2},
    r"sparse\.through_shared": {"P": 2, "B": 2, "WARPS": 2, "STAGES": 2},
    r"topk\.tiles": {"N": 128, "K": 2, "S": 32, "TILES": 2, "U": 2},
    r"total\..*": {"PART": 4096},
    r"transpose\.vectors": {"TS": 32, "ROWS": 16},
}  # fmt: skip
# Sizes of the kernel, in turn, where those around the tiles would take minutes; vectors take the last ones.
FEW = {
    "block_scaled": ((5, 128, 3), (4, 256, 8)),
    "conv_pieces": ((1, 3, 2), (1, 2, 8, 8, 8)),
    "conv_pieces_first": ((1, 3, 2), (1, 8, 2, 3, 8)),
    "epilogues": ((11, 13, 9), (9, 32, 16)),
    "gemm_pieces": ((3, 1, 2), (9, 8, 16)),
    "grouped.balanced": ((5, 70, 2, 9), (4, 64, 3, 8)),
    "grouped.scaled": ((5, 128, 2, 3), (4, 256, 3, 8)),
    "hconv": ((1, 3, 2), (1, 2, 8, 8, 8, 8)),
    "hconv_first": ((1, 3, 2), (1, 8, 2, 3, 8)),
    "hgemm": ((11, 13, 9), (9, 32, 16)),
    "conv2d_winograd": ((1,), (1, 3, 2), (2, 1, 4)),
    "transposed_winograd": ((1,), (1, 3, 2), (2, 1, 4)),
    "layer_norm": ((1,), (3,)),
    "matching_dot": ((1,), (3, 2), (4,)),
    "matching_products": ((3, 2), (4,)),
    "row_argmax": ((1,), (3,)),
    "row_sum": ((1,), (3,)),
    "recurrence": ((1, 1), (3, 259), (2, 260)),
    "scan": ((1, 1), (3, 259), (2, 260)),
    "softmax": ((1,), (3,)),
    "sparse.fragments": ((3, 2), (4, 2, 3, 17)),
    "sparse.panels": ((3, 2), (2, 1, 2, 4)),
    "sparse.through_shared": ((3, 2, 5), (2, 3, 8)),
    "topk": ((1,), (3,)),
}


def tiles(name, schedule):
    """The constants of the kernel and the parameters that a stock schedule takes to have small tiles."""
    found = find(name, schedule)
    fitting = (values for pattern, values in FITTING.items() if re.fullmatch(pattern, f"{name}.{schedule}"))
    chosen = next(fitting, SMALL).items()
    parameters = {p.name for p in found.parameters}
    constants = stock(name).kernels[found.kernel].attributes.keys() - parameters
    return (
        tuple((n, value) for n, value in chosen if n in constants),
        tuple((n, value) for n, value in chosen if n in parameters),
    )


def small(name, schedule):
    """The tree of a stock schedule with small tiles; each version of it is proved."""
    tree = schedule_stock(name, schedule, *tiles(name, schedule)).tree
    for vector in (True, False):
        proof = prove(tree.kernel, lower(tree, vector=vector), tree.reassociated)
        assert proof.verdict == "proved", f"{name}.{schedule}: {proof.verdict}"
    return tree
