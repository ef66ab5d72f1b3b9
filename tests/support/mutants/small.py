"""The stock schedules with tiles as small as their steps allow, so that sizes around them are quickly enumerated."""

from __future__ import annotations

from tests.support.stock import find, schedule_stock, stock
from tilegen.lowering import lower
from tilegen.proof import prove

SMALL = {
    "T": 4, "TS": 4, "TI": 4, "TJ": 2, "TD": 2, "TM": 8, "TN": 8, "TK": 4, "WM": 2, "WN": 2, "W": 2, "WPT": 2,
    "TSM": 4, "TSN": 4, "TSK": 4, "WPTN": 2, "ROWS": 2, "TY": 2, "TX": 4, "WF": 2, "TC": 4,
}  # fmt: skip
CONV_PIECES = ("promoted", "two_f16", "more_filters", "columns", "rows_of_boxes")
# A product in warps: two of them, each with the fewest rows and columns that its lanes have.
WARPS = {"TM": 16, "TN": 64, "TK": 4, "WI": 1, "WJ": 2, "KP": 8}
# A patch of a convolution: several filters, rows and columns a thread, four lanes.
PATCH = {"TF": 8, "TY": 4, "TX": 4, "LANES_F": 2, "LANES_X": 2, "OWN_F": 2, "OWN_Y": 2, "OWN_X": 2, "STORE": 2}
WARP_TILES = {"TM": 32, "TN": 16, "TK": 16, "WM": 16, "WN": 16}  # by tensor cores: two fragments a warp
ROW = {"N": 256, "R": 2}  # two vectors a lane, two warps
LONG_ROW = {"N": 512, "WARPS": 2}
# What the steps of a schedule allow where it is not SMALL; and the constants of its kernel.
FITTING = {
    "conv1x1.product": {"TF": 16, "TP": 64, "TC": 4},
    "conv2d.patches": PATCH | {"TN": 2, "TC": 2},
    "conv2d.deep": PATCH | {"LANES_F": 4, "LANES_X": 1, "OWN_F": 1, "OWN_X": 4, "TC": 2},
    "conv2d.strided": PATCH,
    "conv2d_winograd.products": {
        "H": 4, "W": 6, "TH": 1, "TW": 2, "COUNT": 4, "WIDTH": 2, "TF": 16, "TP": 32, "TC": 2, "WF": 1, "WP": 1,
    },
    "gemm.registers": {"TM": 32, "TN": 16, "TK": 4, "WM": 4, "WN": 4},
    "gemm.warps": WARPS,
    "gemm.pipelined": WARPS,
    "gemm.across": WARPS,
    "gemm.transposed": WARPS,
    "gemm.padded": WARPS | {"TN": 32, "WJ": 1},
    "gemm_bias_gelu.fused": WARPS,
    "gemm_bias_gelu.fused_shared": WARPS,
    **{f"conv_pieces.{rung}": {"TN": 1, "STAGES": 2} for rung in CONV_PIECES},
    **{f"conv_pieces_first.{rung}": {"TN": 1, "STAGES": 2} for rung in ("two_f16", "more_filters", "columns")},
    **{
        f"gemm_pieces.{rung}": {"TM": 128, "STAGES": 2, "GY": 2, "GX": 1, "H": 2}
        for rung in ("products", "promoted", "two_tf32")
    },
    "gemm_pieces.two_f16": {"TM": 128, "STAGES": 2, "GY": 2, "GX": 1, "WARPS": 2, "H": 2, "HB": 4},
    "gemm_split.split_k": WARPS,
    "gemm_split.split_transposed": WARPS,
    "gemm_split.atomic": WARPS,
    **{f"gemm_transposed.gemm_{form}.across": WARPS for form in ("nn", "nt", "tn", "tt")},
    **{
        f"{name}.warps": {"TN": 1, "TY": 2, "TX": 8, "TF": 16, "TC": 16, "WM": 16, "WF": 16, "STAGES": 2}
        for name in ("hconv", "hconv_first")
    },
    **{
        f"hconv.{rung}": {"TN": 1, "STAGES": 2}
        for rung in (
            "boxes", "whole_boxes", "columns", "rows_of_boxes", "wide_rows_of_boxes", "brain", "activated",
            "groups", "pixels", "rows_of_pixels", "pixels_early",
        )
    },
    "hconv.more_filters": {"TX": 4, "STAGES": 2},
    **{
        f"hconv_first.{rung}": {"TN": 1, "STAGES": 2}
        for rung in ("boxes", "columns", "wide_columns", "brain", "activated")
    },
    "hconv_first.more_filters": {"TX": 4, "STAGES": 2},
    "hconv.windows": {"TY": 2, "TX": 16, "WY": 1},
    "hconv.warpgroups": {"TY": 8, "TX": 8},
    "hgemm.fragments": {"TM": 16, "TN": 8},
    **{f"hgemm.{rung}": WARP_TILES for rung in ("shared", "ldmatrix", "swizzled", "pipelined")},
    **{
        f"hgemm.{rung}": WARP_TILES | {"TN": 32, "WM": 32, "TK": 32}
        for rung in (
            "overlapped", "staged", "padded", "half", "transposed", "sums", "rounded",
            "cut_off", "cut_off_transposed", "stored", "hgemm_bias_gelu.fused", "hgemm_residual.fused",
        )
    },
    **{
        f"hgemm.{rung}": {"TM": 64, "STAGES": 2}
        for rung in (
            "warpgroups", "half_warpgroups", "transposed_warpgroups", "sums_of_warpgroups", "bytes_by_warpgroups",
            "sums_in_turns", "e4m3_in_turns",
            "cut_off_rows_by_warpgroups", "cut_off_by_warpgroups", "e4m3_by_warpgroups", "promoted",
            "hgemm_bias_gelu.fused_warpgroups", "hgemm_residual.fused_warpgroups",
        )
    },
    **{f"hgemm.{rung}": {"TM": 64, "STAGES": 2, "KP": 128} for rung in ("split_k", "decoding", "decoding_early")},
    **{f"hgemm.{rung}": {"TM": 64, "STAGES": 2, "GZ": 2} for rung in ("batched", "batched_small")},
    **{f"hgemm.{rung}": {"TN": 64, "STAGES": 2} for rung in ("turned_by_warpgroups", "turned_in_pairs")},
    **{
        f"epilogues.{rung}": {"TM": 64, "STAGES": 2}
        for rung in ("activated", "added", "side_by_side", "gated", "scaled_bytes", "scaled_floats", "summed")
    },
    "hgemm.bytes": WARP_TILES | {"TN": 32, "WM": 32, "TK": 64},
    "layer_norm.warps": ROW,
    "layer_norm.blocks": LONG_ROW,
    "matching_products.fused": {"TM": 64, "STAGES": 2},
    "matching_products.cut_off": {"TM": 64, "STAGES": 2},
    "matching_dot.fused": {"TM": 32, "TN": 64},
    "matching_dot.across": {"TM": 32, "TN": 64},
    "nbody.coarsened": {"T": 4, "TJ": 4, "U": 2},
    "nbody.split": {"T": 4, "C": 2, "TJ": 4, "U": 2, "PART": 8},
    "row_argmax.warps": ROW,
    "row_argmax.blocks": LONG_ROW,
    "row_sum.warps": ROW,
    "row_sum.blocks": LONG_ROW,
    "softmax.warps": ROW,
    "syrk.registers": {"TM": 32, "TN": 16, "TK": 4, "WM": 4, "WN": 4},
    "softmax.blocks": LONG_ROW,
    "total.two_launches": {"PART": 4096},
    "total.atomic": {"PART": 4096},
    "transpose.vectors": {"TS": 32, "ROWS": 16},
}  # fmt: skip
# Sizes of the kernel, in turn, where those around the tiles would take minutes; vectors take the last ones.
FEW = {
    "conv_pieces": ((1, 3, 2), (1, 2, 8, 8, 8)),
    "conv_pieces_first": ((1, 3, 2), (1, 8, 2, 3, 8)),
    "epilogues": ((11, 13, 9), (9, 32, 16)),
    "gemm_pieces": ((3, 1, 2), (9, 8, 16)),
    "hconv": ((1, 3, 2), (1, 2, 8, 8, 8, 8)),
    "hconv_first": ((1, 3, 2), (1, 8, 2, 3, 8)),
    "hgemm": ((11, 13, 9), (9, 32, 16)),
    "conv2d_winograd": ((1,), (1, 3, 2), (2, 1, 4)),
    "layer_norm": ((1,), (3,)),
    "matching_dot": ((1,), (3, 2), (4,)),
    "matching_products": ((3, 2), (4,)),
    "row_argmax": ((1,), (3,)),
    "row_sum": ((1,), (3,)),
    "softmax": ((1,), (3,)),
}


def tiles(name, schedule):
    """The constants of the kernel and the parameters that a stock schedule takes to have small tiles."""
    found = find(name, schedule)
    chosen = FITTING.get(f"{name}.{schedule}", SMALL).items()
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
