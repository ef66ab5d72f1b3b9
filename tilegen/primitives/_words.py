"""Words of other languages for the same steps, and the step that is meant by a word."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.errors import SourceError, did_you_mean
from tilegen.ir.steps import StepCall

# What Halide, TVM, loopy, Exo and their like call it -> the step here.
_ELSEWHERE = {
    "split": "tile", "divide": "tile", "strip_mine": "tile", "split_iname": "tile", "divide_loop": "tile",
    "reorder": "order", "permute": "order", "interchange": "order", "swap": "order", "reorder_loops": "order",
    "parallel": "bind", "parallelize": "bind", "gpu_blocks": "bind", "gpu_threads": "bind", "tag_inames": "bind",
    "vectorise": "vectorize", "simd": "vectorize", "gpu_tile": "blocks", "compute_inline": "compute_at",
    "cache": "cache_shared", "cache_read": "cache_shared", "stage_mem": "cache_shared", "add_prefetch": "cache_shared",
    "cache_write": "cache_register", "transform_layout": "cache_global", "pack": "cache_global",
    "prefetch": "pipeline", "double_buffer": "pipeline", "software_pipeline": "pipeline",
    "merge": "fuse", "compute_with": "fuse", "flatten": "collapse", "inline": "compute_at",
    "storage_align": "pad", "pad_loop": "round_up", "decompose_reduction": "rfactor", "rename_iname": "rename",
}  # fmt: skip


def unknown_step(call: StepCall, known: Iterable[str]) -> SourceError:
    """The error for a step that is none of `known`."""
    notes = suggest_step(call.word, known) or (f"the steps are {', '.join(known)}",)
    return SourceError(f"there is no step '{call.word}'", call.span, notes=notes)


def suggest_step(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """A note naming the step that is called `word` elsewhere, or the one of `known` that is written nearly so."""
    known = list(known)
    meant = _ELSEWHERE.get(word.lower())
    return (f"did you mean '{meant}'?",) if meant in known else did_you_mean(word, known)
