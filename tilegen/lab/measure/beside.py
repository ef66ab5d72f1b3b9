"""The calls of libraries that a kernel's text sets beside it, on the kernel's arrays."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import numpy as np

from tilegen.backends.calls.arrays import as_torch
from tilegen.backends.calls.engine import Engine
from tilegen.interpreter.dtypes import from_values, to_values
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import BYTE_FLOATS, Kernel
from tilegen.ir.parts.beside import LIBRARIES, OPERATORS, Beside, path
from tilegen.lab.counts.metric import is_compute_bound, moved_bytes

_COPY_TEXT = """\
extern "C" __global__ void copy(const float4* __restrict__ from, float4* __restrict__ to, long long count)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i];
}
"""
COPY = Beside("copy", "a kernel that reads half of the bytes and writes half of them, 16 at a time")
_VIEWS = ("permute", "transpose", "unsqueeze", "squeeze")
_FRACTION_BITS = {"f64": 52, "f32": 23, "tf32": 10, "f16": 10, "bf16": 7, "e4m3": 3, "e5m2": 2}


class Library:
    """What stands beside a kernel on a GPU: its `lines`, or what is `missing`; and calls of them."""

    def __init__(self, kernel: Kernel, engine: Engine, sizes: Mapping[str, int]) -> None:
        """
        Args:
            kernel: as written.
        """
        self._kernel, self._engine, self._sizes = kernel, engine, sizes
        self._outputs = [tensor for tensor in kernel.tensors if tensor.role == "output"]
        self._compiled: dict[str, Any] = {}
        self._torch: Any = _torch_on(engine) if engine.on_gpu and kernel.beside else None
        self.lines, self.missing = self._find_lines()

    def _find_lines(self) -> tuple[tuple[Beside, ...], str | None]:
        """Those of torch where it is installed, else those of cupy; without any, why."""
        if not self._engine.on_gpu:
            return (), None
        wanted = "torch" if self._torch else "cupy"
        found = tuple(line for line in self._kernel.beside if LIBRARIES[line.library] == wanted)
        if found:
            return found, None
        if self._kernel.beside:
            return (), "torch is not installed, and the kernel's text has no call of cupy"
        if is_compute_bound(self._kernel.meant_kernel, self._sizes):
            return (), 'the kernel\'s text says nothing: beside torch "A @ B"'
        return (COPY,), None

    @property
    def checking(self) -> list[Beside]:
        """The lines whose results serve a check, quick ones first; on the CPU numpy computes those of cupy in f64."""
        found = self.lines if self._engine.on_gpu else self._kernel.beside
        asked = [line for line in found if line != COPY and (self._engine.on_gpu or line.library == "cupy")]
        return sorted(asked, key=lambda line: line.library == "torch.compile")

    @property
    def version(self) -> str:
        """Of torch, if it is what calls the library."""
        return f"torch {self._torch.__version__}" if self._torch else ""

    def epsilon(self, line: Beside) -> float:
        """The distance from 1 to the next number of the shortest type that the library may round to."""
        inputs = [t.dtype for t in self._kernel.tensors if t.role == "input" and t.dtype not in BYTE_FLOATS]
        types = [*inputs, *(tensor.dtype for tensor in self._outputs), *("tf32" for _ in line.options)]
        return float(2.0 ** -min(_FRACTION_BITS.get(dtype, 52) for dtype in types))

    def bind(self, line: Beside, arrays: Mapping[str, Any]) -> Call:
        """The line as a call on these arrays."""
        if line == COPY:
            return Call(_copy(self._engine.xp, moved_bytes(self._kernel.meant_kernel, self._sizes)))
        inputs = {memory_of(t.name): t for t in self._kernel.tensors if t.role == "input"}
        tensors = {name: self._given(arrays[name], tensor.dtype) for name, tensor in inputs.items()}
        numbers = {s.name: to_values(np.asarray(arrays[s.name]), s.dtype).item() for s in self._kernel.scalars}
        module = self._torch or self._engine.xp
        meaning = Meaning(line, module, {**dict(line.values), **self._sizes, **numbers}, tensors)
        call = self._compile(line, meaning) if line.library == "torch.compile" else meaning
        return Call(call, self._torch, "allow_tf32" in line.options)

    def _given(self, array: Any, dtype: str) -> Any:
        if not self._engine.on_gpu:
            return to_values(array, dtype).astype("float64")
        return as_torch(self._torch, self._torch.from_dlpack, array, dtype) if self._torch else array

    def _compile(self, line: Beside, meaning: Meaning) -> Callable[[], Any]:
        """A call of what torch.compile makes of the line, once for all sets of arrays."""
        if line.text not in self._compiled:
            self._compiled[line.text] = self._torch.compile(meaning.traced())
        compiled, given = self._compiled[line.text], meaning.given
        return lambda: compiled(*given)

    def results(self, call: Call) -> dict[str, Any]:
        """What the call has given, by the kernel's names, as arrays of the engine's.

        Raises:
            ValueError: it has another form than the kernel's results.
        """
        given = call.result if isinstance(call.result, tuple) else (call.result,)
        found = {}
        for tensor, result in zip(self._outputs, given, strict=True):
            shape = tuple(extent.evaluate(self._sizes) for extent in tensor.shape)
            if tuple(result.shape) != shape:
                raise ValueError(f"its result has the shape {tuple(result.shape)}, and {tensor.name} has {shape}")
            if tensor.dtype == "i32":  # places have 64 bits there
                result = result.int() if self._torch else result.astype("int32")
            result = result if self._engine.on_gpu else from_values(result, tensor.dtype)
            found[tensor.name] = self._engine.adopt(result, tensor)
        return found


class Meaning:
    """What an expression comes to with a library, of these numbers and tensors; a call computes it.

    What an input is made into by `to` or `contiguous` alone, and what needs no input, is made here.
    """

    def __init__(self, line: Beside, module: Any, numbers: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
        self._expression, self._library = line.expression, LIBRARIES[line.library]
        self._module, self._numbers, self._tensors = module, numbers, tensors
        self._made: dict[int, Any] = {}
        self._made = {id(node): self._value(node, {**numbers, **tensors}) for node in self._made_before()}

    def __call__(self) -> Any:
        return self._value(self._expression, {**self._numbers, **self._tensors})

    @property
    def given(self) -> list[Any]:
        """What `traced` takes."""
        return [*self._tensors.values(), *self._made.values()]

    def traced(self) -> Any:
        """A module of torch of `given`, that torch.compile can read."""
        fx: Any = import_module("torch.fx")
        graph = fx.Graph()
        tracer = fx.proxy.GraphAppendingTracer(graph)
        names = [*self._tensors, *(f"made_{number}" for number in range(len(self._made)))]
        proxies = [fx.Proxy(graph.placeholder(name), tracer) for name in names]
        count, known = len(self._tensors), self._made
        self._made = dict(zip(known, proxies[count:], strict=True))
        value = self._value(self._expression, {**self._numbers, **dict(zip(self._tensors, proxies, strict=False))})
        self._made = known
        graph.output(fx.node.map_aggregate(value, lambda each: each.node if isinstance(each, fx.Proxy) else each))
        return fx.GraphModule(self._module.nn.Module(), graph)

    def _made_before(self) -> Iterator[ast.expr]:
        todo: list[ast.AST] = [self._expression]
        for node in todo:
            if isinstance(node, ast.Call) and self._is_made_before(node):
                yield node
            else:
                todo += ast.iter_child_nodes(node)

    def _is_made_before(self, node: ast.Call) -> bool:
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "contiguous"):
            return self._is_input(node.func.value)
        return not self._reads(node)

    def _is_input(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(name):
                return name in self._tensors
            case ast.Attribute(value, "T" | "mT"):
                return self._is_input(value)
            case ast.Call(ast.Attribute(value, name)):
                return name in _VIEWS and self._is_input(value)
            case _:
                return False

    def _reads(self, node: ast.AST) -> bool:
        """True if the values of a tensor are needed, or a part that has a name."""
        match node:
            case ast.Attribute(_, "device" | "dtype" | "shape"):
                return False
            case ast.Name(name):
                return name not in self._numbers and name != self._library
            case _:
                return any(map(self._reads, ast.iter_child_nodes(node)))

    def _value(self, node: ast.expr | None, scope: dict[str, Any]) -> Any:
        """The value of a node; `scope` gets the names that parts are given."""
        if id(node) in self._made:
            return self._made[id(node)]
        match node:
            case None:
                return None
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return scope[name]
            case ast.Attribute(value, name):
                word = path(node, self._library)
                return attrgetter(word)(self._module) if word else getattr(self._value(value, scope), name)
            case ast.Call(function, arguments, keywords):
                called = self._value(function, scope)
                given = [self._value(each, scope) for each in arguments]
                return called(*given, **{str(each.arg): self._value(each.value, scope) for each in keywords})
            case ast.BinOp(left, sign, right):
                return OPERATORS[type(sign)](self._value(left, scope), self._value(right, scope))
            case ast.UnaryOp(_, operand):
                return -self._value(operand, scope)
            case ast.Tuple(items) | ast.List(items):
                return tuple(self._value(each, scope) for each in items)
            case ast.Subscript(value, index):
                return self._value(value, scope)[self._value(index, scope)]
            case ast.Slice(low, high, step):
                return slice(*(self._value(each, scope) for each in (low, high, step)))
            case ast.NamedExpr(ast.Name(name), value):
                scope[name] = self._value(value, scope)
                return scope[name]
            case _:
                raise TypeError(node)


class Call:
    """A call of a library; `result` is what it gave last, in memory of its own."""

    def __init__(self, work: Callable[[], Any], torch: Any = None, tf32: bool = False) -> None:
        self._work, self._torch, self._tf32 = work, torch, tf32
        self.result: Any = None

    def __call__(self) -> None:
        with _as_exact(self._torch, self._tf32):
            self.result = self._work()


@contextmanager
def _as_exact(torch: Any, tf32: bool) -> Iterator[None]:
    """torch with sums as exact as a kernel's, and with the fastest algorithm of cuDNN."""
    if torch is None:
        yield
        return
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    off = ("bf16_reduced_precision_reduction", "fp16_reduced_precision_reduction", "fp16_accumulation")
    wanted = [(products, f"allow_{name}", False) for name in off if hasattr(products, f"allow_{name}")]
    wanted += [(products, "allow_tf32", tf32), (convolutions, "allow_tf32", tf32), (convolutions, "benchmark", True)]
    before = [(home, name, getattr(home, name)) for home, name, _ in wanted]
    try:
        for home, name, value in wanted:
            setattr(home, name, value)
        with torch.no_grad():
            yield
    finally:
        for home, name, value in before:
            setattr(home, name, value)


def _torch_on(engine: Engine) -> Any:
    """torch, where it is installed and has the engine's device; None elsewhere."""
    if find_spec("torch") is None:
        return None
    torch: Any = import_module("torch")
    return torch if torch.cuda.is_available() or engine.xp.__name__ == "numpy" else None


def _copy(xp: Any, moved: int) -> Callable[[], Any]:
    """A call that reads half of the bytes and writes half of them."""
    count = max(1, moved // 2 // 16)
    source, target = xp.zeros(count * 4, dtype="float32"), xp.empty(count * 4, dtype="float32")
    kernel = xp.RawKernel(_COPY_TEXT, "copy")
    return lambda: kernel(((count + 255) // 256,), (256,), (source, target, xp.int64(count)))
