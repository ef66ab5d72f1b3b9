"""The test program of an exported kernel: small results beside those of plain loops, and calls that are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilegen.backends.text.arrays import scratch_buffers
from tilegen.backends.text.dialect import CUDA
from tilegen.export import trial_parts as parts
from tilegen.export.c_names import Interface, SizeWriter, scalar_type
from tilegen.export.lines import wrap_code
from tilegen.export.reference import include_lines, plain_launches, reference_text
from tilegen.export.trials import Trial, refused_sizes, sizes_without_output, trials
from tilegen.export.versions import Version
from tilegen.ir.affine import Affine
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, SHORT_FLOATS, Scalar, Tensor
from tilegen.lab.sizes import sizes_to_check
from tilegen.lowering import Launch

# How far a result may be off, relative to 1 + its size: sums are made in another order. Integers are exact.
_TOLERANCE = {"f64": 1e-9, "f32": 1e-3, "f16": 1e-2, "bf16": 3e-2, "e4m3": 0.15, "e5m2": 0.3}
_HEADERS = {"f16": "cuda_fp16.h", "bf16": "cuda_bf16.h", "e4m3": "cuda_fp8.h", "e5m2": "cuda_fp8.h"}


def trial_program(interface: Interface, table: Sequence[Version], title: str, given: Mapping[str, int]) -> str:
    """The text of the test program.

    Args:
        title: the comments at its head.
        given: sizes that it computes, too.
    """
    launches = plain_launches(interface.tree.kernel)
    dtypes = sorted({t.dtype for t in interface.tensors})
    includes = {f"#include <{_HEADERS[d]}>" for d in dtypes if d in _HEADERS} | set(include_lines(launches))
    shorts = [d for d in dtypes if d in SHORT_FLOATS]
    found = [
        parts.HEAD.format(
            title=title,
            name=interface.name,
            header=interface.header,
            includes="".join(f"{line}\n" for line in sorted(includes)),
            reference=reference_text(launches),
            numbers="".join(
                f"double number({CUDA.types[d]} value)\n{{\n    return float(value);\n}}\n" for d in shorts
            ),
            draws="\n".join(map(_draw, dtypes)),
        ),
        parts.EXPECT.format(name=interface.name),
        _trial_struct(interface),
        _choice(interface),
        _run(interface, _intermediates(interface, launches), launches),
        _refuse(interface),
        parts.MAIN.format(
            name=interface.name,
            trials="\n".join(f"        {_trial(interface, t)}," for t in trials(interface, table, given)),
        ),
    ]
    if any("floor_div(" in part for part in found[3:]):
        found.insert(2, parts.FLOOR_DIV)
    text = "\n\n".join(part.strip("\n") for part in found)
    return wrap_code(text)


def _draw(dtype: str) -> str:
    kind = CUDA.types[dtype]
    if dtype in FLOATS:
        value = f"static_cast<{kind}>(float(int(seed % 17) - 8) / 8)"
    else:
        value = {"bool": "seed % 2 == 1", "u8": "seed % 8"}.get(dtype, f"static_cast<{kind}>(int(seed % 9) - 4)")
    return f"template <> {kind} draw(unsigned long long seed)\n{{\n    return {value};\n}}"


# -- trials


def _trial_struct(interface: Interface) -> str:
    fields = [f"    int64_t {interface.names[size]};" for size in interface.sizes]
    fields += [f"    size_t {_moved(interface, t)};  // elements" for t in interface.tensors]
    head = [
        "// A call: the version that runs, and the one that a launch chooses.",
        "struct Trial {",
        "    int version, chosen;",
    ]
    return "\n".join([*head, *fields, "};"])


def _moved(interface: Interface, tensor: Tensor) -> str:
    return f"{interface.names[tensor.name]}_moved"


def _trial(interface: Interface, trial: Trial) -> str:
    values = [trial.version, trial.chosen, *(trial.sizes[size] for size in interface.sizes)]
    values += [int(t.name in trial.moved) for t in interface.tensors]
    return f"{{{', '.join(map(str, values))}}}"


def _sizes_of(interface: Interface) -> list[str]:
    return [f"t.{interface.names[size]}" for size in interface.sizes]


def _choice(interface: Interface) -> str:
    arrays = [f"nowhere<{CUDA.types[t.dtype]}>({n}, t.{_moved(interface, t)})" for n, t in enumerate(interface.tensors)]
    call = f"{interface.name}_version({', '.join([*arrays, *_sizes_of(interface)])})"
    return f"static int choice(const Trial& t)\n{{\n    return {call};\n}}"


# -- a call and its result


def _intermediates(interface: Interface, launches: Sequence[Launch]) -> dict[str, tuple[str, str]]:
    """The type and the number of elements of each array that the plain loops keep between them."""
    write, given = SizeWriter(interface, "t."), {t.name for t in interface.tensors}
    found = {}
    for launch in launches:
        for name in launch.tensors:
            if name not in given:
                buffer = launch.buffers[name]
                found[name] = (CUDA.types[buffer.dtype], _count(buffer.shape, write))
    return found


def _count(shape: Sequence[Affine], write: SizeWriter) -> str:
    return " * ".join(f"({text})" if " " in (text := write.value(extent)) else text for extent in shape) or "1"


def _run(interface: Interface, scratch: Mapping[str, tuple[str, str]], launches: Sequence[Launch]) -> str:
    names, write = interface.names, SizeWriter(interface, "t.")
    lines = ["static void run(const Trial& t)", "{"]
    for tensor in interface.tensors:
        array = f"Array<{CUDA.types[tensor.dtype]}> array_{names[tensor.name]}"
        lines.append(f"    {array}({_count(tensor.shape, write)}, t.{_moved(interface, tensor)});")
    for number, tensor in enumerate(interface.tensors):
        lines += [f"    array_{names[tensor.name]}.fill({number + 1});", f"    array_{names[tensor.name]}.send();"]
    sizes = ", ".join(_sizes_of(interface))
    numbers = {name: _number(scalar) for name, scalar in _scalars(interface).items()}
    given = [numbers.get(name, f"array_{names[name]}.on_device()") for name in interface.order]
    arguments = ", ".join([*given, *_sizes_of(interface), "workspace.on_device()", "bytes", "nullptr"])
    shown = ", ".join(f"{size} = %lld" for size in interface.sizes)
    values = "".join(f", static_cast<long long>({size})" for size in _sizes_of(interface))
    lines += [
        f"    const size_t bytes = {interface.name}_workspace_bytes({sizes});",
        "    Array<unsigned char> workspace(bytes, 0);",
        "    workspace.send();",
        f"    const cudaError_t error = t.version == t.chosen ? {interface.name}_launch({arguments})",
        f"        : {interface.name}_launch_as(t.version, {arguments});",
        f'    std::printf("%s: {shown}\\n", {interface.name}_version_name(t.version){values});',
        "    if (error != cudaSuccess) {",
        f'        std::printf("  %s\\n", {interface.name}_error_text());',
        "        ++failures;",
        "        return;",
        "    }",
        '    check(cudaDeviceSynchronize(), "  the kernel");',
        *_reference_calls(interface, scratch, launches),
        "    size_t wrong = 0;",
        *(f"    wrong += {_comparison(interface, t)};" for t in interface.tensors),
        "    failures += wrong > 0;",
        "}",
    ]
    return "\n".join(lines)


def _comparison(interface: Interface, tensor: Tensor) -> str:
    tolerance = _TOLERANCE.get(tensor.dtype, 0.0) if interface.is_written(tensor) else 0.0
    return f'array_{interface.names[tensor.name]}.compare("{tensor.name}", {tolerance})'


def _reference_calls(
    interface: Interface, scratch: Mapping[str, tuple[str, str]], launches: Sequence[Launch]
) -> list[str]:
    places = {name: f"scratch_{number}" for number, name in enumerate(scratch)}
    lines = [f"    std::vector<{kind}> {places[name]}({count});" for name, (kind, count) in scratch.items()]
    for launch in launches:
        given = [
            f"{places[name]}.data()" if name in places else f"array_{interface.names[memory_of(name)]}.host()"
            for name in launch.tensors
        ]
        given += [_number(scalar) for scalar in launch.scalars]
        given += [f"t.{interface.names[size]}" for size in launch.sizes]
        lines.append(f"    reference::{launch.name}({', '.join(given)});")
    return lines


def _scalars(interface: Interface) -> dict[str, Scalar]:
    return {scalar.name: scalar for scalar in interface.scalars}


def _number(scalar: Scalar) -> str:
    """What every call gives for a number."""
    if scalar.dtype in FLOATS:
        return f"static_cast<{scalar_type(scalar)}>(1.5)"
    return "true" if scalar.dtype == "bool" else f"static_cast<{scalar_type(scalar)}>(3)"


# -- wrong calls


def _refuse(interface: Interface) -> str:
    sizes = _least(interface)
    calls = [("is NULL", _call(interface, sizes, {interface.tensors[0].name: "nullptr"}))]
    for tensor in interface.tensors[:1]:
        bytes_ = DTYPE_BYTES[tensor.dtype]
        if bytes_ > 1:
            place = f"reinterpret_cast<{interface.pointer_type(tensor)}>(uintptr_t(1) << 40 | 1)"
            calls.append((f"no multiple of {bytes_} bytes", _call(interface, sizes, {tensor.name: place})))
    for size in interface.sizes[:1]:
        calls.append(("sizes are at least 1", _call(interface, {**sizes, size: -1}, {})))
    if len(interface.tensors) > 1:
        first = interface.tensors[0]
        written = next(t for t in reversed(interface.tensors) if interface.is_written(t))
        if first != written:
            place = f"nowhere<{CUDA.types[written.dtype]}>(0)"
            calls.append(("share memory", _call(interface, sizes, {written.name: place})))
    if wrong := refused_sizes(interface):
        calls.append((" only", _call(interface, wrong, {})))
    if scratch_buffers(interface.tree):
        calls.append(("the workspace is NULL", _call(interface, sizes, {}, workspace="nullptr, 0")))
        calls.append(("the workspace has 1 bytes", _call(interface, sizes, {}, workspace="nowhere<char>(90), 1")))
    calls.append(("has no version", _call(interface, sizes, {}, version="99")))
    lines = [f'    expect("{words}", {call});' for words, call in calls]
    if empty := sizes_without_output(interface):
        lines.append(f'    check({_call(interface, empty, {})}, "an empty result");')
    return "\n".join(["static void refuse()", "{", *lines, "}"])


def _least(interface: Interface) -> dict[str, int]:
    """Small sizes that the kernel admits."""
    return sizes_to_check([interface.tree], {})[-1]


def _call(
    interface: Interface,
    sizes: Mapping[str, int],
    places: Mapping[str, str],
    *,
    workspace: str = "nowhere<char>(90), size_t(1) << 40",
    version: str = "",
) -> str:
    tensors = {t.name: f"nowhere<{CUDA.types[t.dtype]}>({n})" for n, t in enumerate(interface.tensors)} | dict(places)
    given = [tensors[name] if name in tensors else _number(_scalars(interface)[name]) for name in interface.order]
    given += [str(sizes[size]) for size in interface.sizes]
    word = "launch_as" if version else "launch"
    return f"{interface.name}_{word}({', '.join([*([version] if version else []), *given, workspace, 'nullptr'])})"
