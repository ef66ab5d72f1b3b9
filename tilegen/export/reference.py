"""The kernel as written as plain loops in C++, for the test program: the text of a kernel without a schedule."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilegen.backends.text.arrays import written_by
from tilegen.backends.text.body import Body
from tilegen.backends.text.helpers import helpers
from tilegen.backends.text.lines import indent_lines, wrap_lines
from tilegen.backends.text.names import names_of
from tilegen.backends.text.values.dialect import CUDA
from tilegen.backends.text.values.expr import Writer
from tilegen.ir.nodes import Kernel
from tilegen.lowering import Launch, lower
from tilegen.schedule import start

# What CUDA has beside C++, by the words that call it.
_SHIMS = {
    "__float_as_uint(": """\
static unsigned __float_as_uint(float x)
{
    unsigned bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}""",
    "__uint_as_float(": """\
static float __uint_as_float(unsigned bits)
{
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}""",
    "rsqrtf(": "static float rsqrtf(float x) { return 1.0f / std::sqrt(x); }",
    "rsqrt(": "static double rsqrt(double x) { return 1.0 / std::sqrt(x); }",
}


def plain_launches(kernel: Kernel) -> tuple[Launch, ...]:
    """The kernel as written without any step, a launch for each of its equations."""
    return lower(start(kernel.written_kernel).tree)


def reference_text(launches: Sequence[Launch]) -> str:
    """The functions of `launches`, for the host; they take tensors, scalars and sizes as the launches do."""
    functions = "\n\n".join(map(_function, launches))
    helper = helpers(functions, CUDA).replace("__device__ __forceinline__", "static inline")
    # A header of CUDA's stands at the head of the program.
    helper = "\n".join(line for line in helper.splitlines() if not line.startswith("#include")).strip("\n")
    body = helper + functions
    shims = [text for word, text in _SHIMS.items() if re.search(rf"\b{re.escape(word)}", body)]
    return "\n\n".join(part for part in (*shims, helper, functions) if part)


def include_lines(launches: Sequence[Launch]) -> list[str]:
    """The headers of the types that they compute with."""
    text = helpers("\n".join(map(_function, launches)), CUDA)
    return sorted({line for line in text.splitlines() if line.startswith("#include")})


def _function(launch: Launch) -> str:
    names = names_of(launch)
    writer = Writer(CUDA, names, launch.buffers, launch.wide)
    written, integer = written_by(launch), "long long" if launch.wide else "int"
    parameters = [f"{'' if n in written else 'const '}{writer.storage(n)}* {names[n]}" for n in launch.tensors]
    parameters += [f"{writer.working_type(s.dtype)} {names[s.name]}" for s in launch.scalars]
    parameters += [f"{integer} {names[size]}" for size in launch.sizes]
    body = Body(writer, launch).lines(launch.body)
    lines = [f"static void {launch.name}({', '.join(parameters)})", "{", *body, "}"]
    return "\n".join(wrap_lines(indent_lines(lines)))
