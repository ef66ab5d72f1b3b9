"""Launches that may begin while the one before them on the stream runs, by the CUDA driver's cuLaunchKernelEx."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from tilegen.backends.tensor_maps import error_name, load_driver

PROGRAMMATIC_STREAM_SERIALIZATION = 6  # of the enumeration CUlaunchAttributeID in cuda.h
_ALIGNMENT = 64


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h, for values that are one integer: a union of 64 bytes behind 8."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    )


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    )


def early_launch(
    grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int, arguments: Sequence[bytes]
) -> Callable[[int, int], str]:
    """A call that launches a CUfunction on a CUstream, given as addresses, and says what went wrong, if anything.

    The kernel may begin while the one before it on the stream runs, in a graph that is captured, too: it waits itself.

    Args:
        arguments: of the kernel, each as its bytes.
    """
    memory = [_aligned_copy(each) for each in arguments]
    places = (ctypes.c_void_p * len(memory))(*[place for place, _ in memory])
    attribute = LaunchAttribute(id=PROGRAMMATIC_STREAM_SERIALIZATION, value=1)

    def launch(function: int, stream: int) -> str:
        library = load_driver()
        sizes = (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block)
        config = LaunchConfig(*sizes, shared_bytes, stream, ctypes.pointer(attribute), 1)
        kept = memory  # the driver reads it during the call
        error = library.cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(function), places, None)
        return error_name(library, error) if error and kept is not None else ""

    return launch


def _aligned_copy(value: bytes) -> tuple[int, object]:
    """The address of a copy that begins at a multiple of 64 bytes, and what keeps it."""
    memory = ctypes.create_string_buffer(len(value) + _ALIGNMENT)
    place = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
    ctypes.memmove(place, value, len(value))
    return place, memory
