"""A kernel held against numpy written by hand: the reference, the interpreter, PoCL, and what is printed.

`agrees(text, arrays, expected)` builds the only kernel of `text`, under its schedule if it has one, and asks that all
of them give `expected`, name -> array. Floats may be off by the reference's bound.
"""

import numpy as np

from tests.support.reader.readback import difference
from tests.support.stored import as_called
from tilegen.backends.text import emit
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.interpreter import reference, run
from tilegen.judge import check_equations
from tilegen.lowering import lower
from tilegen.schedule import apply, start


def schedule_text(text, **values):
    """The kernel under its schedule, or as it is written, and judged."""
    module = parse(Source("hand.tg", text))
    (decl,) = module.kernels.values()
    kernel = check_equations(build(decl, values))
    defines = {d.word: d for d in module.defines}
    return apply(kernel, module.schedules[0], {}, defines) if module.schedules else start(kernel)


def sizes_of(kernel, arrays):
    """The sizes that the arrays' shapes give, of dimensions that are a name."""
    found = {}
    for tensor in kernel.tensors:
        if tensor.name in arrays:
            for extent, length in zip(tensor.shape, np.shape(arrays[tensor.name]), strict=True):
                found |= {str(extent): length} if str(extent) in kernel.sizes else {}
    return found


def agrees(text, arrays, expected, *, device=True, sizes=None):
    """Fails where the reference, the interpreter, PoCL or the printed text differ from `expected`."""
    made = schedule_text(text)
    kernel, tree = made.kernel, made.tree
    sizes = sizes or sizes_of(kernel, arrays)
    right = reference(kernel, sizes, arrays)
    for name, wanted in expected.items():
        assert_within(f"reference of {name}", right[name].value, wanted, right[name].bound)
    for name, got in run(tree, sizes, arrays).items():
        assert_within(f"interpreted {name}", got, expected[name], right[name].bound)
    for version in ({}, {"wide": True}):
        launches = lower(tree, **version)
        for language in ("cuda", "opencl"):
            wrong = difference(emit(launches, language), launches, language)
            assert wrong is None, wrong
    if device:
        # The call proves the printed program.
        for name, got in on_pocl(made, sizes, arrays).items():
            assert_within(f"{name} on PoCL", got, expected[name], right[name].bound)
    return made


def assert_within(what, got, wanted, bound):
    off = np.abs(np.asarray(got, dtype=object) - np.asarray(wanted, dtype=object)).astype(float)
    assert np.all((off <= bound) | (np.asarray(got) == np.asarray(wanted))), f"{what}: {got} and not {wanted}"


def on_pocl(made, sizes, arrays):
    from tilegen.backends.calls.device_program import Program
    from tilegen.backends.devices.opencl import OpenclEngine

    asked = {n: v for n, v in sizes.items() if not any(n in map(str, t.shape) for t in made.kernel.tensors)}
    got = Program(made.tree, OpenclEngine())(**as_called(made.kernel, arrays), **asked)
    outputs = [t.name for t in made.kernel.tensors if t.role == "output"]
    return dict(zip(outputs, got if len(outputs) > 1 else [got], strict=True))


def compiles(text, arch="sm_80"):
    """Fails where NVRTC refuses one of the versions."""
    from tilegen.backends.compiler.nvrtc import compile_text

    tree = schedule_text(text).tree
    for wide in (False, True):
        compile_text(emit(lower(tree, wide=wide), "cuda"), arch)
