"""The OpenCL runtime itself, on texts written by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tilegen.backends.calls.arrays import guarded_array
from tilegen.backends.calls.engine import Run
from tilegen.backends.devices.opencl import OpenclEngine, unavailable_reason
from tilegen.errors import ArgumentError, DeviceError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Tensor

pytestmark = pytest.mark.pocl

TEXT = """\
__kernel void twice(__global const float* restrict a, __global float* restrict out, int n)
{
    int i = get_global_id(0);
    if (i < n) out[i] = 2 * a[i];
}
"""


class Named:
    name, threads, private_bytes = "twice", 32, 0


def test_a_kernel_writes_into_the_array_itself_and_nowhere_else() -> None:
    engine = OpenclEngine()
    entry = engine.build(TEXT, [Named])["twice"]
    zone = guarded_array(np, Tensor("out", "f32", (var("M"), var("N")), "output", (1, 0)), (5, 7))
    a = np.arange(35, dtype=np.float32).reshape(5, 7, order="F")
    run = Run("twice", (2, 1, 1), (32, 1, 1), 0, (0, 1), (), (35,), False)
    engine.launcher(entry, run)((a, zone.array), (), (), 0)
    assert np.array_equal(zone.array, 2 * a)
    assert zone.touched_border() is None
    engine.launcher(entry, replace(run, sizes=(36,)))((a, zone.array), (), (), 0)
    assert zone.touched_border() == "after"


def test_a_refused_text_shows_its_line() -> None:
    with pytest.raises(DeviceError) as caught:
        OpenclEngine().build("__kernel void f()\n{\n    missing = 1;\n}\n", [])
    assert caught.value.span is not None
    assert caught.value.span.line == 3


def test_the_simulator_is_a_platform_only_by_name() -> None:
    assert "Oclgrind" not in OpenclEngine().name
    assert unavailable_reason("no such platform") == "no OpenCL platform was found"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(3), "A is float64, and the kernel takes f32"),
        ([1.0, 2.0], "A is a list, not an array"),
        (np.ma.array([1.0, 2.0], np.float32, mask=[0, 1]), "A is a masked array"),
    ],
)
def test_wrong_arrays_are_refused(value: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        OpenclEngine().adopt(value, Tensor("A", "f32", (var("N"),), "input", (0,)))


def test_a_read_only_output_is_refused() -> None:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        OpenclEngine().adopt(array, Tensor("C", "f32", (var("N"),), "output", (0,)))
