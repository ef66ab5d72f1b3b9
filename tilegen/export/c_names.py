"""What the exported C has of a kernel: its arguments in order, with their names and types, and expressions in sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tilegen.backends.text.arrays import scratch_buffers
from tilegen.backends.text.values.dialect import CUDA
from tilegen.backends.text.values.expr import Writer
from tilegen.errors import UsageError
from tilegen.ir.affine import Affine
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import SHORT_FLOATS, Condition, Scalar, Tensor, Tree
from tilegen.ir.printing.reserved_words import fresh
from tilegen.ir.steps import WHAT_A_NAME_IS, is_name

# Names that the exported files declare beside the arguments, and macros of C's and POSIX's headers, which whoever
# includes ours may have included before: these are `I`, and words of capitals.
_OURS = """
Arguments Array Coefficients Int Seen Sizes Span Work arguments blocks bytes call check check_arrays check_size
check_sizes choose chosen describe each error error_text fail fits floor_div floor_mod given has_no_output is_aligned
is_met kernel_count kernel_names kernels launch launch_version least load member member_count member_names
microseconds passed map_0 map_1 map_2 map_3 map_4 map_5 map_6 map_7 place_scratch product queue reference run serves
shown size stream time_of version version_count version_names workspace workspace_bytes
basename noreturn
"""
_MACRO = re.compile(r"I|[A-Z][A-Z0-9_]+")


@dataclass(frozen=True)
class Interface:
    """The arguments of the exported functions.

    Attributes:
        name: what the functions and files are called after.
        tensors: inputs in the order of a call, then the outputs that are no input, too.
        scalars: in the order of a call.
        order: names of tensors and scalars as a call gives them.
        names: the name in C of each tensor, scalar, size and scratch array.
    """

    name: str
    tree: Tree
    tensors: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...]
    order: tuple[str, ...]
    names: Mapping[str, str]

    @property
    def header(self) -> str:
        """The file of the header: no system has one of such a name, so that any folder may be on the include path."""
        return f"{self.name}_launch.h"

    @property
    def sizes(self) -> tuple[str, ...]:
        return self.tree.kernel.sizes

    def is_written(self, tensor: Tensor) -> bool:
        """True of an output, also of one that is an input, too."""
        return any(t.role == "output" and t.name == tensor.name for t in self.tree.kernel.tensors)

    def pointer_type(self, tensor: Tensor) -> str:
        """The type in C of a tensor's address: of elements that C has no type for, that of any."""
        kind = "void" if tensor.dtype in SHORT_FLOATS else CUDA.types[tensor.dtype]
        return f"{kind}*" if self.is_written(tensor) else f"const {kind}*"

    def parameters(self) -> list[str]:
        """Of a call: arrays and numbers, then the sizes."""
        tensors = {t.name: t for t in self.tensors}
        found = []
        for name in self.order:
            kind = self.pointer_type(tensors[name]) if name in tensors else scalar_type(self._scalar(name))
            found.append(f"{kind} {self.names[name]}")
        return found + self.size_parameters

    @property
    def launch_parameters(self) -> str:
        """Of a call that launches."""
        return ", ".join([*self.parameters(), "void* workspace", "size_t workspace_bytes", "cudaStream_t stream"])

    @property
    def own_sizes(self) -> list[str]:
        """The names of the sizes."""
        return [self.names[size] for size in self.sizes]

    @property
    def size_parameters(self) -> list[str]:
        return [f"int64_t {size}" for size in self.own_sizes]

    @property
    def choosing_parameters(self) -> list[str]:
        """Of a call that chooses a version."""
        return [*(f"const void* {self.names[t.name]}" for t in self.tensors), *self.size_parameters]

    def arguments(self) -> list[str]:
        """The names of the parameters."""
        return [self.names[name] for name in (*self.order, *self.sizes)]

    def _scalar(self, name: str) -> Scalar:
        return next(s for s in self.scalars if s.name == name)


def interface(tree: Tree, name: str = "") -> Interface:
    """The interface of a kernel, called `name` or as the kernel is. An output that is no input comes after the inputs.

    Raises UsageError where C has no such name.
    """
    if name and (not is_name(name) or fresh(name, set()) != name):
        raise UsageError(
            f"{name!r:.80} cannot be a name in C", notes=(f"{WHAT_A_NAME_IS}, and means nothing in C or CUDA",)
        )
    kernel = tree.kernel.written_kernel
    scalars = {s.name: s for s in kernel.scalars}
    outputs = [t for t in kernel.tensors if t.role == "output"]
    order = tuple(dict.fromkeys((*map(memory_of, kernel.parameters), *(t.name for t in outputs))))
    every = {memory_of(t.name): t for t in kernel.tensors if t.role == "input"} | {t.name: t for t in outputs}
    taken = set(_OURS.split())
    name = name or fresh(kernel.name, set())
    wanted = (*order, *kernel.sizes, *(b.name for b in scratch_buffers(tree)))
    taken |= {each for each in wanted if _MACRO.fullmatch(each)}
    names = {each: fresh(each, taken) for each in wanted}
    tensors = tuple(every[each] for each in order if each not in scalars)
    return Interface(name, tree, tensors, tuple(kernel.scalars), order, names)


def family_interface(member: Tree, name: str = "") -> Interface:
    """The interface of a family with this member, at all sizes that the kernel as written is for."""
    return interface(replace(member, kernel=member.kernel.written_kernel), name)


def scalar_type(scalar: Scalar) -> str:
    """The type in C of a number: short floats are handed over as float."""
    return "float" if scalar.dtype in SHORT_FLOATS else CUDA.types[scalar.dtype]


class SizeWriter:
    """Writes expressions in sizes as C++; `inside` is what the sizes are members of."""

    def __init__(self, interface: Interface, inside: str = "size.") -> None:
        names = {size: f"{inside}{interface.names[size]}" for size in interface.sizes}
        self._writer = Writer(CUDA, names, {}, wide=True)

    def value(self, value: Affine) -> str:
        return self._writer.index(value)

    def condition(self, condition: Condition) -> str:
        return self._writer.condition(condition)

    def product(self, factors: Iterable[Affine], least: int = 0) -> str:
        """A product, each factor no less than `least`; it stops at 2^63."""
        more = f", {least}" if least else ""
        return f"product({{{', '.join(map(self.value, factors))}}}{more})"
