"""Random schedules of random kernels, lowered, printed and run: the text computes the kernel, exactly.

A long run: python -m tests.support.generators.texts --cases 1000 --seed 1
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

import numpy as np

from tests.support.generators.programs import random_kernel, random_sizes
from tests.support.generators.steps import any_steps, gpu_recipe
from tests.support.stock import modules
from tests.support.stored import as_called
from tilegen.backends.text import emit
from tilegen.errors import IllegalStep, LimitError, Source, SourceError, StepError
from tilegen.frontend import build, parse
from tilegen.interpreter import reference, run
from tilegen.ir.in_place import memory_of
from tilegen.ir.walk import loops
from tilegen.lowering import distributed_tree, lower
from tilegen.schedule import expand, start


def scheduled_case(pick):
    """(kernel, its text with the accepted steps, the tree at the end, sizes)."""
    drawn = random_kernel(pick)
    kernel = build(parse(Source("random.tg", drawn.text)).kernels["random"])
    scheduled = start(kernel)
    text = f"{drawn.text}\nschedule s for random():\n"
    tiles = [pick([2, 3, 4, 8]), pick([2, 4, 5])]
    recipe = pick([any_steps, gpu_recipe, gpu_recipe, gpu_recipe])(pick, scheduled.tree, tiles)
    try:
        step = next(recipe)
        while True:
            module = parse(Source("step.tg", f"{drawn.text}\nschedule s for random():\n    {step}\n"))
            try:
                defines = {d.word: d for d in modules()["std"].defines}
                scheduled = scheduled.then(expand(module.schedules[0].steps[0], defines))
                text += f"    {step}\n"
            except (StepError, SourceError, IllegalStep):
                pass
            step = recipe.send(scheduled.tree)
    except StopIteration:
        return kernel, text, scheduled.tree, random_sizes(pick, kernel, tiles)


def one_case(pick, number: int, engine) -> str:
    kernel, text, tree, sizes = scheduled_case(pick)
    rng = np.random.default_rng(number)
    shapes = {memory_of(t.name): tuple(e.evaluate(sizes) for e in t.shape) for t in kernel.tensors if t.role == "input"}
    arrays = {name: rng.integers(-3, 4, shape).astype(np.int32) for name, shape in shapes.items()}
    scalars = {scalar.name: np.int32(rng.integers(-3, 4)) for scalar in kernel.scalars}
    arrays |= scalars
    expected = reference(kernel, sizes, arrays)["out"]
    try:
        launches = lower(tree)
    except LimitError:
        return "too large"
    where = f"case {number}\n{text}\nsizes: {sizes}\n"
    dealt = distributed_tree(launches)
    wrong = expected.written & (run(dealt, sizes, arrays)["out"] != expected.value)
    assert not wrong.any(), f"{where}the distributed tree is wrong at {np.argwhere(wrong)[0]}"
    stored = dict(scalars)
    for tensor in kernel.tensors:
        if tensor.role == "input":
            name = memory_of(tensor.name)
            array = np.empty(arrays[name].shape, np.int32)
            place = np.ascontiguousarray(arrays[name].transpose(tensor.order))
            stored[name] = place.transpose(np.argsort(tensor.order)) if array.ndim else place
    for vector, wide in ((True, False), (False, True)):
        got = run_text(tree, engine, stored, sizes, vector, wide)
        wrong = expected.written & (got != expected.value)
        assert not wrong.any(), (
            f"{where}wrong at {np.argwhere(wrong)[0]}\n{emit(lower(tree, vector=vector, wide=wide), 'opencl')}"
        )
    return "run"


def run_text(tree, engine, arrays, sizes, vector, wide):
    """The output; `vector` lets the program choose, otherwise the scalar version runs."""
    from tilegen.backends.calls.device_program import Program
    from tilegen.backends.calls.text_versions import TextVersion

    program = Program(tree, engine)
    scalarized = frozenset(loop.name for loop in loops(tree.body) if loop.kind == "vector")
    if not vector:
        program.versions.choose = lambda sizes, addresses: TextVersion(scalarized, wide=wide)
    names = {size: value for size, value in sizes.items() if size in tree.kernel.sizes}
    copies = {name: np.copy(array, "K") if np.ndim(array) else array for name, array in arrays.items()}
    return program(**as_called(tree.kernel, copies), **names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    from tilegen.backends.devices.opencl import OpenclEngine

    engine = OpenclEngine()
    total: Counter[str] = Counter()
    for number in range(chosen.first, chosen.first + chosen.cases):
        try:
            total[one_case(random.Random(f"{chosen.seed}/{number}").choice, number, engine)] += 1
        except Exception:
            print(f"case {number} of seed {chosen.seed}")
            raise
    print(dict(total))


if __name__ == "__main__":
    main()
