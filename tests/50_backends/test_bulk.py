"""Texts with bulk copies: as reviewed, compiled for the architectures that have them, and right where they run."""

from functools import partial

import numpy as np
import pytest

from tests.support.bulk_kernels import CASES
from tests.support.cover import first
from tests.support.reader.readback import difference
from tests.support.stored import as_called, drawn
from tests.support.written import tree_from
from tilegen.backends.compiler.architectures import require_instructions
from tilegen.backends.devices.devices import engine, program
from tilegen.backends.text import emit
from tilegen.errors import DeviceError
from tilegen.interpreter.dtypes import to_values
from tilegen.ir.printing.show import show
from tilegen.lowering import lower

SIZES = [
    {"M": 40, "N": 72, "K": 24},
    {"M": 33, "N": 71, "K": 20},
    {"M": 130, "N": 136, "K": 200},
    {"M": 7, "N": 4, "K": 5},
]


@pytest.mark.parametrize(
    "case",
    ["once", "each time", "two stages", "halves", "ring", "cluster", "stored", "stored each time", "turns, stored"],
)
def test_it_is_as_reviewed(case, golden):
    tree = tree_from(CASES[case])
    golden(show(tree), f"bulk_{case.replace(',', '').replace(' ', '_')}.tree")
    golden(emit(lower(tree)), f"bulk_{case.replace(',', '').replace(' ', '_')}.cu")


@pytest.mark.parametrize("case", CASES)
def test_it_reads_back(case):
    tree = tree_from(CASES[case])
    for version in ({}, {"vector": False}, {"whole": True}, {"wide": True}):
        launches = lower(tree, **version)
        assert difference(emit(launches), launches, "cuda") is None, version


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", 1536)", ", 1520)"),
        ("wait_barrier(&filled[ko % 2]", "wait_barrier(&filled[(ko + 1) % 2]"),
        ("(ko / 2) % 2", "(ko / 2 + 1) % 2"),
        ("A_map, &filled", "B_map, &filled"),
        ("start_barriers(filled, 2, 1)", "start_barriers(filled, 1, 1)"),
        ("start_barriers(filled, 2, 1)", "start_barriers(filled, 2, 2)"),
        ("A_shared[(ko + 1) % 2], A_map", "A_shared[ko % 2], A_map"),
        ("ko * 8 + 8, bi * 16", "bi * 16, ko * 8 + 8"),
    ],
)
def test_a_changed_text_does_not(old, new):
    launches = lower(tree_from(CASES["two stages"]))
    text = emit(launches)
    assert old in text
    assert difference(text.replace(old, new), launches, "cuda") is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("is_consumer = ti < 4", "is_consumer = ti < 5"),
        ("if (is_consumer)", "if (ti < 5)"),
        ("if (tid == 128)", "if (tid == 129)"),
        ("ring.wait_emptied()", "ring.wait_filled()"),
        ("ring.wait_filled()", "ring.wait_emptied()"),
        ("Ring<3> ring", "Ring<4> ring"),
        ("ring.release()", "ring.release_previous()"),
        ("{filled, emptied}", "{emptied, filled}"),
        ("ring.advance();", "ring.skip(2);"),
        ("start_barriers(emptied, 3, 4)", "start_barriers(emptied, 3, 5)"),
        ("    } else {\n        if (tid", "    } {\n        if (tid"),
        ("            ring.release();  // A.shared and B.shared have been read\n", ""),
    ],
)
def test_a_changed_ring_does_not(old, new):
    launches = lower(tree_from(CASES["ring"]))
    text = emit(launches)
    assert old in text
    assert difference(text.replace(old, new), launches, "cuda") is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Y_map, out[p], bi * 32 + p * 8, bj * 64", "Y_map, out[p], bi * 32, bj * 64 + p * 8"),
        ("Y_map, out[p]", "Y_map, out[0]"),
        ("        end_stores();\n", ""),
        ("        wait_stores_read();  // out has been read\n", ""),
        ("    fence_async();\n", ""),
        ("if (tid == 0)", "if (tid <= 0)"),
        ("store_box_2d", "store_box_3d"),
    ],
)
def test_a_changed_store_does_not(old, new):
    launches = lower(tree_from(CASES["stored in panels"]))
    text = emit(launches)
    body = text.index("extern")
    assert old in text[body:]
    assert difference(text[:body] + text[body:].replace(old, new), launches, "cuda") is not None


def test_each_nest_is_stored_as_its_tensor_allows():
    """Where the rows of C begin anywhere, all threads store it, and one thread still fills A and B."""
    tree = tree_from(CASES["stored and filled"])
    launches = [lower(tree, scalarized=frozenset(n))[0] for n in ((), ("Cs.i",), ("A.shared.i", "B.shared.k"))]
    assert [[each.name for each in launch.maps] for launch in launches] == [
        ["A.map", "B.map", "C.map"],
        ["A.map", "B.map"],
        ["C.map"],
    ]
    assert launches[0].tensors == ()
    assert launches[1].tensors == ("C",)


def test_what_all_threads_copy_is_in_no_map():
    tree = tree_from(CASES["two stages"])
    both, one, none = (
        lower(tree, scalarized=frozenset(n)) for n in ((), ("A.shared.i",), ("A.shared.i", "B.shared.k"))
    )
    assert [[each.name for each in launches[0].maps] for launches in (both, one, none)] == [
        ["A.map", "B.map"],
        ["B.map"],
        [],
    ]
    assert "filled" not in emit(none)
    assert emit(lower(tree, vector=False)) == emit(none)


def test_a_map_has_what_the_hardware_asks_for():
    (launch,) = lower(tree_from(CASES["again"]))
    (each,) = launch.maps
    sizes = {"L": 3, "M": 5, "N": 12}
    assert (each.buffer, each.dtype, each.box, each.swizzle) == ("B", "f32", (32, 8, 1), 0)
    assert each.extents(sizes) == (12, 32, 3)
    assert each.strides(sizes) == (48, 48 * 32)


@pytest.mark.nvrtc
@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("arch", first(["sm_90", "sm_90a", "sm_100"]))
@pytest.mark.parametrize("case", first(CASES, 13))
def test_it_compiles(case, arch):
    from tilegen.backends.compiler.nvrtc import compile_text

    tree = tree_from(CASES[case])
    for version in ({}, {"whole": True}, {"wide": True}):
        launches = lower(tree, **version)
        require_instructions(launches, arch)
        assert set(compile_text(emit(launches), arch).resources) == {launch.name for launch in launches}


def test_an_older_architecture_is_told():
    launches = lower(tree_from(CASES["once"]))
    with pytest.raises(DeviceError, match="bulk copies need sm_90 or later, and this is for sm_80"):
        require_instructions(launches, "sm_80")
    assert "// needs sm_90 or later: bulk copies" in emit(launches).splitlines()


def arrays_of(tree, sizes):
    """Small integers, exact in every type."""
    return drawn(tree.kernel, sizes, partial(np.random.default_rng(11).integers, -3, 4))


def expected(tree, given):
    values = {name: to_values(array, tree.kernel.tensor(name).dtype) for name, array in given.items()}
    if tree.kernel.name == "whole":
        return values["X"].sum()
    if "X" in values:
        return values["X"] * 2 if tree.kernel.name == "twice" else values["X"].T
    return np.einsum("mlk,lkn->mn" if values["A"].ndim == 3 else "mk,kn->mn", values["A"], values["B"])


def check(case, sizes, device):
    tree = tree_from(CASES[case])
    sizes = {name: sizes.get(name, 3) for name in tree.kernel.sizes}
    given, machine = arrays_of(tree, sizes), engine(device)
    call = program(tree, machine)
    arrays = as_called(tree.kernel, {name: machine.xp.asarray(array) for name, array in given.items()})
    result = call(*arrays.values())
    result = result.get() if machine.on_gpu else result
    np.testing.assert_array_equal(np.asarray(result, np.float64), expected(tree, given))


@pytest.mark.pocl
@pytest.mark.parametrize("case", CASES)
def test_all_threads_copy_on_a_cpu(case):
    check(case, SIZES[1], "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_it_is_right_on_a_gpu(case, sizes):
    """Rows of some sizes are no multiples of 16 bytes: there all threads copy."""
    check(case, sizes, "cuda")
