"""What is meant by a word: the step, where it is one of another language, and the name, where it has parameters."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from tilegen.errors import SourceError, Span, did_you_mean
from tilegen.ir.steps import Number, StepCall, Word
from tilegen.primitives import registry

# The step here -> what TVM, Halide, Exo, loopy, TileLang, MLIR or Triton call it.
_ELSEWHERE = {
    "tile": "split divide divide_loop strip_mine split_iname chunk_iname tile_using_for sample_perfect_tile",
    "order": "reorder permute interchange swap reorder_loops prioritize_loops",
    "collapse": "join_inames mult_loops",
    "fuse": "merge compute_with",
    "rename": "rename_iname",
    "peel": "cut_loop loop_partition",
    "bind": "parallel parallelize parallelize_loop gpu_blocks gpu_threads gpu_lanes tag_inames thread_axis program_id",
    "blocks": "gpu_tile",
    "coarsen": "vthread virtual_thread",
    "vectorize": "vectorise simd",
    "unroll": "unroll_loop",
    "tensorize": "replace blockize gemm mma wmma dot",
    "compute_at": "compute_inline reverse_compute_at reverse_compute_inline inline store_at",
    "cache_shared": "cache cache_read stage stage_mem stage_window add_prefetch precompute alloc_shared",
    "cache_register": "cache_write bind_expr buffer_array alloc_fragment alloc_local",
    "cache_global": "transform_layout pack reindex reorder_storage",
    "pad": "storage_align align_storage",
    "round_up": "pad_loop pad_einsum align_bounds",
    "swizzle": "annotate_layout",
    "grouped_blocks": "use_swizzle",
    "pipeline": "prefetch double_buffer software_pipeline pipelined num_stages ring_buffer cp_async",
    "specialize": "warp_specialize",
    "bulk": "tma tma_load tma_store tma_copy",
    "multicast": "cluster_dims tma_multicast",
    "rfactor": "decompose_reduction split_k",
    "atomic": "atomic_add",
    "resident": "launch_bounds occupancy",
    "dependent_launch": "pdl",
    "deal": "persistent tile_scheduler persistent_grid grid_stride stream_tiles",
    "stream": "evict_first",
}
_MEANT = {word: step for step, words in _ELSEWHERE.items() for word in words.split()}
# What others write as steps, and what takes its place here.
_DERIVED = {
    "barriers and waits stand where dependences need them; no step writes them": (
        "barrier sync syncthreads sync_threads fence wait storage_sync mbarrier"
    ),
    "memory is placed by the step that makes a buffer: cache_shared, cache_register or cache_global": (
        "set_scope set_memory store_in lift_alloc sink_alloc alloc"
    ),
    "each tensor has a nest of its own, as its equation says, until fuse or compute_at changes that": (
        "fission autofission distribute compute_root"
    ),
}
_SAID = {word: sentence for sentence, words in _DERIVED.items() for word in words.split()}


def unknown_step(call: StepCall, known: Iterable[str]) -> SourceError:
    """The error for a step that is none of `known`."""
    known = list(known)
    notes = suggest_step(call.word, known) or (f"the steps are {', '.join(known)}",)
    return SourceError(f"there is no step '{call.word}'", call.span, notes=notes)


def suggest_step(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """Notes on the step that is called `word` elsewhere, or on the one of `known` that is written nearly so."""
    known = list(known)
    return called_elsewhere(word, known) or did_you_mean(word, known)


def called_elsewhere(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """Notes on the step of `known` that other languages call `word`, or on what takes the place of one there."""
    simple = word.rpartition(".")[2].lower()
    if simple in _SAID:
        return (_SAID[simple],)
    meant = _MEANT.get(simple)
    if meant not in list(known):
        return ()
    step = registry().get(meant)
    usage = (f"it is written {sys.modules[step.__module__].__doc__}",) if step else ()
    return (f"did you mean '{meant}'?", *usage)


def fill_in(text: str, values: Mapping[str, Any], span: Span | None) -> str:
    """A word with the values of the parameters that it has in braces: wgmma_m64n{TN}k16_{T}."""

    def fill(match: re.Match[str]) -> str:
        value = values.get(match[1])
        if value is None:
            notes = (f"parameters stand in the schedule's head, with their values: {match[1]}=8",)
            raise SourceError(f"'{match[1]}' is no parameter of the schedule", span, notes=notes)
        match value:
            case Word(text):
                return text
            case Number(number):
                return str(number)
            case _:
                return str(value)

    return re.sub(r"\{(\w+)\}", fill, text)
