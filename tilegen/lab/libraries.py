"""Evaluates the library calls of `rivals.py` on a kernel's arrays, and checks what they and the kernel give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tilegen.backends.arrays import as_torch
from tilegen.backends.engine import Engine
from tilegen.ir.nodes import BYTE_FLOATS, Kernel
from tilegen.lab.accuracy import Accuracy, accuracy
from tilegen.lab.convolution import Convolution, as_convolution, as_library_has_them, convolution_difference
from tilegen.lab.layers import Layer, as_layer, layer_difference
from tilegen.lab.metric import is_compute_bound, moved_bytes
from tilegen.lab.products import Addend, MatrixProduct, as_product, product_difference, view
from tilegen.lab.rivals import TORCH, Rival, rivals_of_convolution, rivals_of_layer, rivals_of_product

_COPY = """\
extern "C" __global__ void copy(const float4* __restrict__ from, float4* __restrict__ to, long long count)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i];
}
"""
COPY = Rival("copy", "copy()", "a kernel that reads half of the bytes and writes half of them, 16 at a time", "f32", {})


def torch_on(engine: Engine) -> Any:
    """torch, where it is installed and has the engine's device; None elsewhere."""
    if find_spec("torch") is None:
        return None
    torch: Any = import_module("torch")
    return torch if torch.cuda.is_available() or engine.xp.__name__ == "numpy" else None


class Library:
    """What a library computes of a kernel: its rivals, each bound to arrays, and how far results are apart."""

    def __init__(self, kernel: Kernel, engine: Engine, sizes: Mapping[str, int], errors: bool = False) -> None:
        """
        Args:
            errors: whether to measure how far products are from exact ones.
        """
        self._kernel, self._engine, self._sizes, self._errors = kernel, engine, sizes, errors
        self._torch: Any = torch_on(engine) if engine.on_gpu else None
        product = as_product(kernel) if engine.on_gpu or errors else None
        self._found: MatrixProduct | Convolution | Layer | None = product
        if engine.on_gpu and product is None:
            self._found = as_convolution(kernel) or as_layer(kernel)
        self._compiled: dict[str, Any] = {}
        self.rivals, self.missing = self._find_rivals()

    def _find_rivals(self) -> tuple[tuple[Rival, ...], str | None]:
        """The rivals; without any, why."""
        found: tuple[Rival, ...] | str = "no call of a library is known that computes this kernel"
        if not self._engine.on_gpu:
            return (), None
        if isinstance(self._found, MatrixProduct):
            found = rivals_of_product(self._found, self._kernel, self._sizes, torch=self._torch is not None)
        elif isinstance(self._found, Convolution):
            found = rivals_of_convolution(self._found) if self._torch else "torch, which calls cuDNN, is not installed"
        elif isinstance(self._found, Layer):
            found = rivals_of_layer(self._found) if self._torch else "torch, which has this in calls, is not installed"
        elif not is_compute_bound(self._kernel, self._sizes):
            found = (COPY,)
        return ((), found) if isinstance(found, str) else (found, None)

    @property
    def computes(self) -> bool:
        """True if there is a result to hold others against."""
        return isinstance(self._found, MatrixProduct | Layer) or self._found is not None and self._torch is not None

    @property
    def version(self) -> str:
        """Of torch, if it is what calls the library."""
        return f"torch {self._torch.__version__}" if self._torch and COPY not in self.rivals else ""

    def bind(self, rival: Rival, arrays: Mapping[str, Any]) -> Call:
        """The rival as a call on these arrays."""
        match self._found:
            case _ if rival == COPY:
                return Call(_copy_scope(self._engine.xp, moved_bytes(self._kernel, self._sizes)), rival.text, None, {})
            case MatrixProduct() as product:
                scope = self._product_scope(product, rival, arrays)
            case Convolution() as convolution:
                scope = self._convolution_scope(convolution, arrays)
            case Layer() as layer:
                names = [(word, layer.tensors[word]) for word in layer.inputs]
                scope = {word: self._input(arrays, each.name).permute(each.axes) for word, each in names}
                scope["torch"] = self._torch
            case _:
                raise TypeError(rival)
        if rival.compiled:
            return Call(*self._compile(rival.text, scope), self._torch, rival.flags)
        return Call(scope, rival.text, self._torch, rival.flags)

    def _compile(self, text: str, scope: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """(names, text) of a call of what torch.compile makes of `text`, once for all sets of arrays."""
        given = ", ".join(name for name in scope if name != "torch")
        if text not in self._compiled:
            self._compiled[text] = self._torch.compile(eval(f"lambda {given}: {text}", {"torch": self._torch}))
        return {**scope, "compiled": self._compiled[text]}, f"compiled({given})"

    def difference(self, arrays: Mapping[str, Any], call: Call | None = None, rounded: bool = False) -> float | None:
        """How far the kernel's result is, or that of `call`, from an exact one: a share of what rounding explains.

        None for a kernel that no library computes, and without a GPU.

        Args:
            rounded: the result may have been rounded to the type of the factors.
        """
        if self._found is None or not self.computes:
            return None
        found, dtypes = self._found, {tensor.name: tensor.dtype for tensor in self._kernel.tensors}
        results, xp = self._results(arrays, call), self._engine.xp
        match found:
            case MatrixProduct():
                return product_difference(found, xp, arrays, results[found.c], dtypes, rounded=rounded)
            case Layer():
                return layer_difference(found, xp, arrays, results, self._kernel, self._sizes, rounded=rounded)
            case Convolution():
                inputs = {each: self._input(arrays, each) for each in found.inputs}
                result = self._tensor(results[found.y], found.result)
                return convolution_difference(found, self._torch, inputs, result, rounded=rounded)
            case _:
                raise TypeError(found)

    def accuracy(self, arrays: Mapping[str, Any], call: Call | None = None) -> Accuracy | None:
        """The errors of the kernel's result, or of that of `call`; None unless they are measured."""
        found = self._found
        if not self._errors or not isinstance(found, MatrixProduct):
            return None
        dtypes = {tensor.name: tensor.dtype for tensor in self._kernel.tensors}
        return accuracy(found, self._engine.xp, arrays, self._results(arrays, call)[found.c], dtypes)

    def _results(self, arrays: Mapping[str, Any], call: Call | None) -> dict[str, Any]:
        """What the kernel has computed, or `call`, by the kernel's names, in the library's dimensions."""
        outputs = _outputs(self._found)
        results = {name: arrays[name].transpose(axes) for name, axes in outputs.items()}
        if call is None or call.result is None:
            return results
        given = call.result if isinstance(call.result, tuple) else (call.result,)
        for (name, seen), result in zip(list(results.items()), given, strict=True):
            tensor = self._kernel.tensor(name)
            if tensor.dtype == "i32":  # torch's indices have 64 bits
                result = result.int()
            results[name] = self._engine.adopt(result.reshape(seen.shape), tensor)
        return results

    def clear(self, arrays: Mapping[str, Any]) -> None:
        """Overwrites what a kernel has computed, so that a check sees whether it is computed again."""
        for name in _outputs(self._found):
            arrays[name].fill(-1 if self._kernel.tensor(name).dtype == "i32" else 0)

    def _input(self, arrays: Mapping[str, Any], name: str) -> Any:
        """A tensor of torch on the memory of an input."""
        return self._tensor(arrays[name], self._kernel.tensor(name).dtype)

    def _tensor(self, array: Any, dtype: str) -> Any:
        """A tensor of torch on the memory of `array`."""
        return as_torch(self._torch, self._torch.from_dlpack, array, dtype)

    def _product_scope(self, found: MatrixProduct, rival: Rival, arrays: Mapping[str, Any]) -> dict[str, Any]:
        if self._torch is None:
            names = {"A": (found.a, found.a_axes), "B": (found.b, found.b_axes), "C": (found.c, found.c_axes)}
            views = {word: arrays[name].transpose(axes) for word, (name, axes) in names.items()}
            return {"cupy": self._engine.xp, **views}
        tensors = {name: self._input(arrays, name) for name in found.inputs}
        a, b = tensors[found.a].permute(found.a_axes), tensors[found.b].permute(found.b_axes)
        shape = (*a.shape[:-1], b.shape[-1])
        scope = {"torch": self._torch, "A": _with_one_batch(a), "B": _with_one_batch(b)}
        if rival.computed in BYTE_FLOATS:
            scope["one"] = self._torch.ones((), device=a.device)
        for word, addend in (("bias", found.bias), ("R", found.residual)):
            if addend is not None:
                computed = getattr(self._torch, TORCH[rival.computed])
                scope[word] = _addend_as_given(tensors[addend.name].to(computed), addend, shape)
        return scope

    def _convolution_scope(self, found: Convolution, arrays: Mapping[str, Any]) -> dict[str, Any]:
        given = (self._tensor(arrays[name], found.operands) for name in (found.x, found.f))
        x, f = (each.contiguous() for each in as_library_has_them(found, *given))
        scope = {"torch": self._torch, "X": x, "F": f, "G": x.shape[1] // f.shape[1]}
        if found.bias:
            scope["bias"] = self._input(arrays, found.bias).flatten().to(getattr(self._torch, TORCH[found.operands]))
        formats = {4: "channels_last", 5: "channels_last_3d"}
        if word := formats.get(x.ndim):
            last = getattr(self._torch, word)
            scope |= {f"{name}_channels_last": t.contiguous(memory_format=last) for name, t in (("X", x), ("F", f))}
        return scope


def _outputs(found: MatrixProduct | Convolution | Layer | None) -> dict[str, tuple[int, ...]]:
    """What the kernel computes, and the axes of each in the order in which a library has them; nothing for none."""
    match found:
        case None:
            return {}
        case MatrixProduct(c=name, c_axes=axes) | Convolution(y=name, y_axes=axes):
            return {name: axes}
        case Layer():
            return dict(found.tensors[word] for word in found.outputs)
        case _:
            raise TypeError(found)


class Call:
    """The expression of a rival on one set of arrays; `result` is what it gave last, in memory of its own."""

    def __init__(self, scope: dict[str, Any], text: str, torch: Any, flags: Mapping[str, bool]) -> None:
        self._scope, self._torch, self._flags = scope, torch, flags
        self._code = compile(text, f"<{text}>", "eval")
        self.result: Any = None

    def __call__(self) -> None:
        with _precision(self._torch, self._flags):
            self.result = eval(self._code, self._scope)


@contextmanager
def _precision(torch: Any, flags: Mapping[str, bool]) -> Iterator[None]:
    """torch with these flags for matrix products, and for convolutions without TF32 and with the fastest algorithm."""
    if torch is None:
        yield
        return
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    wanted = [(products, name, value) for name, value in flags.items() if hasattr(products, name)]
    wanted += [(convolutions, "allow_tf32", False), (convolutions, "benchmark", True)]
    before = [(home, name, getattr(home, name)) for home, name, _ in wanted]
    try:
        for home, name, value in wanted:
            setattr(home, name, value)
        with torch.no_grad():
            yield
    finally:
        for home, name, value in before:
            setattr(home, name, value)


def _with_one_batch(tensor: Any) -> Any:
    """A tensor with all of its batch dimensions as one."""
    return tensor if tensor.ndim <= 3 else tensor.reshape(-1, *tensor.shape[-2:])


def _addend_as_given(tensor: Any, addend: Addend, shape: tuple[int, ...]) -> Any:
    """What is added, in as few dimensions as broadcasting needs: torch fuses a bias of one dimension alone."""
    if addend.axes[-1] is not None and all(axis is None for axis in addend.axes[:-1]):
        return tensor
    seen = view(tensor, addend)
    return seen if len(shape) <= 3 else _with_one_batch(seen.expand(shape))


def _copy_scope(xp: Any, moved: int) -> dict[str, Any]:
    """`copy()` reads half of the bytes and writes half of them."""
    count = max(1, moved // 2 // 16)
    source, target = xp.zeros(count * 4, dtype="float32"), xp.empty(count * 4, dtype="float32")
    kernel = xp.RawKernel(_COPY, "copy")
    return {"copy": lambda: kernel(((count + 255) // 256,), (256,), (source, target, xp.int64(count)))}
