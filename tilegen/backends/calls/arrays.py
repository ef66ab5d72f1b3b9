"""How arrays fit a kernel: its sizes from their shapes, their layout, and fresh ones with guarded borders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from tilegen.errors import ArgumentError
from tilegen.interpreter import NUMPY
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import BYTE_FLOATS, DTYPE_BYTES, Kernel, Tensor
from tilegen.ir.printing.show import show_fact

# Types that numpy has by ml_dtypes alone: what that and torch call them. Kernels are given their bits.
AS_BITS = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
NUMPY_NAME = {dtype: stored.name for dtype, stored in NUMPY.items()}
GUARD_BYTES = 1024
GUARD_VALUE = 0xA5


def infer_sizes(
    kernel: Kernel, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Every size of the kernel, from the shapes of its arrays and the sizes given by name.

    Raises:
        ArgumentError: a shape that does not fit, a size that nothing fixes or that is too small, or a
            `where` of the kernel that does not hold.
    """
    sizes = dict(given or {})
    source = {name: f"{name} = {value}, as given" for name, value in sizes.items()}
    for name in sizes:
        if name not in kernel.sizes:
            raise ArgumentError(f"kernel '{kernel.name}' has no size '{name}'", notes=(_sizes_note(kernel),))
    for name, shape in shapes.items():
        if len(shape) != len(kernel.tensor(name).shape):
            raise _other_rank(kernel.tensor(name), shape)
    # A dimension like 2*N + 1 gives N too; a dimension of two unknowns waits for the others.
    for _ in range(len(kernel.sizes) + 1):
        for name, shape in shapes.items():
            for extent, dimension in zip(kernel.tensor(name).shape, shape, strict=True):
                _solve(extent, dimension, name, sizes, source)
    for size in kernel.sizes:
        if size not in sizes:
            raise ArgumentError(f"no array tells the size {size}", notes=(f"give it by name: {size}=...",))
    if has_no_output(kernel, sizes):
        _check_assumptions(kernel, sizes)
    else:
        check_sizes(kernel, sizes)
    for name, shape in shapes.items():
        _check_shape(kernel.tensor(name), shape, sizes, source)
    return sizes


def check_sizes(kernel: Kernel, sizes: Mapping[str, int]) -> None:
    """Raises ArgumentError where a size is below 1, a `where` of the kernel does not hold, or a tensor is empty."""
    for name in kernel.sizes:
        if sizes[name] < 1:
            notes = ("a size may be 0 only where all outputs are empty",) if sizes[name] == 0 else ()
            raise ArgumentError(f"size {name} is {sizes[name]}, and sizes are at least 1", notes=notes)
    _check_assumptions(kernel, sizes)
    for tensor in kernel.tensors:
        if empty := emptiness(tensor, sizes):
            raise ArgumentError(empty)


def has_no_output(kernel: Kernel, sizes: Mapping[str, int]) -> bool:
    """True if each output has an extent of 0, and nothing is negative: then there is nothing to compute."""
    extents = {tensor.name: shape_of(tensor, sizes) for tensor in kernel.tensors}
    empty = all(0 in extents[tensor.name] for tensor in kernel.tensors if tensor.role == "output")
    return empty and min(sizes.values(), default=0) >= 0 and all(e >= 0 for shape in extents.values() for e in shape)


def _check_assumptions(kernel: Kernel, sizes: Mapping[str, int]) -> None:
    for condition in kernel.assumptions:
        value = condition.value.evaluate(sizes)
        if value < 0 or (condition.equal and value != 0):
            values = ", ".join(f"{n} = {sizes[n]}" for n in sorted(condition.value.names()))
            raise ArgumentError(f"kernel '{kernel.name}' is for {show_fact(condition)} only, and {values}")


def emptiness(tensor: Tensor, sizes: Mapping[str, int]) -> str:
    """What to say of the tensor where it has no elements at these sizes; else nothing."""
    for extent in tensor.shape:
        if extent.names() <= sizes.keys() and (value := extent.evaluate(sizes)) < 1:
            values = ", ".join(f"{name} = {sizes[name]}" for name in sorted(extent.names()))
            return f"{_shape_text(tensor)} has an extent of {value} where {values}, and extents are at least 1"
    return ""


def shape_of(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The tensor's shape in elements."""
    return tuple(extent.evaluate(sizes) for extent in tensor.shape)


def strides_of(shape: tuple[int, ...], order: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    """Bytes from one element to the next in each dimension, `order` from the slowest to the fastest."""
    strides = [0] * len(shape)
    step = item_bytes
    for dimension in reversed(order):
        strides[dimension] = step
        step *= shape[dimension]
    return tuple(strides)


def number_type(dtype: str, *, cupy: bool = False) -> np.dtype[Any]:
    """The type of numpy's arrays of such numbers, or of cupy's, which has the bits alone of floats of one byte."""
    by_name = dtype in AS_BITS and not (cupy and dtype in BYTE_FLOATS)
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, AS_BITS[dtype]) if by_name else NUMPY_NAME[dtype])
    return found


def bits_of(array: Any) -> Any:
    """A numpy array with numbers of a type of AS_BITS as their bits, another one as it is."""
    return array.view(f"u{array.dtype.itemsize}") if str(array.dtype) in AS_BITS.values() else array


def check_type(tensor: Tensor, array: Any, wanted: np.dtype[Any]) -> Any:
    """The array. Raises ArgumentError where it is of another type: integers are not taken for the bits of floats."""
    if array.dtype != wanted:
        raise other_type(tensor, array.dtype)
    return array


def other_type(tensor: Tensor, given: Any) -> ArgumentError:
    """The error for an array with numbers of another type than the tensor's: one of numpy, or a name of torch's."""
    word, bits = AS_BITS.get(tensor.dtype), NUMPY_NAME[tensor.dtype]
    notes = []
    if word:
        notes.append(f"its numbers are torch.{word} or ml_dtypes.{word}")
        if tensor.dtype in BYTE_FLOATS:
            notes.append(f"cupy has no type of them, and takes their bits in {bits}")
        width, library = 8 * DTYPE_BYTES[tensor.dtype], "torch" if isinstance(given, str) else "ml_dtypes"
        if str(given) in (f"int{width}", f"uint{width}"):
            notes.append(f"{tensor.name}.view({library}.{word}) takes integers for their bits")
    return ArgumentError(f"{tensor.name} is {given}, and the kernel takes {tensor.dtype}", notes=tuple(notes))


def bits_of_torch(torch: Any, value: Any, tensor: Tensor) -> Any:
    """A tensor of torch that numpy and cupy can share: the bits of bf16 in int16, those of e4m3 and e5m2 in uint8.

    Raises:
        ArgumentError: its numbers are of another type, where one of the two has no type in numpy.
    """
    given, wanted = str(value.dtype).removeprefix("torch."), AS_BITS.get(tensor.dtype)
    if given != wanted and (wanted or given in AS_BITS.values()):
        raise other_type(tensor, given)
    return value.view(torch.int16 if wanted == "bfloat16" else torch.uint8) if wanted else value


def as_torch(torch: Any, adopt: Callable[[Any], Any], array: Any, dtype: str) -> Any:
    """An array of numpy or cupy with numbers of `dtype` as a tensor of torch.

    `adopt` makes one of an array of a type that all of them know.
    """
    if dtype not in AS_BITS:
        return adopt(array)
    bits = array.view("int16" if DTYPE_BYTES[dtype] == 2 else "uint8")  # not every torch knows uint16
    return adopt(bits).view(getattr(torch, AS_BITS[dtype]))


def bare(torch: Any, value: Any, name: str) -> Any:
    """A torch tensor without its history. Raises ArgumentError where a gradient would be lost that is recorded."""
    if value.requires_grad and torch.is_grad_enabled():
        notes = (
            f"{name}.detach() says that none is wanted, and so does torch.no_grad() of all calls in it",
            "tilegen.torch.op(..., backward=...) makes an operator that gives one",
        )
        raise ArgumentError(f"{name} requires a gradient, and a kernel gives none", notes=notes)
    return value.detach()


def find_pitch(tensor: Tensor, array: Any, given: Any = None) -> int | None:
    """Elements from one row of a numpy or cupy array to the next, where its rows are apart; None where it is dense.

    Rows run along the fastest dimension of the tensor's storage order. `given` is the array of whatever library that
    it was made of, for the way out.

    Raises:
        ArgumentError: it is neither dense in that order, nor rows of which each is as far from the next.
    """
    wanted = strides_of(array.shape, tensor.order, array.dtype.itemsize)
    if 0 in array.shape or _has_strides(array, wanted):
        return None
    if pitch := _pitch_of_rows(array, tensor.order):
        return pitch
    order = "row-major" if _is_row_major(tensor.order) else "in the kernel's storage order"
    rows = ", or rows that are all one pitch apart" if len(wanted) > 1 else ""
    strides = f"its strides are {array.strides} bytes, {wanted} are expected{rows}"
    notes = (strides, *_ways_to_fit(tensor, array, array if given is None else given))
    raise ArgumentError(f"{tensor.name} is not contiguous {order}", notes=notes)


def _has_strides(array: Any, wanted: tuple[int, ...]) -> bool:
    """True if the elements of the array lie so; where there is one alone in a dimension, any stride is right."""
    return all(n == 1 or a == b for n, a, b in zip(array.shape, array.strides, wanted, strict=True))


def _pitch_of_rows(array: Any, order: tuple[int, ...]) -> int:
    """Elements from one row of an array to the next, which do not overlap; 0 where it consists of no such rows."""
    fastest, item = order[-1], array.dtype.itemsize
    step = next((array.strides[d] for d in reversed(order[:-1]) if array.shape[d] > 1), 0)
    pitch = step // item
    lengths = tuple(pitch if d == fastest else n for d, n in enumerate(array.shape))
    apart = step % item == 0 and pitch >= array.shape[fastest]
    return pitch if apart and _has_strides(array, strides_of(lengths, order, item)) else 0


def span_of(array: Any) -> int:
    """Bytes from the beginning of a numpy or cupy array to its end, with what lies between its rows."""
    if array.size == 0:
        return 0
    last = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True))
    return int(last + array.dtype.itemsize)


def _ways_to_fit(tensor: Tensor, array: Any, given: Any) -> Iterator[str]:
    """What to do with an array in another layout than the tensor's: copy it, or write a kernel that takes it."""
    name, library = tensor.name, type(given).__module__.partition(".")[0]
    copies = {
        "torch": (f"{name}.contiguous()", f"{name}.t().contiguous().t()"),
        "cupy": (f"cupy.ascontiguousarray({name})", f"cupy.asfortranarray({name})"),
        "numpy": (f"numpy.ascontiguousarray({name})", f"numpy.asfortranarray({name})"),
    }.get(library)
    if tensor.role == "output":
        yield f"without {name}=... the call makes an array that fits"
    elif copies and (_is_row_major(tensor.order) or tensor.order == (1, 0)):
        yield f"{copies[tensor.order == (1, 0)]} copies it"
    order = tuple(sorted(range(array.ndim), key=lambda d: -array.strides[d]))
    if array.strides == strides_of(array.shape, order, array.dtype.itemsize) or _pitch_of_rows(array, order):
        plain = "row_major" if _is_row_major(order) else f"order({', '.join(map(str, order))})"
        word = "col_major" if order == (1, 0) else plain
        yield f"a kernel that declares {_declaration(tensor)} {word} takes it without a copy"


def _declaration(tensor: Tensor) -> str:
    return f"{tensor.name}: {tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def _is_row_major(order: tuple[int, ...]) -> bool:
    return order == tuple(range(len(order)))


def laid_out(flat: Any, shape: tuple[int, ...], order: tuple[int, ...]) -> Any:
    """A flat numpy or cupy array seen in `shape`, with its dimensions stored in `order`."""
    stored = flat.reshape(tuple(shape[d] for d in order))
    return stored.transpose(tuple(order.index(d) for d in range(len(order))))


def empty(xp: Any, tensor: Tensor, shape: tuple[int, ...]) -> Any:
    """A fresh array of numpy or cupy (`xp`) for the tensor."""
    return laid_out(xp.empty(prod(shape), dtype=NUMPY_NAME[tensor.dtype]), shape, tensor.order)


@dataclass(frozen=True)
class Guarded:
    """An array between two borders that nothing may write to, inside one allocation."""

    array: Any
    memory: Any
    """All of it as bytes."""

    def touched_border(self) -> str | None:
        """Which border a kernel has written to: "before", "after", or None."""
        end = self.memory.size - GUARD_BYTES
        if bool((self.memory[:GUARD_BYTES] != GUARD_VALUE).any()):
            return "before"
        return "after" if bool((self.memory[end:] != GUARD_VALUE).any()) else None


def guarded_array(xp: Any, tensor: Tensor, shape: tuple[int, ...]) -> Guarded:
    """An array for the tensor with a border of GUARD_BYTES before and after it; every byte GUARD_VALUE."""
    size = prod(shape) * DTYPE_BYTES[tensor.dtype]
    memory = xp.full(GUARD_BYTES + size + GUARD_BYTES, GUARD_VALUE, dtype="uint8")
    flat = memory[GUARD_BYTES : GUARD_BYTES + size].view(NUMPY_NAME[tensor.dtype])
    return Guarded(laid_out(flat, shape, tensor.order), memory)


def _solve(extent: Affine, dimension: int, name: str, sizes: dict[str, int], source: dict[str, str]) -> None:
    """Adds the one unknown size in `extent`, if there is one and `dimension` decides it."""
    unknown = [n for n in extent.names() if n not in sizes]
    if len(unknown) != 1 or not extent.linear_in(unknown[0]):
        return
    size, factor = unknown[0], extent.coefficient(unknown[0])
    rest = dimension - extent.evaluate({**sizes, size: 0})
    if factor and rest % factor == 0:
        sizes[size] = rest // factor
        source[size] = f"{size} = {sizes[size]} by the shape of {name}"


def _check_shape(tensor: Tensor, shape: tuple[int, ...], sizes: Mapping[str, int], source: Mapping[str, str]) -> None:
    wanted = shape_of(tensor, sizes)
    if shape == wanted:
        return
    names = sorted({n for extent in tensor.shape for n in extent.names()})
    raise ArgumentError(
        f"{tensor.name} has shape {shape}, and {_shape_text(tensor)} is {wanted}",
        notes=tuple(source[n] for n in names),
    )


def _other_rank(tensor: Tensor, shape: tuple[int, ...]) -> ArgumentError:
    """The error for an array with another number of dimensions than the tensor has."""
    rank = len(tensor.shape)
    notes: tuple[str, ...] = ()
    if len(shape) > rank > 0:
        last = ", ".join(map(str, shape[len(shape) - rank + 1 :]))
        joined = f"{tensor.name}.reshape(-1{', ' if last else ''}{last})"
        notes = (
            f"{joined} joins the first dimensions, where they all are rows to the kernel",
            f"a kernel that declares them takes batches: {tensor.name}[Z, {', '.join(map(str, tensor.shape))}]",
        )
    return ArgumentError(f"{tensor.name} has {len(shape)} dimensions, {_shape_text(tensor)} has {rank}", notes=notes)


def _shape_text(tensor: Tensor) -> str:
    return f"{tensor.name}[{', '.join(map(str, tensor.shape))}]"


def _sizes_note(kernel: Kernel) -> str:
    return f"its sizes are {', '.join(kernel.sizes)}" if kernel.sizes else "it has no sizes: all are fixed"
