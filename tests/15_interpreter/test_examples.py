"""Every kernel of examples/ and schedules/: the interpreter and the reference against numpy written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.meaning.numpy_references import CASES, Case, Inputs, Sizes
from tests.support.stored import rising
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.interpreter import NUMPY, reference, run
from tilegen.interpreter.dtypes import from_values, to_values
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import FLOATS, Kernel
from tilegen.ir.written import tree_of
from tilegen.judge.kernel.equations import check_equations

ROOT = Path(__file__).parents[2]
ALL = [(case, sizes) for case in CASES for sizes in case.sizes]


def name_of(part: object) -> str:
    return ",".join(f"{n}={v}" for n, v in part.items()) if isinstance(part, dict) else str(part)


def kernel_of(case: Case) -> Kernel:
    path = ROOT / f"{case.file}.tg"
    module = parse(Source(path.name, path.read_text()))
    return check_equations(build(module.kernels[case.kernel], case.attributes))


def inputs_of(kernel: Kernel, case: Case, sizes: Sizes) -> Inputs:
    random = np.random.default_rng(7)
    arrays: dict[str, Any] = {}
    for tensor in kernel.tensors:
        if tensor.role != "input":
            continue
        shape = tuple(extent.evaluate(sizes) for extent in tensor.shape)
        if tensor.dtype in FLOATS:
            values = random.standard_normal(shape)
            values = np.abs(values) % 1 + 0.1 if case.positive else values
            arrays[memory_of(tensor.name)] = from_values(values, tensor.dtype)
        else:
            arrays[memory_of(tensor.name)] = random.integers(-100, 100, shape).astype(NUMPY[tensor.dtype])
    arrays = rising(kernel, sizes, arrays)
    return arrays | {s.name: NUMPY[s.dtype].type(random.standard_normal()) for s in kernel.scalars}


@pytest.mark.parametrize(("case", "sizes"), ALL, ids=name_of)
def test_example(case: Case, sizes: Sizes) -> None:
    kernel = kernel_of(case)
    arrays = inputs_of(kernel, case, sizes)
    dtypes = {one.name: one.dtype for one in (*kernel.tensors, *kernel.scalars)}
    expected = case.expected({name: to_values(a, dtypes[name]) for name, a in arrays.items()})
    results = run(tree_of(kernel), sizes, arrays)
    references = reference(kernel, sizes, arrays)
    assert results.keys() == references.keys() == expected.keys()
    for name, result in results.items():
        ref, right = references[name], np.asarray(expected[name])
        tolerance = case.tolerance * max(1.0, float(np.nanmax(np.abs(right), initial=0))) * 10
        assert ref.value.shape == right.shape
        assert np.array_equal(ref.written, ~np.isnan(right.astype(np.float64)))
        w = ref.written
        computed = to_values(result, kernel.tensor(name).dtype)
        np.testing.assert_allclose(computed[w], right[w], rtol=0, atol=tolerance)
        if ref.gap is not None:
            assert (ref.gap(result) <= 1).all()
            continue
        assert (np.abs(computed - ref.value)[w] <= ref.bound[w]).all()
        assert np.isfinite(ref.bound[w]).all()
        # What is exact lies within what a right program may be off by, and the reference is a right program.
        assert (np.abs(right - ref.value)[w] <= ref.bound[w] + 1e-12).all()
        np.testing.assert_allclose(ref.value[w], right[w], rtol=0, atol=min(tolerance, 1e-5 if w.all() else tolerance))


def test_every_kernel_has_a_reference() -> None:
    paths = [p for folder in ("examples", "schedules") for p in (ROOT / folder).glob("*.tg")]
    kernels = {
        (f"{path.parent.name}/{path.stem}", name)
        for path in paths
        for name in parse(Source(path.name, path.read_text())).kernels
    }
    assert kernels == {(case.file, case.kernel) for case in CASES}
