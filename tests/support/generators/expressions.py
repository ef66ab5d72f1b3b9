"""Random scalar expressions over all operations and types, as kernels, and inputs full of special values.

    python -m tests.support.generators.expressions --cases 2000 --seed 7 --device cpu

Right kernels pass their check, whatever the inputs; what is wrong with one operation or operand is caught.
"""

from __future__ import annotations

import argparse
import random

import numpy as np

import tilegen
from tilegen.backends.calls.arrays import NUMPY_NAME
from tilegen.backends.devices.devices import engine, program
from tilegen.errors import NothingCompared, WrongResult
from tilegen.interpreter import reference
from tilegen.interpreter.dtypes import from_values
from tilegen.lab.checks.check import Case, cases, check

FLOATS, INTEGERS = ("f64", "f32", "f16", "bf16"), ("i64", "i32", "i8", "u8")
BYTE_FLOATS = ("e4m3", "e5m2")  # of which there are casts and choices alone
FUNCTIONS = [
    "abs", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log1p", "log2", "sin", "cos", "tan", "tanh", "sinh", "cosh",
    "asin", "acos", "atan", "erf", "floor", "ceil", "round",
]  # fmt: skip
SPECIAL = [
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 100.0, 127.5, 128.0, -128.5, 255.9,
    256.0, 65504.0, 65520.0, 2.0**31 - 1, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 1e-5, 6e-8, 1e-40, -1e-40, 1e-45,
    2.0**-126, 3.4028234663852886e38, -3.4028234663852886e38, 1e300, 5e-324, 3.141592653589793, 709.8, 88.72, 11.09,
]  # fmt: skip
LENGTH = 96


class Drawn:
    """Draws expressions; `swap` makes the numbered operation or operand of them another one."""

    def __init__(self, rng: random.Random, swap: int = -1) -> None:
        self.rng, self.swap, self.count = rng, swap, 0

    def choose(self, *options: str) -> str:
        """One of the options; another one where it is this choice's turn to be wrong."""
        number = self.rng.randrange(len(options))
        self.count += 1
        return options[(number + (self.count - 1 == self.swap)) % len(options)]

    def leaf(self, dtype: str) -> str:
        if self.rng.random() < 0.2:
            number = self.rng.choice(
                ["0.5", "2", "-1", "3", "0.1", "7"] if dtype not in INTEGERS else ["2", "3", "7", "1"]
            )
            return f"{dtype}({number})"
        return f"{self.choose('a', 'b')}_{dtype}[{self.index}]"

    index = "i"

    def expression(self, dtype: str, depth: int) -> str:
        if depth == 0:
            return self.leaf(dtype)
        kind = self.rng.random() * (0.27 if dtype in BYTE_FLOATS else 1)
        if kind < 0.12:
            test, left, right = self.test(depth - 1), *self.two(dtype, depth)
            return f"({left} if {test} else {right})"
        if kind < 0.27:
            other = self.rng.choice([t for t in (*FLOATS, *BYTE_FLOATS, *INTEGERS) if t != dtype])
            return f"{dtype}({self.expression(other, depth - 1)})"
        return self.of_floats(dtype, depth) if dtype in FLOATS else self.of_integers(dtype, depth)

    def two(self, dtype: str, depth: int) -> tuple[str, str]:
        return self.expression(dtype, depth - 1), self.expression(dtype, depth - 1)

    def of_floats(self, dtype: str, depth: int) -> str:
        kind = self.rng.random()
        if kind < 0.55:
            left, right = self.two(dtype, depth)
            return f"({left} {self.choose('+', '-', '*', '/')} {right})"
        if kind < 0.85:
            own = ("tf32", "tf32_rz", "power_of_two") if dtype == "f32" else ()
            return f"{self.choose(*FUNCTIONS, *own)}({self.expression(dtype, depth - 1)})"
        if kind < 0.9:
            left, right = self.two(dtype, depth)
            return f"fma({left}, {right}, {self.expression(dtype, depth - 1)})"
        left, right = self.two(dtype, depth)
        return f"{self.choose('min', 'max', 'pow', 'atan2')}({left}, {right})"

    def of_integers(self, dtype: str, depth: int) -> str:
        kind = self.rng.random()
        left, right = self.two(dtype, depth)
        if kind < 0.6:
            return f"({left} {self.choose('+', '-', '*', '//', '%')} {right})"
        if kind < 0.8:
            return f"({left} {self.choose('&', '|', '^', '<<', '>>')} {right})"
        if kind < 0.9:
            return f"{self.choose('min', 'max')}({left}, {right})"
        return f"{self.choose('abs', '-')}({left})"

    def test(self, depth: int) -> str:
        dtype = self.rng.choice((*FLOATS, *INTEGERS))
        left, right = self.expression(dtype, max(0, depth - 1)), self.expression(dtype, max(0, depth - 1))
        text = f"{left} {self.choose('<', '<=', '==', '!=', '>', '>=')} {right}"
        if depth > 1 and self.rng.random() < 0.3:
            return f"({text}) {self.choose('and', 'or')} not ({self.test(depth - 1)})"
        return text


def kernel(seed: int, count: int = 6, swap: int = -1, floats: tuple[str, ...] = FLOATS) -> tuple[str, int]:
    """The text of a kernel of `count` random equations, and how many choices there were in it."""
    rng = random.Random(seed)
    drawn, names, lines = Drawn(rng, swap), [], []
    for number in range(count):
        dtype = rng.choice((*floats, *INTEGERS))
        reduce = rng.choice(["", "", "", "sum", "prod", "max", "min", "argmax", "argmin"])
        drawn.index = "i"
        if reduce:
            drawn.index = "i, k"
        value = drawn.expression(dtype, rng.choice([1, 2, 2, 3]))
        value = f"{reduce}[k < K]({value})" if reduce else value.replace("[i]", "[i, 0]")
        lines.append(f"    y{number}[i] = {value}\n")
        names.append(f"y{number}: {'i32' if reduce.startswith('arg') else dtype}[N]")
    inputs = [f"{name}_{dtype}: {dtype}[N, K]" for dtype in (*FLOATS, *BYTE_FLOATS, *INTEGERS) for name in "ab"]
    return f"kernel k({', '.join(inputs)}) -> {', '.join(names)}:\n{''.join(lines)}", drawn.count


def special(seed: int, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Inputs of which most are at the border of something."""
    rng = np.random.default_rng(seed)
    shape = (sizes["N"], sizes["K"])
    arrays = {}
    for dtype in (*FLOATS, *BYTE_FLOATS, *INTEGERS):
        for name in "ab":
            if dtype not in INTEGERS:
                values = np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), rng.standard_normal(shape) * 2)
                arrays[f"{name}_{dtype}"] = from_values(values, dtype)
                continue
            limits = np.iinfo(NUMPY_NAME[dtype])
            ends = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 7]
            ends += [-1, -2, -7] if limits.min else []
            values = rng.choice(np.array(ends, NUMPY_NAME[dtype]), shape)
            arrays[f"{name}_{dtype}"] = values
    return arrays


def right(seed: int, device: str) -> float:
    """Checks a right kernel on special values; the share of elements of which nothing can be said."""
    text, _ = kernel(seed)
    made = tilegen.load(text).kernel().schedule()
    sizes = {"N": LENGTH, "K": 3}
    arrays = special(seed, sizes)
    case = Case(sizes, "random", arrays, reference(made.kernel, sizes, arrays))
    try:
        (trial,) = check(program(made.tree, engine(device), unproved=True), [case])
    except WrongResult as wrong:
        raise AssertionError(f"seed {seed}\n{text}{wrong.render()}") from None
    return trial.unbounded


def is_caught(seed: int, device: str) -> bool | None:
    """Whether a check of one equation finds that a choice in it was another; None if the text is not another."""
    text, choices = kernel(seed, count=1)
    other, _ = kernel(seed, count=1, swap=random.Random(seed).randrange(max(1, choices)))
    if other == text:
        return None
    wanted, wrong = (tilegen.load(t).kernel().schedule().tree for t in (text, other))
    tried = cases(wanted.kernel, [{"N": LENGTH, "K": 3}])
    try:
        check(program(wanted, engine(device), unproved=True), tried)
        check(program(wrong, engine(device), unproved=True), tried)
    except WrongResult:
        return True
    except NothingCompared:
        pass
    return False


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    seeds = range(given.seed * 1_000_000, given.seed * 1_000_000 + given.cases)
    failed, unbounded = 0, []
    for seed in seeds:
        try:
            unbounded.append(right(seed, given.device))
        except AssertionError as wrong:
            failed += 1
            print(wrong, flush=True)
    found = [is_caught(seed, given.device) for seed in seeds]
    print(
        f"{len(seeds)} kernels, {failed} called wrong; nothing can be said of {np.mean(unbounded):.2g} of the elements"
    )
    print(f"{found.count(True)} of {len(found) - found.count(None)} faults caught")


if __name__ == "__main__":
    main()
