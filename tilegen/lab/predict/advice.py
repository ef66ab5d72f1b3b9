"""What wastes most of a schedule's time, and steps that mend it: each is tried, judged, and its time is predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from tilegen.errors import Source, TilegenError
from tilegen.frontend import parse
from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, THREAD_KINDS, Loop, Stmt, Tree
from tilegen.ir.steps import Keyword, Number, Setting, StepCall, Word
from tilegen.ir.walk import leaves, loads, loops
from tilegen.lab.counts.sites import program_of
from tilegen.lab.counts.trips import with_mean_trips
from tilegen.lab.predict.explain import Progress, explain_tree
from tilegen.lab.predict.explanation import Advice, LaunchReport
from tilegen.lab.predict.machine import Machine
from tilegen.lab.predict.remarks import runs_alone, tiles_of_one_thread
from tilegen.lowering import Launch, lower
from tilegen.schedule import Derivation

_WORTH = 0.99  # of the time: what leaves more of it is no remedy
_REUSED = 4  # times that a block asks for an element
_SCATTERED = 0.5  # of the transactions would do
_THREADS, _TILE, _VECTOR = 128, 16, 16  # of a block, of a sum, bytes of a vector

Edit = Callable[[StepCall], tuple[StepCall, ...]]


@dataclass(frozen=True)
class _Remedy:
    """Steps to add at the end, after others in the place of each there is, which `change` says in words; or what makes
    another schedule as a whole."""

    waste: str
    steps: Sequence[str] = ()
    edit: Edit = lambda call: (call,)
    change: str = ""
    made: Callable[[], Derivation] | None = None

    @property
    def text(self) -> str:
        return ", ".join(filter(None, [self.change, *self.steps]))

    def apply(self, to: Derivation) -> Derivation:
        """The schedule with the remedy, judged from the first step that is another. Raises TilegenError."""
        if self.made:
            return self.made()
        calls = [stage.step for stage in to.stages if stage.step]
        edited = [self.edit(call) for call in calls]
        same = next((n for n, (old, new) in enumerate(zip(calls, edited, strict=True)) if (old,) != new), len(calls))
        changed = [call for each in edited[same:] for call in each]
        return replace(to, stages=to.stages[: same + 1]).then((*changed, *_calls(self.steps)))


def _calls(steps: Sequence[str]) -> tuple[StepCall, ...]:
    lines = "".join(f"    {step}\n" for step in steps)
    return parse(Source("advice", f"schedule advice for any:\n{lines}")).schedules[0].steps if lines else ()


def advise(
    derivation: Derivation,
    sizes: Mapping[str, int],
    machine: Machine,
    progress: Progress = lambda what, done, total: None,
    again: Callable[[Mapping[str, Setting]], Derivation] | None = None,
    built: Sequence[LaunchReport] = (),
) -> tuple[Advice, ...]:
    """For each waste that a legal step mends, the best of the steps that were tried; the largest gain first.

    Args:
        sizes: all sizes of the kernel.
        machine: whose times are predicted, without a compiler.
        again: makes the schedule with other values of parameters.
        built: the launches with what the compiler says of them, where it was asked.
    """
    found: dict[str, Advice] = {}
    with suppress(TilegenError):
        launches = explain_tree(derivation.tree, sizes, machine, compiled=False)
        before, tried = _milliseconds(launches), [*_remedies(derivation, launches, sizes)]
        slowest = max(launches, key=lambda launch: launch.prediction.milliseconds)
        if again and slowest.blocks < machine.sms:
            waste = f"few blocks: {slowest.blocks} on {machine.sms} multiprocessors"
            tried += [*_smaller_tiles(derivation, waste, again)]
        for number, remedy in enumerate(tried):
            progress(f"try {remedy.text}", number, len(tried))
            with suppress(TilegenError):
                tree = remedy.apply(derivation).tree
                after = _milliseconds(explain_tree(tree, sizes, machine, compiled=False))
                best = found[remedy.waste].after if remedy.waste in found else _WORTH * before
                if after < best:
                    found[remedy.waste] = Advice(remedy.waste, remedy.text, before, after)
        if again and (spilled := _spills(built)):
            waste = f"a thread spills {spilled} bytes, which no prediction counts"
            for remedy in _smaller_tiles(derivation, waste, again):
                with suppress(TilegenError):
                    smaller = explain_tree(remedy.apply(derivation).tree, sizes, machine)
                    if not _spills(smaller):
                        found.setdefault(waste, Advice(waste, remedy.text, before, _milliseconds(smaller)))
    return tuple(sorted(found.values(), key=lambda each: each.after))


def _spills(launches: Iterable[LaunchReport]) -> int:
    return max((launch.resources.spills for launch in launches if launch.resources), default=0)


def _milliseconds(launches: Iterable[LaunchReport]) -> float:
    return sum(launch.prediction.milliseconds for launch in launches)


def _remedies(derivation: Derivation, launches: Sequence[LaunchReport], sizes: Mapping[str, int]) -> Iterator[_Remedy]:
    tree = derivation.tree
    for launch, node, report in zip(lower(tree), tree.body, launches, strict=True):
        for waste, steps in tiles_of_one_thread(launch):
            yield _Remedy(waste, steps)
        if runs_alone(launch.distributed) and isinstance(node, Loop):
            yield from _bind_loops(node, f"{launch.name} runs on one thread")
        yield from _test_once(launch, report, sizes)
    yield from _turn_axes(launches)
    yield from _coarsen(derivation, launches)
    for path, stmt in leaves(tree.body):
        yield from _keep_sum(tree, path, stmt)
        yield from _share_reads(tree, path, stmt, launches)
    yield from _vectorize_copies(derivation)
    for launch_report in launches:
        for buffer, layouts in launch_report.remedies.items():
            waste = f"bank conflicts in {buffer}, {launch_report.conflicts:.3g} wavefronts for each one needed"
            for layout in layouts:
                yield _Remedy(waste, (layout.step,), _without(("pad", "swizzle"), buffer), _removed(layout.instead))


def _bind_loops(node: Loop, waste: str) -> Iterator[_Remedy]:
    """Blocks and threads for a loop that all others of the nest are in, or around; blocks for those around it."""
    chain: list[Loop] = [node]
    while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Loop):
        chain.append(chain[-1].body[0])
    for at in reversed(range(len(chain[:3]))):
        name = chain[at].name
        stem = name.replace(".", "_")
        outer = [f"bind({o.name}, {kind})" for o, kind in zip(chain[:at][::-1], BLOCK_KINDS[1:], strict=False)]
        steps = (f"tile({name}, {_THREADS}) -> {stem}_b, {stem}_t", f"bind({stem}_b, block.x)")
        yield _Remedy(waste, (*outer[::-1], *steps, f"bind({stem}_t, thread.x)"))


def _test_once(launch: Launch, report: LaunchReport, sizes: Mapping[str, int]) -> Iterator[_Remedy]:
    """Several iterations together where each tests a border: one test says of all of them that they lie inside."""
    work = report.work
    if report.prediction.limit != "issue slots" or work.tests < (1 - _WORTH) * (work.fused + work.plain + work.special):
        return
    for loop in dict.fromkeys(around[-1] for around in program_of(with_mean_trips(launch, sizes)).borders):
        name, inner = loop.name, f"{loop.name.replace('.', '_')}_u"
        for factor in (4, 8):
            if loop.extent.evaluate(sizes) > factor:
                waste = f"each iteration of '{name}' tests a border, and most lie inside"
                yield _Remedy(waste, (f"tile({name}, {factor}) -> {name}, {inner}", f"unroll({inner})"))


def _smaller_tiles(
    derivation: Derivation, waste: str, again: Callable[[Mapping[str, Setting]], Derivation]
) -> Iterator[_Remedy]:
    """Each number of the schedule's head halved."""
    for name, value in derivation.parameters.items():
        if isinstance(value, int) and value > 1 and value % 2 == 0:
            smaller = {**derivation.parameters, name: value // 2}
            yield _Remedy(waste, change=f"{name}={value // 2}", made=partial(again, smaller))


def _turn_axes(launches: Sequence[LaunchReport]) -> Iterator[_Remedy]:
    """thread.x and thread.y of all loops exchanged, where the lanes of a warp lie far apart in memory."""
    moved = [t for launch in launches for t in launch.traffic if t.space == "global" and not t.in_bulk]
    worst = max(moved, key=lambda t: t.sectors - t.least_sectors, default=None)
    if worst and worst.coalesced_share < _SCATTERED:
        others = {"thread.x": "thread.y", "thread.y": "thread.x"}

        def turned(call: StepCall) -> tuple[StepCall, ...]:
            words = [Word(others.get(a.text, a.text)) if isinstance(a, Word) else a for a in call.arguments]
            return (replace(call, arguments=tuple(words)) if call.word == "bind" else call,)

        waste = f"lanes jump in {worst.index}: {100 * worst.coalesced_share:.0f} % of its transactions would do"
        yield _Remedy(waste, edit=turned, change="swap thread.x and thread.y in bind")


def _coarsen(derivation: Derivation, launches: Sequence[LaunchReport]) -> Iterator[_Remedy]:
    """More elements for each thread, where loads and not multiply-adds are the limit."""
    slowest = max(launches, key=lambda launch: launch.prediction.milliseconds)
    inner, bound = slowest.inner, [v.name for v in loops(derivation.tree.body) if v.kind in THREAD_KINDS]
    if not inner or inner.by_warps or slowest.prediction.limit != "shared and L1":
        return
    waste = f"{inner.shared + inner.global_:.3g} loads for {inner.fused:.3g} multiply-adds in '{inner.loop}'"
    for names in [*([name] for name in dict.fromkeys(bound)), list(dict.fromkeys(bound))]:
        for factor in (4, 8):

            def coarsened(call: StepCall, names: list[str] = names, factor: int = factor) -> tuple[StepCall, ...]:
                loop = call.arguments[0] if call.word == "bind" else None
                if not isinstance(loop, Word) or loop.text not in names:
                    return (call,)
                whole, many = loop.text, f"{loop.text}_w"
                made = (f"tile({whole}, parts={factor}) -> {many}, {whole}", f"order(..., {many})", f"unroll({many})")
                return (*_calls(made), call)

            steps = [f"coarsen({name}, {factor}) -> {name}, {name}_w" for name in names]
            yield _Remedy(waste, edit=coarsened, change=f"{', '.join(steps)} before bind")


def _keep_sum(tree: Tree, path: tuple[Loop, ...], stmt: Stmt) -> Iterator[_Remedy]:
    """A register for a sum that is read and written in memory for each term."""
    target = stmt.target.buffer
    if stmt.reduce and not stmt.atomic and tree.buffer(target).space == "global":
        names = {name for index in stmt.target.index for name in index.names()}
        first = next((n for n, loop in enumerate(path) if loop.name not in names), 0)
        for loop in path[:first][::-1][:2]:
            yield _Remedy(
                f"'{target}' is read and written for each term", (f"cache_register({target}, at={loop.name})",)
            )


def _share_reads(tree: Tree, path: tuple[Loop, ...], stmt: Stmt, launches: Sequence[LaunchReport]) -> Iterator[_Remedy]:
    """Shared memory for what the threads of a block read of global memory several times."""
    moved = [t for launch in launches for t in launch.traffic if not t.store and not t.site.by and t.distinct]
    reused = {t.site.buffer for t in moved if t.space == "global" and t.bytes > _REUSED * t.distinct}
    names = [n for n in dict.fromkeys(v.buffer for v in loads(stmt.value)) if n in reused]
    if not names or stmt.is_copy:
        return
    waste = f"a block reads {' and '.join(names)} several times from global memory"
    serial = [loop.name for loop in path if loop.kind == "serial"]
    for at in serial[:3]:
        yield _Remedy(waste, [f"cache_shared({name}, at={at})" for name in names])
    blocks, threads = ([v.name for v in path if v.kind in kinds] for kinds in (BLOCK_KINDS, THREAD_KINDS))
    target = stmt.target.buffer.removesuffix(".reg")
    if stmt.reduce and len(serial) == 1 and len(path) == 1 + len(blocks) + len(threads) and blocks and threads:
        (k,), (ko, ki) = serial, (f"{serial[0]}o", f"{serial[0]}i")
        steps = [f"tile({k}, {_TILE}) -> {ko}, {ki}", f"order({', '.join((*blocks, ko, *threads, ki))})"]
        steps += [f"cache_register({target}, at={blocks[-1]})", *(f"cache_shared({n}, at={ko})" for n in names)]
        kept = target != stmt.target.buffer
        change = f"without its cache_register({target}, ...)" if kept else ""
        yield _Remedy(waste, steps, _without(("cache_register",), target), change)


def _vectorize_copies(derivation: Derivation) -> Iterator[_Remedy]:
    """Vectors for copies to shared memory that have none."""
    buffers = {b.name: b for b in derivation.tree.buffers}
    for call in [stage.step for stage in derivation.stages if stage.step]:
        name = call.arguments[0].text if call.arguments and isinstance(call.arguments[0], Word) else ""
        if call.word != "cache_shared" or name not in buffers or "vector" in {k.name for k in call.keywords}:
            continue
        width = _VECTOR // DTYPE_BYTES[buffers[name].dtype]
        text = f"cache_shared({name}, ..., vector={width})"
        wide = replace(call, keywords=(*call.keywords, Keyword("vector", Number(width))))

        def widened(other: StepCall, call: StepCall = call, wide: StepCall = wide) -> tuple[StepCall, ...]:
            return (wide if other is call else other,)

        yield _Remedy(f"{name} is copied one element at a time", edit=widened, change=text)


def _without(words: Sequence[str], buffer: str) -> Edit:
    """Takes out the steps of these words for a buffer."""
    return lambda call: () if call.word in words and call.arguments[:1] == (Word(buffer),) else (call,)


def _removed(what: str) -> str:
    return f"without {what}" if what else ""
