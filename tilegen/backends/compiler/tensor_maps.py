"""Tensor maps as the hardware reads them: 128 bytes that the CUDA driver makes of a tensor's address and sizes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from tilegen.errors import DeviceError
from tilegen.ir.affine import Affine
from tilegen.lowering.launch.tensor_maps import TensorMap

BYTES = 128
_ALIGNMENT = 64  # of the memory that the driver writes a map to
_REMEMBERED = 1024

# The enumerations of cuda.h: what a data type is called there, after CU_TENSOR_MAP_DATA_TYPE_, and its number.
DATA_TYPES = {
    "f64": ("FLOAT64", 8),
    "f32": ("FLOAT32", 7),
    "f16": ("FLOAT16", 6),
    "bf16": ("BFLOAT16", 9),
    "e4m3": ("UINT8", 0),
    "e5m2": ("UINT8", 0),
    "i64": ("INT64", 5),
    "i32": ("INT32", 3),
    "i8": ("UINT8", 0),
    "u8": ("UINT8", 0),
    "bool": ("UINT8", 0),
}
_NOT_INTERLEAVED = 0
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTION_TO_128_BYTES = 2
_ZEROS_BEYOND = 0


def encode(tensor_map: TensorMap, address: int, sizes: Mapping[str, int]) -> bytes:
    """The map of a tensor at this address, 128 bytes, as a kernel takes it by value.

    Maps are remembered: the driver makes one for each tensor map, address, and sizes that the tensor's shape has.

    Args:
        address: of the tensor's first element, on the GPU.
        sizes: elements, by the name of the size, pitches too; others than those of the tensor may be among them.

    Raises:
        DeviceError: there is no driver, an old one, or one that refuses the map.
    """
    parts = (tensor_map.row, *tensor_map.shape, *(tensor_map.upper if tensor_map.windows else ()))
    names = frozenset().union(*map(Affine.names, parts))
    return _encode_once(tensor_map, address, tuple((name, sizes[name]) for name in sorted(names)))


@lru_cache(maxsize=_REMEMBERED)
def _encode_once(tensor_map: TensorMap, address: int, sizes: tuple[tuple[str, int], ...]) -> bytes:
    extents, strides = tensor_map.extents(dict(sizes)), tensor_map.strides(dict(sizes))
    rank = len(extents)
    memory = ctypes.create_string_buffer(BYTES + _ALIGNMENT)
    place = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
    library = load_driver()
    if tensor_map.windows:
        encode = library.cuTensorMapEncodeIm2col
        corners = tensor_map.lower, tuple(each.evaluate(dict(sizes)) for each in tensor_map.upper)
        box = *((ctypes.c_int * (rank - 2))(*each) for each in corners), tensor_map.box[0], tensor_map.pixels
        words = f"windows from {corners[0]} to {corners[1]} and boxes of {tensor_map.pixels} x {tensor_map.box[0]}"
    else:
        encode, box = library.cuTensorMapEncodeTiled, ((ctypes.c_uint32 * rank)(*tensor_map.reach),)
        words = f"boxes of {tensor_map.reach}"
    error = encode(
        ctypes.c_void_p(place),
        ctypes.c_int(DATA_TYPES[tensor_map.dtype][1]),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*extents),
        (ctypes.c_uint64 * max(1, rank - 1))(*strides),  # of one dimension too, the driver wants an array
        *box,
        (ctypes.c_uint32 * rank)(*tensor_map.steps),
        ctypes.c_int(_NOT_INTERLEAVED),
        ctypes.c_int(_SWIZZLES[tensor_map.swizzle]),
        ctypes.c_int(_PROMOTION_TO_128_BYTES),
        ctypes.c_int(_ZEROS_BEYOND),
    )
    if error:
        message = (
            f"the CUDA driver makes no tensor map of {tensor_map.buffer}, {tensor_map.dtype} at address {address:#x}, "
            f"with extents {extents}, strides of {strides} bytes and {words}: "
            f"{error_name(library, error)}"
        )
        raise DeviceError(message, notes=("a schedule without bulk(...) needs no tensor map",))
    return ctypes.string_at(place, BYTES)


@cache
def load_driver() -> Any:
    """The library of the CUDA driver. Raises DeviceError where it is missing, or knows no tensor maps."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(f"the library of the CUDA driver does not load: {error}") from None
    if not hasattr(library, "cuTensorMapEncodeTiled"):
        raise DeviceError("the CUDA driver knows no tensor maps; those of CUDA 12.0 and later do")
    return library


def error_name(library: Any, error: int) -> str:
    """What the driver calls an error."""
    name = ctypes.c_char_p()
    library.cuGetErrorName(ctypes.c_int(error), ctypes.byref(name))
    return name.value.decode() if name.value else f"error {error}"
