"""The bound of a sum by an instruction: data made to lose the most comes near to it, and stays within."""

import numpy as np
import pytest

from tests.support.declared_sums import add_up, factor_type, rounded, scattered, worst_factors
from tests.support.stock import instructions
from tests.support.written import tree_from
from tilegen.frontend.stock import stock_instructions
from tilegen.interpreter import reference
from tilegen.interpreter.dtypes import from_values
from tilegen.interpreter.expected.summation import sum_bound
from tilegen.ir.comparison.tolerance import PLAIN, Tolerance, tolerance_of
from tilegen.ir.hardware.instructions import Instruction, SharedMatrix, Summation
from tilegen.ir.nodes import DTYPE_BYTES, Tree

ROUNDING = {  # but for those of 8 columns, of which no tile here has so few
    name: each for name, each in instructions().items() if each.summations and not name.startswith("wgmma_m64n8k")
}


def ways():
    """(name of an instruction, a way in which it sums); those that sum the same types alike are long but for one."""
    found = {}
    for name, each in ROUNDING.items():
        for summation in each.summations:
            alike = found.setdefault((summation, factor_type(each), each.operands[-1].operand.dtype), [])
            alike.append(pytest.param(name, summation, marks=[pytest.mark.long] * bool(alike)))
    return [way for alike in found.values() for way in alike]


def scheduled(instruction: Instruction, steps: str = "", summed: str = "C") -> Tree:
    """A product of the instruction's types that it computes, adding up the tensor `summed`."""
    a, b, c = (operand.operand.dtype for operand in instruction.operands)
    m, n, k = (each.extent.const for each in (*instruction.equation.loops, *instruction.equation.reduced))
    terms = instruction.text.split("sum[k](")[1].split("\n")[0]
    first = ""
    if instruction.operands[0].format == "tf32":
        terms = "tf32(A[i, k]) * tf32(B[k, j]))"
        if any(isinstance(each, SharedMatrix) for each in instruction.operands):  # copied from rounded numbers
            first = "    var P: f32[M, K]\n    var Q: f32[K, N]\n"
            first += "    P[y, x] = tf32(A[y, x])\n    Q[v, u] = tf32(B[v, u])\n"
            terms = "P[i, k] * Q[k, j])"
    text = f"""
kernel product(A: {a}[M, K], B: {b}[K, N]) -> C: {c}[M, N]:
{first}    C[i, j] = sum[k]({terms}
schedule s for product:
    round_up(k, {4 * k})
    tile(i, {m}) -> bi, i
    tile(j, {n}) -> bj, j
    tile(k, {4 * k}) -> kp, kq
    tile(kq, {k}) -> ko, k
{steps}    order(bi, bj, kp, ko, i, j, k)
    bind(bi, block.x)
    cache_register({summed}, at={"bj" if summed == "C" else "kp"})
{loaded_factors(instruction, "PQ" if first else "AB")}
    tensorize(i, j, k, by={instruction.name})
"""
    return tree_from(text)


def loaded_factors(instruction: Instruction, names: str) -> str:
    """The steps that bring both to where the instruction reads them; what has a descriptor, in rows of 128 bytes."""
    steps = []
    for name, indices, operand in zip(names, ("i, k", "k, j"), instruction.operands, strict=False):
        if not isinstance(operand, SharedMatrix):
            steps.append(f"cache_register({name}, at=ko)")
            continue
        size = DTYPE_BYTES[operand.operand.dtype]
        if indices.endswith(operand.along):
            panel = f", vector={16 // size}, panel={128 // size}"
        else:
            panel = ", layout=[1, 0]"
        steps += [f"cache_shared({name}, at=kp{panel}) -> {name}s", f"swizzle({name}s, {16 // size})"]
    return "\n".join(f"    {step}" for step in steps)


def on_one_row(tree: Tree, left: np.ndarray, right: np.ndarray, tolerance: Tolerance) -> tuple[float, float]:
    """The exact sum of the products of two rows of numbers, and its bound."""
    a, b = (tree.kernel.tensor(name).dtype for name in "AB")
    arrays = {"A": from_values(left[None, :], a), "B": from_values(right[:, None], b)}
    found = reference(tree.kernel, {"M": 1, "N": 1, "K": len(left)}, arrays, tolerance)["C"]
    return float(found.value[0, 0]), float(found.bound[0, 0])


@pytest.mark.parametrize(("name", "summation"), ways())
def test_the_worst_data_stays_within_the_bound(name: str, summation: Summation) -> None:
    instruction = ROUNDING[name]
    factor, result = factor_type(instruction), instruction.operands[-1].operand.dtype
    tree = scheduled(instruction)
    for count in (64, 512):
        left, right = worst_factors(summation, factor, result, count)
        got = add_up(summation, 0.0, left, right, factor, result)
        value, bound = on_one_row(tree, left, right, tolerance_of(tree))
        assert abs(got - value) <= bound
        plain = on_one_row(tree, left, right, PLAIN)[1]
        # With 24 fraction bits or less an addition loses more than a rounding for each of its terms.
        assert (abs(got - value) > plain) == (summation.truncated and summation.bits in (13, 24))
        if summation == instruction.summations[0]:
            own = sum_bound(tolerance_of(tree).sums, tree.kernel.equations[-1], count, {"M": 1, "N": 1, "K": count})
            assert own
            # In f64 the reference's own roundings are two thirds of it.
            assert abs(got - value) > (0.3 if result == "f64" else 0.7) * own.share * (left * right).sum()


@pytest.mark.parametrize(("name", "summation"), ways())
def test_scattered_data_stays_within_the_bound(name: str, summation: Summation) -> None:
    instruction = ROUNDING[name]
    factor, result = factor_type(instruction), instruction.operands[-1].operand.dtype
    tree, random = scheduled(instruction), np.random.default_rng(5)
    for _ in range(40):
        left, right = scattered(random, (2, 96), factor)
        if result == "f16":
            left = rounded(left / 64, factor)  # sums stay far below the largest f16
        value, bound = on_one_row(tree, left, right, tolerance_of(tree))
        assert abs(add_up(summation, 0.0, left, right, factor, result) - value) <= bound


def test_subnormal_factors_have_the_exponent_of_the_least_normal_number() -> None:
    """2^-24 times 2^15 is cut off as if it were 2, and takes the other terms with it."""
    instruction = ROUNDING["mma_m16n8k16_f16"]
    tree, summation = scheduled(instruction), instruction.summations[0]
    left, right = np.full(16, 2.0**-12), np.full(16, 2.0**-13)
    left[0], right[0] = 2.0**-24, 2.0**15
    got = add_up(summation, 0.0, left, right, "f16", "f32")
    value, bound = on_one_row(tree, left, right, tolerance_of(tree))
    assert got == 2.0**-9 + 8 * 2.0**-25
    assert 16 * 2.0**-24 * value < abs(got - value) <= bound


def test_infinities_beside_leave_the_bound() -> None:
    """With them the sum takes another way through the reference."""
    instruction = ROUNDING["mma_m16n8k16_bf16"]
    tree = scheduled(instruction)
    left, right = worst_factors(instruction.summations[0], "bf16", "f32", 64)
    rows = from_values(np.stack([left, np.full(64, np.inf)]), "bf16")
    arrays = {"A": rows, "B": from_values(right[:, None], "bf16")}
    found = reference(tree.kernel, {"M": 2, "N": 1, "K": 64}, arrays, tolerance_of(tree))["C"]
    assert found.value[1, 0] == np.inf
    # Each product has a rounding of its own there.
    assert 1 < found.bound[0, 0] / on_one_row(tree, left, right, tolerance_of(tree))[1] < 1.02


def test_parts_add_their_own_roundings() -> None:
    instruction = ROUNDING["mma_m16n8k16_bf16"]
    whole = scheduled(instruction)
    parts = scheduled(instruction, steps="    rfactor(C, kp) -> part\n", summed="part")
    (own,), (nest,) = tolerance_of(whole).sums, tolerance_of(parts).sums
    assert (own.alone, nest.alone, nest.target) == (True, False, "C")
    assert [[str(each) for each in found.runs] for found in (own, nest)] == [["(K + 63)/64", "4"], ["4"]]
    left, right = worst_factors(instruction.summations[0], "bf16", "f32", 512)
    bounds = [on_one_row(tree, left, right, tolerance_of(tree))[1] for tree in (whole, parts)]
    # Each part loses what its own terms do, and their sum a rounding for each term that it may have.
    additions, roundings = 64 / 8, 512
    lost = 64 + additions + 2 * additions + roundings, 512 + 3 * 64
    assert bounds[1] / bounds[0] == pytest.approx(lost[0] / lost[1], rel=0.01)


def test_parts_make_up_for_a_short_accumulation() -> None:
    """Products of 8-bit floats by warpgroups, all of which one accumulator of 13 fraction bits would lose."""
    instruction, count = ROUNDING["wgmma_m64n128k32_e4m3"], 4096
    summation = instruction.summations[0]
    whole = scheduled(instruction)
    parts = scheduled(instruction, steps="    rfactor(C, kp) -> part\n", summed="part")
    left, right = worst_factors(summation, "e4m3", "f32", count)
    (value, wide), (_, narrow) = (on_one_row(tree, left, right, tolerance_of(tree)) for tree in (whole, parts))
    cuts = range(0, count, 128)
    sums = [add_up(summation, 0.0, left[at : at + 128], right[at : at + 128], "e4m3", "f32") for at in cuts]
    in_one, in_parts = (abs(each - value) for each in (add_up(summation, 0.0, left, right, "e4m3", "f32"), sum(sums)))
    assert in_parts <= narrow < value / 50
    assert value / 4 < in_one <= wide


def test_integers_need_no_bound() -> None:
    assert tolerance_of(scheduled(stock_instructions()["mma_m16n8k32_i8"])) == PLAIN
