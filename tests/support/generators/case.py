"""One random case: a kernel, steps on it, and everything that must hold after each of them.

An accepted step: the interpreter's result is the reference, exactly. The last tree: both lowered versions
run in the interpreter too, their text is printed and read back, at the largest sizes that it admits in exact
integers, and in some cases PoCL runs it. A refused step: its
witness, run at its own sizes by an enumeration that shares nothing with the judge, shows a violation. The kernel
means what its text says, by tests/support/meaning, which shares nothing with tilegen, and is refused where that is
nothing.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from math import lcm, prod

import numpy as np

from tests.support.enumeration.runs import verdict
from tests.support.enumeration.structure import structure
from tests.support.generators.atomics import atomics_recipe
from tests.support.generators.flat import flatten, windows
from tests.support.generators.meaning import build_kernel, check_refusal, error_at, meant_otherwise, small_sizes
from tests.support.generators.prefixes import runs_along, scan_recipe
from tests.support.generators.programs import any_text, holds, points, random_sizes
from tests.support.generators.recurrences import is_recurrence, recurrence_recipe
from tests.support.generators.roles import roles_recipe
from tests.support.generators.steps import any_steps, gpu_recipe, lanes_recipe, random_step, warp_recipe
from tests.support.reader.overflow import extremes, overflow
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.stored import as_called
from tilegen.backends.text import emit
from tilegen.errors import IllegalStep, LimitError, ProofError, Source, SourceError, StepError
from tilegen.frontend import parse
from tilegen.frontend.stock import standard_steps, stock_instructions
from tilegen.interpreter import NUMPY, reference, run
from tilegen.ir.affine import Mod
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS
from tilegen.ir.walk import loops
from tilegen.judge import judge
from tilegen.lowering import distributed_tree, lower
from tilegen.lowering.launch.program import Perform
from tilegen.lowering.launch.timelines import Box
from tilegen.primitives.calling.call import bind
from tilegen.primitives.calling.collapsed import loop_by_loop
from tilegen.proof import demand, prove
from tilegen.schedule import expand, start

DRAWS = 6  # of the values of a text's loops and coordinates at its largest sizes
WITH_INSTRUCTIONS = 6001  # points: one instruction alone has 2048
LONG = 10  # accepted steps of a long sequence


class Failure(AssertionError):
    """Something that must hold does not; the message has the kernel, the steps and the sizes."""


@dataclass
class Case:
    """A kernel with the steps accepted so far, at one choice of sizes and values."""

    text: str
    scheduled: object = None  # None where the kernel itself is refused
    sizes: dict = field(default_factory=dict)
    arrays: dict = field(default_factory=dict)
    expected: object = None
    steps: list = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    words: Counter = field(default_factory=Counter)  # (step's word, what came of it)
    careful: list = field(default_factory=list)  # refusals of what goes wrong at no size that was tried

    def fail(self, what, extra=""):
        raise Failure(f"{what}\n{self.text}steps:\n  " + "\n  ".join(self.steps) + f"\nsizes: {self.sizes}\n{extra}")

    def same(self, result, what):
        wrong = self.expected.written & (result != self.expected.value)
        if wrong.any():
            self.fail(f"{what}: wrong at {tuple(int(i) for i in np.argwhere(wrong)[0])}")


def arrays_for(kernel, sizes, number):
    rng = np.random.default_rng(number)
    arrays = {}
    for t in kernel.tensors:
        if t.role == "input":
            shape = [t.shape[d].evaluate(sizes) for d in t.order]
            arrays[memory_of(t.name)] = rng.integers(-3, 4, shape).astype(NUMPY[t.dtype]).transpose(np.argsort(t.order))
    return arrays | {scalar.name: np.int32(rng.integers(-3, 4)) for scalar in kernel.scalars}


def draw(pick, text, kernel, number=0):
    """A kernel with its sizes and inputs; and the recipe for its steps, ready to be asked."""
    recipe = pick([gpu_recipe] * 4 + [any_steps, warp_recipe, lanes_recipe] * 2 + [atomics_recipe, roles_recipe])
    recipe = scan_recipe if runs_along(text) and pick([True] * 4 + [False]) else recipe
    recipe = recurrence_recipe if is_recurrence(kernel) else recipe
    warps = recipe is warp_recipe
    tiles = [pick([8, 8, 16, 4]), pick([8, 16, 16])] if warps else [pick([2, 3, 4, 8]), pick([2, 4, 4, 5])]
    sizes = random_sizes(pick, kernel, tiles)
    arrays = arrays_for(kernel, sizes, number)
    case = Case(text, start(kernel), sizes, arrays, reference(kernel, sizes, arrays)["out"])
    compare_meaning(case, kernel)
    if pick([True] * 3 + [False] * 2) and (step := windows(pick, case.scheduled.tree)):
        attempt(case, step)
    if pick([True] + [False] * 4) and (step := flatten(pick, case.scheduled.tree)):
        attempt(case, step)
    return case, recipe(pick, case.scheduled.tree, tiles)


def compare_meaning(case, kernel):
    """Fails unless the kernel is what its text says: the same elements and values, and nothing wrong at small sizes."""
    if points(kernel, case.sizes) < 800:
        case.counts["meanings compared"] += 1
        if wrong := meant_otherwise(case.text, case.sizes, case.arrays, case.expected):
            case.fail("the reference is not the meaning of the text", wrong)
    for sizes in [s for s in small_sizes(case.text) if points(kernel, s) < 300][:4]:
        if error := error_at(case.text, sizes):
            case.fail("a kernel without a meaning is accepted", f"{error} at {sizes}")


def refused_kernel(text, refusal):
    """The case of a kernel that is refused. Fails unless its meaning shows why, at the sizes of the witness."""
    case = Case(text)
    if refusal.witness is None:
        beyond = refusal.code == "unproved"
        case.counts["kernels unproved" if beyond else "kernels ill-formed"] += 1
        return case
    kind, sizes = check_refusal(text, refusal)
    if kind is None:
        case.fail("a kernel is refused, and its witness shows nothing", f"at {sizes}\n{refusal.render()}")
    case.counts[f"kernels refused: {kind}"] += 1
    return case


def one_case(pick, number=0, *, engine=None, text=any_text) -> Case:
    """A whole case, the last tree on `engine` too. Raises Failure, or what breaks, where something is wrong."""
    drawn = text(pick)
    kernel, refusal = build_kernel(drawn)
    if kernel is None:
        return refused_kernel(drawn, refusal)
    case, recipe = draw(pick, drawn, kernel, number)
    run_recipe(pick, case, recipe)
    finish(case, engine)
    case.counts["cases"] += 1
    case.counts["long"] += len(case.steps) >= LONG
    case.counts["full"] += len(case.steps) >= LONG and _full(case.scheduled.tree)
    return case


def run_recipe(pick, case, recipe, often=10):
    """Tries the steps of a recipe, one in `often` with another one at random in front of it, half as many left out."""
    wild = 0
    text = next(recipe)
    while text is not None:
        if pick([False] * (often - 1) + [True]):
            wild += 1
            attempt(case, random_step(pick, case.scheduled.tree, 100 + wild))
        if not pick([False] * (2 * often - 1) + [True]):
            attempt(case, text)
        try:
            text = recipe.send(case.scheduled.tree)
        except StopIteration:
            text = None


def _full(tree):
    """True if the tree has blocks, threads, shared memory and registers."""
    kinds = {loop.kind for loop in loops(tree.body)}
    spaces = {b.space for b in tree.buffers}
    return bool(kinds & {*BLOCK_KINDS}) and bool(kinds & {*THREAD_KINDS}) and {"shared", "register"} <= spaces


def attempt(case, text):
    """Tries one step, and checks what comes of it."""
    module = parse(Source("step.tg", f"schedule s for random():\n    {text}\n"))
    word = text.partition("(")[0]
    try:
        calls = expand(module.schedules[0].steps[0], standard_steps())
        after = case.scheduled.then(calls)
    except (StepError, SourceError):
        case.counts["ill-formed"] += 1
        case.words[word, "ill-formed"] += 1
        return
    except IllegalStep as refusal:
        case.counts["refused"] += 1
        case.words[word, "refused"] += 1
        replay(case, text, calls, refusal)
        return
    if not holds(after.tree.kernel, case.sizes):
        case.counts["for other sizes"] += 1
        return
    case.counts["accepted"] += 1
    case.words[word, "accepted"] += 1
    case.steps += [text]
    case.scheduled = after
    case.same(run(after.tree, case.sizes, case.arrays)["out"], f"after {text}")


# -- refusals


def replay(case, text, calls, refusal):
    """Fails unless what was refused really goes wrong, at the sizes that the witness gives."""
    tree = case.scheduled.tree
    for call in calls:
        tree = loop_by_loop(bind(call, stock_instructions), tree).apply(tree)
        if judge(tree) is not None:
            break
    if refusal.code == "unproved":
        case.counts["unproved"] += 1
        return
    instructions = any(loop.kind == "matrix" for loop in loops(tree.body))
    if refusal.code == "form" or (instructions and refusal.code in ("structure", "vector")):
        case.counts["refused for its form"] += 1
        return
    if structure(tree):
        case.counts["replayed: structure"] += 1
        return
    sizes = witness_sizes(tree.kernel, refusal.witness)
    if sizes is None or not holds(tree.kernel, sizes):
        case.fail(f"refused without a witness that fits: {text}", refusal.render())
    wrong = verdict(tree, sizes)
    if wrong is not None:
        case.counts[f"replayed: {wrong}"] += 1
    elif any(verdict(tree, other) for other in other_sizes(tree.kernel)):
        case.fail(f"the witness shows nothing: {text} at {sizes}", refusal.render())
    else:
        case.counts["refused without need"] += 1
        case.careful += [f"{case.text}steps:\n  " + "\n  ".join([*case.steps, text]) + f"\n{refusal.render()}"]


def other_sizes(kernel):
    """A few small sizes, not all alike, that the kernel admits."""
    tried = ((2,), (3, 2), (2, 5), (4,), (5, 3, 4), (8,), (9, 4))
    sizes = [{size: values[n % len(values)] for n, size in enumerate(kernel.sizes)} for values in tried]
    return [found for found in sizes if holds(kernel, found)]


def witness_sizes(kernel, witness):
    """The sizes at the end of a witness, ` (M=1, K=2)`; None where one is missing. Vectors too wide have none.

    Of a product, B*T=9, the first one that is not shown alone is as large as is left, and others are 1.
    """
    if witness is None:
        return {size: 4 for size in kernel.sizes}
    found = re.findall(r"([^=,]+)=(-?\d+)(?:, |\))", witness.rpartition(" (")[2])
    shown = {name: int(value) for name, value in found}
    for name in [name for name in shown if "*" in name and "(" not in name]:
        factors = name.split("*")
        first, *others = [f for f in factors if f not in shown] or [factors[0]]
        shown |= dict.fromkeys(others, 1)
        shown.setdefault(first, shown[name] // prod(shown[f] for f in factors if f != first))
        if shown[name] != prod(shown[f] for f in factors):
            return None
    if any(shown[name] != eval(name.replace("/", "//"), {}, shown) for name in shown if "(" in name):
        return None
    return {size: shown[size] for size in kernel.sizes} if set(kernel.sizes) <= set(shown) else None


# -- the last tree


def finish(case, engine=None):
    """The lowered versions of the last tree: run by the interpreter, printed, and run on a device."""
    tree = case.scheduled.tree
    needs = None
    # Without loops over vectors, the version without vectors is lowered from the same tree.
    vectors = any(loop.kind in ("vector", "bulk") for loop in loops(tree.body))
    for version in ({}, *([{"vector": False}] if vectors else []), {"whole": True}):
        try:
            launches = lower(tree, **version)
        except LimitError:
            case.counts["over a limit"] += 1
            return
        if version.get("whole") and [launch.requires for launch in launches] == needs:
            continue  # no loop is cut into tiles, and this is the first version again
        needs = needs or [launch.requires for launch in launches]
        if not (_check_launches(case, launches, version) and _check_meaning(case, version)):
            return
    if engine is not None:
        on_device(case, engine)


def _check_meaning(case, version):
    """The same without instructions, where there are some: what an OpenCL device runs."""
    tree = case.scheduled.tree
    if not any(b.fragment for b in tree.buffers) and not any(loop.kind == "bulk" for loop in loops(tree.body)):
        return True
    try:
        return _check_launches(case, lower(tree, instructions=False, **version), {**version, "instructions": False})
    except LimitError:
        case.counts["over a limit"] += 1
        return False


def _check_launches(case, launches, version):
    """Everything that must hold of one lowered version; True if it is proved, or beyond the budget."""
    tree = case.scheduled.tree
    if not version.get("whole") or all(_holds(case.sizes, x) for x in launches):
        case.same(run(distributed_tree(launches), case.sizes, case.arrays)["out"], f"lowered, {version}")
    check_on_simulator(case, launches, version)
    alone = any(isinstance(node, Perform | Box) for launch in launches for node in launch.nodes)
    for language in ("cuda",) if alone else ("cuda", "opencl"):
        text = emit(launches, language)
        wrong = difference(text, launches, language) or beyond_its_types(case, text, launches)
        if wrong is not None:
            case.fail(f"the {language} text, {version}: {wrong}")
    proof = prove(tree.kernel, launches, tree.reassociated)
    case.counts["lowered"] += 1
    try:
        demand(proof, "random", unproved=True)
    except ProofError as refusal:
        # The simulation has found it right, so the proof is too careful: counted, and shown on request.
        case.counts["proof refused without need"] += 1
        case.careful.append(f"{case.text}steps: {case.steps}\n{refusal.render()}")
        return False
    case.counts["proved" if proof.verdict == "proved" else "lowered, unproved"] += 1
    return True


def beyond_its_types(case, text, launches):
    """What leaves its type in the text, in exact integers, at sizes as large as the text admits; or None."""
    rng = random.Random(len(text))
    sizes = extremes(launches, rng)
    if sizes is None:
        return None
    case.counts["texts at their largest sizes"] += 1
    return overflow(text, launches, sizes, rng, draws=DRAWS)


def check_on_simulator(case, launches, version):
    """Fails where the threads' programs race, diverge or compute something else: once, at sizes that are small."""
    tree = case.scheduled.tree
    known = [case.sizes, *other_sizes(tree.kernel), *_whole_sizes(tree.kernel, launches)]
    most = 250 if not any(b.fragment for b in tree.buffers) else WITH_INSTRUCTIONS
    fitting = [s for s in known if points(tree.kernel, s) < most and all(_holds(s, x) for x in launches)]
    if not fitting:
        return
    wrong = faults(launches, tree, fitting[0])
    if wrong is not None:
        case.fail(f"lowered, {version}: {wrong}", f"simulated at {fitting[0]}")
    case.counts["simulated"] += 1
    case.counts["simulated, whole tiles"] += "whole" in version


def _whole_sizes(kernel, launches):
    """Sizes that the tiles divide: as small as can be, and one of them twice that."""
    tiles = {size: 1 for size in kernel.sizes}
    for condition in (*kernel.assumptions, *(c for launch in launches for c in launch.requires)):
        for atom, _ in condition.value.terms:
            names = atom.arg.names() if isinstance(atom, Mod) else ()
            tiles |= {name: lcm(tiles[name], atom.by) for name in names}
    found = [tiles, *({**tiles, size: 2 * tiles[size]} for size in tiles)]
    return [sizes for sizes in found if holds(kernel, sizes)]


def _holds(sizes, launch):
    values = [(c.value.evaluate(sizes), c.equal) for c in launch.requires]
    return all(value == 0 if equal else value >= 0 for value, equal in values)


def on_device(case, engine):
    """Fails unless the device computes the reference, exactly."""
    from tilegen.backends.calls.arrays import empty
    from tilegen.backends.devices.devices import program

    compiled = program(case.scheduled.tree, engine, unproved=True)
    arrays = {scalar.name: case.arrays[scalar.name] for scalar in compiled.kernel.scalars}
    for name, value in case.arrays.items():
        if name in arrays:
            continue
        arrays[name] = empty(engine.xp, compiled.kernel.tensor(name), value.shape)
        arrays[name][...] = engine.xp.asarray(value)
    got = compiled(**as_called(compiled.kernel, arrays), **case.sizes)
    case.same(_fetch(got, case.expected.written), f"on {engine.name}")
    case.counts["on a device"] += 1


def _fetch(array, written):
    """A numpy array with those elements of a device's array that the kernel writes: nobody may read the others."""
    result = np.zeros(array.shape, array.dtype)
    if not hasattr(array, "get"):
        result[written] = array[written]
        return result
    xp = sys.modules[type(array).__module__.partition(".")[0]]
    result[written] = array[tuple(xp.asarray(place) for place in np.nonzero(written))].get()
    return result
