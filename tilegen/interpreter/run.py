"""Execute any tree as the ordinary sequential program that it is."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from types import CodeType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tilegen.errors import TilegenError
from tilegen.interpreter import scalar
from tilegen.interpreter.code import CodeWriter, write
from tilegen.interpreter.dtypes import Array, check_arguments, from_values, to_values
from tilegen.interpreter.windows import shown_by
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, Buffer, Tree

# Memory of one letter of `array`: f32 rounds as it stores; shorter floats are rounded before.
_MEMORY = {dtype: "d" for dtype in FLOATS} | {"f32": "f"}


class InterpreterError(TilegenError):
    """A tree does what no program may: it leaves a buffer, or reads an element that has no value.

    Attributes:
        buffer: the buffer's name.
        element: its index.
        statement: the name of the statement.
    """

    exit_code = 4

    def __init__(self, message: str, *, buffer: str, element: tuple[int, ...], statement: str, witness: str) -> None:
        super().__init__(message, witness=witness)
        self.buffer = buffer
        self.element = element
        self.statement = statement


def run(tree: Tree, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of `tree` at the given sizes, by name, each of its tensor's shape.

    `arrays` has the inputs by name, of their tensors' logical shapes whatever the storage order, and
    scalars without a dimension; bf16, e4m3 and e5m2 as their bits. Every loop runs in order, whatever its kind. Each
    assignment is computed in double precision and rounded to the target's type. An output element that
    nothing writes is nan, or the least integer.

    Raises ArgumentError for arrays that do not fit, and InterpreterError where a statement leaves
    a buffer or reads an element without a value.
    """
    found = execute(tree, sizes, arrays)
    return {name: _poison(values, written, tree.buffer(name).dtype) for name, (values, written) in found.items()}


def execute(
    tree: Tree, sizes: Mapping[str, int], arrays: Mapping[str, Array]
) -> dict[str, tuple[Array, npt.NDArray[np.bool_]]]:
    """What `run` gives, each output with where it has values; the other elements are 0.

    An output that is an input, too, has values everywhere: what nothing writes to is left as it was.
    """
    kernel = tree.kernel.called_kernel
    check_arguments(kernel, sizes, arrays)
    writer = write(tree, sizes)
    memory: dict[str, Any] = {}
    known: dict[str, bytearray] = {}
    names: dict[str, Any] = {"functions": scalar.FUNCTIONS, "larger": scalar.larger, "smaller": scalar.smaller}
    names |= {f"to_{dtype}": scalar.converter(dtype) for dtype in DTYPE_BYTES}
    names |= {"unset": _reporter(writer, "unset"), "outside": _reporter(writer, "outside")}
    for n, number in enumerate(tree.kernel.scalars):
        names[f"scalar{n}"] = to_values(np.asarray(arrays[number.name]), number.dtype).item()
    for buffer in tree.buffers:
        n, home = writer.buffers[buffer.name], buffer.name if buffer.windows else memory_of(buffer.name)
        count = prod(writer.shapes[buffer.name])
        if home not in memory:  # the old values of an updated tensor come first
            memory[home] = _memory(buffer, writer.shapes[buffer.name], arrays, sizes)
            known[home] = bytearray(b"\1" if buffer.role == "input" else b"\0") * count
        names[f"data{n}"], names[f"set{n}"] = memory[home], known[home]
        names[f"unset{n}"] = bytes(count)
    exec(_compile("\n".join(writer.lines), f"<tree of {tree.kernel.name}>"), names)
    names["execute"]()
    results = {}
    for buffer in tree.buffers:
        if buffer.role == "output":
            shape = tuple(extent.evaluate(sizes) for extent in kernel.tensor(buffer.name).shape)
            written = np.frombuffer(names[f"set{writer.buffers[buffer.name]}"], dtype=np.bool_).reshape(shape)
            results[buffer.name] = from_values(np.array(memory[buffer.name]).reshape(shape), buffer.dtype), written
    return results


@lru_cache(maxsize=64)
def _compile(text: str, name: str) -> CodeType:
    """The text of a tree, which steps that only say where loops run leave as it was."""
    return compile(text, name, "exec")


def _memory(buffer: Buffer, shape: tuple[int, ...], arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> Any:
    letter = _MEMORY.get(buffer.dtype, "q")
    if buffer.role != "input":
        return array(letter, bytes(prod(shape) * array(letter).itemsize))
    values = to_values(np.asarray(arrays[memory_of(buffer.name)]), buffer.dtype)
    values = shown_by(buffer.windows, sizes, values) if buffer.windows else values
    kind: type[Any] = {"f": np.float32, "d": np.float64, "q": np.int64}[letter]
    return array(letter, np.ascontiguousarray(values.astype(kind)).tobytes())


def _poison(values: Array, written: Array, dtype: str) -> Array:
    poison = from_values(np.asarray(np.nan), dtype) if dtype in FLOATS else np.iinfo(values.dtype).min
    return np.where(written, values, np.asarray(poison, values.dtype))


def _reporter(writer: CodeWriter, what: str) -> Any:
    """The function that generated code calls where an access fails."""

    def unset(number: int, loops: tuple[tuple[str, int], ...], buffer: str, position: int) -> NoReturn:
        element = tuple(int(i) for i in np.unravel_index(position, writer.shapes[buffer]))
        fail(number, loops, "reads", buffer, element, "which has no value")

    def outside(
        number: int, loops: tuple[tuple[str, int], ...], verb: str, buffer: str, element: tuple[int, ...]
    ) -> NoReturn:
        shape = ", ".join(map(str, writer.shapes[buffer]))
        fail(number, loops, verb, buffer, element, f"outside its shape [{shape}]")

    def fail(
        number: int, loops: tuple[tuple[str, int], ...], verb: str, buffer: str, element: tuple[int, ...], why: str
    ) -> NoReturn:
        stmt = writer.stmts[number]
        at = ", ".join(map(str, element))
        raise InterpreterError(
            f"the statement '{stmt.name}' {verb} {buffer}[{at}], {why}",
            buffer=buffer,
            element=element,
            statement=stmt.name,
            witness=", ".join(f"{name} = {value}" for name, value in loops) or "outside all loops",
        ).at(stmt.span)

    return unset if what == "unset" else outside
