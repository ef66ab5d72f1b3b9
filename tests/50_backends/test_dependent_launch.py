"""Launches that begin early: what is said about them, and that they wait on a GPU."""

import numpy as np
import pytest

from tests.support.overlapping_kernels import CASES, CHAIN, TWO
from tests.support.reader.readback import difference
from tests.support.written import tree_from
from tilegen.backends.compiler import nvrtc, sass, toolkit
from tilegen.backends.compiler.architectures import require_instructions
from tilegen.backends.devices.devices import engine, program
from tilegen.backends.text import emit
from tilegen.errors import DeviceError
from tilegen.lowering import lower
from tilegen.proof import prove


def test_the_text_says_how_to_launch():
    text = emit(lower(tree_from(TWO)))
    assert text.startswith("// needs sm_90 or later: dependent launches\n")
    how = "// launch with cuLaunchKernelEx and CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 1\n"
    assert text.count(how) == text.count("    wait_for_earlier_launches();\n") == 2
    # What no pointer else reaches is constant to the compiler, which then reads it before the wait.
    assert "__restrict__" not in text
    assert "__restrict__" in emit(lower(tree_from(CHAIN)))


def test_opencl_runs_one_launch_after_the_other():
    assert emit(lower(tree_from(TWO)), "opencl") == emit(lower(tree_from(CHAIN)), "opencl")


@pytest.mark.parametrize("case", CASES)
def test_both_texts_are_proved_and_read_back(case):
    tree = tree_from(CASES[case])
    for language in ("cuda", "opencl"):
        launches = lower(tree, vector=language == "cuda", instructions=language == "cuda")
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        assert difference(emit(launches, language), launches, language) is None


def test_older_cards_are_refused_with_a_way_out():
    launches = lower(tree_from(TWO))
    require_instructions(launches, "sm_90")
    with pytest.raises(DeviceError) as caught:
        require_instructions(launches, "sm_80", "a card")
    assert caught.value.render().splitlines() == [
        "error: dependent launches need sm_90 or later, and a card is sm_80",
        "  note: a schedule without dependent_launch() can run on sm_80",
        "  note: tilegen check --device cpu runs one launch after the other",
    ]


@pytest.mark.nvrtc
@pytest.mark.skipif(toolkit.nvdisasm() is None, reason="no nvdisasm")
def test_the_machine_code_reads_and_writes_nothing_ahead_of_the_wait():
    for entry in sass.sass(emit(lower(tree_from(TWO))), "sm_90").values():
        words = [each.opcode for each in entry.instructions]
        wait = next(n for n, word in enumerate(words) if word.startswith("ACQBULK"))
        accesses = [n for n, word in enumerate(words) if word.startswith(("LDG", "STG"))]
        assert accesses
        assert min(accesses) > wait > words.index("PREEXIT")


@pytest.mark.nvrtc
def test_it_compiles_for_no_older_card():
    with pytest.raises(DeviceError):
        nvrtc.compile_text(emit(lower(tree_from(TWO))), "sm_80")


@pytest.mark.gpu
@pytest.mark.parametrize("captured", [False, True], ids=["stream", "graph"])
def test_a_chain_of_launches_is_what_it_is_one_after_the_other(captured):
    """What a call writes the next one reads: C = (A + B) * 2 as A, with room on the GPU for many at a time."""
    device = engine("cuda")
    chain = program(tree_from(TWO), device)
    rng = np.random.default_rng(0)
    n = 40000
    first, added = (rng.integers(-4, 5, n).astype(np.float32) for _ in range(2))
    for _ in range(20):
        x, y, b = (device.xp.asarray(each) for each in (first, np.zeros(n, np.float32), added))
        calls = [chain.bind({"N": n}, {"A": s, "B": b, "C": t}) for s, t in ((x, y), (y, x))] * 8
        for call in calls[:2]:
            call()
        device.synchronize()
        x[:] = device.xp.asarray(first)
        run = device.capture(calls) if captured else None
        device.synchronize()
        x[:] = device.xp.asarray(first)
        device.synchronize()
        for call in [run] if run else calls:
            call()
        device.synchronize()
        expected = first
        for _ in calls:
            expected = (expected + added) * 2
        np.testing.assert_array_equal(device.xp.asnumpy(x), expected)
