"""Random steps for a tree, as texts: any step on anything, and recipes that a GPU programmer would follow."""

from __future__ import annotations

from tests.support.generators.tiles import in_whole_tiles, sources, whole_tiles
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS
from tilegen.ir.walk import find_loop, loop_names, loops

WORDS = (
    ["tile"] * 3 + ["parts", "order", "order", "bind", "bind", "unroll", "vectorize", "fuse", "cache_shared"]
    + ["cache_shared", "cache_register", "cache_register", "pad", "swizzle", "cache_global", "reassociate", "coarsen"]
    + ["coarsen_blocked", "blocks", "collapse", "serpentine", "pipeline", "warp_tile", "rfactor", "rfactor"]
    + ["fast_math", "resident", "rename", "compute_at", "compute_at", "atomic", "round_up", "peel", "solve", "shift"]
    + ["stream", "roles", "tensorize", "bulk", "specialize", "multicast", "dependent_launch", "scan", "split_scan"]
    + ["look_back", "deal", "deal", "at_most"]
)  # fmt: skip


FOR_GPUS = ["warp_tile", "resident", "fast_math", "rfactor", "compute_at", "round_up", "stream", "bulk", "tensorize"]
FOR_GPUS += ["multicast", "dependent_launch", "scan", "split_scan", "at_most"]


def random_step(pick, tree, number: int) -> str:
    """One step, well formed or not, legal or not, on the loops and buffers that there are."""
    names = [*loop_names(tree), *sorted({loop.collapsed for loop in loops(tree.body)} - {""})]
    buffers = [b.name for b in tree.buffers]
    loop, word = pick(names), pick(WORDS)
    a, b = f"a{number}", f"b{number}"
    match word:
        case "tile":
            return f"tile({loop}, {pick([1, 2, 3, 4, 5, 8])}) -> {a}, {b}"
        case "parts":
            return f"tile({loop}, parts={pick([1, 2, 4])}) -> {a}, {b}"
        case "coarsen" | "coarsen_blocked" | "blocks":
            return f"{word}({loop}, {pick([2, 4, 8])}) -> {a}, {b}"
        case "order":
            some = _some(pick, names, 2, 5)
            if len(some) < 2 or pick([True, False, False]):
                return f"order(..., {loop})"
            return pick([f"order({', '.join(some)})", f"order({some[0]}, ..., {some[1]})"])
        case "bind":
            return f"bind({loop}, {pick([*BLOCK_KINDS[:2], *THREAD_KINDS, *THREAD_KINDS])})"
        case "fuse" | "roles" | "deal":
            end = f", group={pick([1, 2, 8])})" if word == "deal" else f") -> {a}"
            return f"{word}({', '.join(_some(pick, names, 2, 2))}{end}"
        case "collapse" | "serpentine" | "shift":
            return f"{word}({', '.join(_some(pick, names, 2, 2))})" + (f" -> {a}" if word != "serpentine" else "")
        case "rename":
            of = pick(["", "", f", of={pick([e.target for e in tree.kernel.equations])}"])
            return f"rename({', '.join(_some(pick, names, 1, 2))}{of}) -> {a}"
        case "pipeline":
            return f"pipeline({loop}, {pick([2, 3])})"
        case "cache_shared":
            return cache_shared(pick, tree, pick(buffers), loop) + pick(["", "", f" -> c{number}"])
        case "cache_register":
            using = pick(["", "", "", f", using=[{pick(names)}]"])
            vector = pick(["", "", ", vector=2", ", vector=4"])
            return f"cache_register({pick(buffers)}, at={loop}{using}{vector})" + pick(["", "", f" -> c{number}"])
        case "pad":
            return f"pad({pick(buffers)}, {pick([1, 2])})"
        case "swizzle":
            return f"swizzle({pick(buffers)}, {swizzle(pick)})"
        case "cache_global":
            layout = pick(["0", "1, 0", "0, 1", "2, 0, 1"])
            tiles = whole_tiles(pick, layout.count(",") + 1, [1, 2, 4, 8])
            return f"cache_global({pick(buffers)}, layout=[{layout}]{tiles})"
        case word if word in FOR_GPUS:
            return _for_gpus(pick, tree, word, loop, number)
        case "reassociate" | "atomic":
            return f"{word}({pick([e.target for e in tree.kernel.equations])})"
        case _:
            return f"{word}({loop})"


def _for_gpus(pick, tree, word, loop, number):
    match word:
        case "warp_tile":
            return f"warp_tile({loop}, {pick([1, 2])}, {pick([1, 2])}) -> a{number}, b{number}, c{number}, d{number}"
        case "tensorize":
            unit = pick(["mma_m16n8k16_bf16", "mma_m8n8k4_f64", "mma_m16n8k32_i8", "ldmatrix_a_bf16"])
            return f"tensorize({', '.join(_some(pick, loop_names(tree), 2, 3))}, by={unit})"
        case "resident":
            return f"resident({loop}, {pick([2, 4, 99])})"
        case "stream" | "bulk" as word:
            return f"{word}({pick([b.name for b in tree.buffers])})"
        case "scan":
            some = [b.name for b in tree.buffers]
            return f"scan({pick(some)}{pick([f') -> a{number}', f', along={pick(some)})'])}"
        case "split_scan":
            names = f"a{number}, b{number}, c{number}"
            return f"split_scan({pick([b.name for b in tree.buffers])}, {pick([2, 3, 4])}) -> {names}"
        case "multicast":
            return f"multicast({pick([b.name for b in tree.buffers])}, {loop})"
        case "dependent_launch":
            return "dependent_launch()"
        case "round_up":
            return f"round_up({loop}, {pick([1, 2, 3, 4])})"
        case "at_most":
            return f"at_most({loop}, {pick([4, 8, 40])})"
        case "fast_math":  # kernels on integers have nothing to approximate
            return f"fast_math({pick(['sin', 'divide'])})"
        case "compute_at":
            inner = [t.name for t in tree.kernel.tensors if t.role == "intermediate"]
            return f"compute_at({pick(inner or [b.name for b in tree.buffers])}, at={loop})"
        case "rfactor":
            across = pick([loop, f"[{', '.join(_some(pick, loop_names(tree), 1, 2))}]"])
            layout = pick(["", "", f", layout=[{pick(['1, 0', '0, 1', '1, 2, 0', '2, 0, 1'])}]"])
            layout += pick(["", "", f", at={pick(loop_names(tree))}"])
            return f"rfactor({pick([e.target for e in tree.kernel.equations])}, {across}{layout}) -> a{number}"
    raise AssertionError(word)


def cache_shared(pick, tree, name: str, at: str) -> str:
    """The step with a random layout, vector width and choice of uses."""
    rank = len(tree.buffer(name).shape)
    layout = ""
    if rank > 1 and pick([True, False, False]):
        dims = [str(d) for d in range(rank)]
        layout = f", layout=[{', '.join(pick([dims[::-1], dims[1:] + dims[:1]]))}]"
    vector = pick(["", "", "", ", vector=2", ", vector=4"])
    using = pick([""] * 5 + [f", using=[{pick(loop_names(tree))}]"])
    return f"cache_shared({name}, at={at}{layout}{vector}{using})"


def swizzle(pick) -> str:
    """The units of a swizzle, now and then how many and by how many rows."""
    return f"{pick([1, 1, 2, 4])}{pick(['', '', ', 2', ', 4', ', 2, 2', ', count=2, rows=4'])}"


def _some(pick, items, least, most):
    rest = list(items)
    chosen = []
    for _ in range(min(len(rest), pick(list(range(least, most + 1))))):
        item = pick(rest)
        rest.remove(item)
        chosen += [item]
    return chosen


# -- recipes: generators that yield a step and are sent the tree after it, or the old one if it is refused


def any_steps(pick, tree, tiles):
    """Some steps, each at random."""
    for number in range(pick([2, 4, 6, 9])):
        tree = yield random_step(pick, tree, number)


def gpu_recipe(pick, tree, tiles):
    """Blocks, threads, shared memory and registers for each launch, now and then with a step left out."""
    inputs = [t for t in tree.kernel.tensors if t.role == "input" and len(t.shape) == 2]
    if inputs and pick([False] * 7 + [True]):
        tree = yield f"cache_global({pick(inputs).name}, layout=[1, 0]{whole_tiles(pick, 2, [2, 3, 4])})"
    groups = [
        ([r.name for r in e.loops], [r.name for r in e.reduced], [e.target, *([e.best] if e.best else [])])
        for e in tree.kernel.equations
    ]
    if len(groups) > 1 and pick([True, True, False]):
        tree, groups = yield from _fuse(pick, tree, groups)
    for number, (outer, reduced, targets) in enumerate(groups):
        launch = _Launch(pick, tiles, f"{'pqruv'[number]}", outer, reduced, targets)
        tree = yield from launch.steps(tree)


def _fuse(pick, tree, groups):
    """The first equations joined, as many of their loops as agree."""
    first, *rest = groups
    done = 0
    for group in rest:
        shared = 0
        for a, b in zip(first[0], group[0], strict=False):
            new = f"f{done}"
            tree = yield f"fuse({a}, {b}) -> {new}"
            if find_loop(tree, new) is None:
                break
            first[0][shared] = group[0][shared] = new
            shared, done = shared + 1, done + 1
        if not shared:
            return tree, [first, *rest]
        inner = [n for n in (*first[0][shared:], *first[1], *group[0][shared:], *group[1]) if find_loop(tree, n)]
        first = (first[0][:shared], inner, first[2] + group[2])
    return tree, [first]


class _Launch:
    """The steps for one launch; `prefix` keeps its loop names apart from those of others."""

    def __init__(self, pick, tiles, prefix, outer, reduced, targets):
        self.pick, self.tiles, self.prefix = pick, tiles, prefix
        self.outer, self.reduced, self.targets = outer, reduced, targets
        self.blocks, self.threads, self.inner = [], [], []
        self.stage = None

    def steps(self, tree):
        tree = yield from self._tile_axes(tree)
        tree = yield from self._bind_loops(tree)
        tree = yield from self._place_copies(tree)
        return tree

    def _tile_axes(self, tree):
        pick, p = self.pick, self.prefix
        axes = self.outer[-pick([1, 2, 2, 2]) :]
        for n, axis in enumerate(axes):
            tree = yield f"tile({axis}, {pick(self.tiles)}) -> {p}b{n}, {p}t{n}"
            if find_loop(tree, f"{p}b{n}"):
                self.blocks += [f"{p}b{n}"]
                self.threads += [f"{p}t{n}"]
        rest = [n for n in self.outer if n not in axes]
        self.inner = []
        if self.reduced and pick([True, True, True, False]):
            loop, size = pick(self.reduced), pick([1, 2, 3, 4])
            if pick([False] * 5 + [True]):
                tree = yield f"round_up({loop}, {size})"
            tree = yield f"tile({loop}, {size}) -> {p}ko, {p}ki"
            if find_loop(tree, f"{p}ko"):
                self.stage, self.inner = f"{p}ko", [f"{p}ki"]
            if self.stage and pick([True, False, False, False]):
                tree = yield from self._in_parts(tree)
        middle = [self.stage] if self.stage else []
        if rest and pick([True, False]):
            self.blocks = rest[-1:] + self.blocks
        else:
            middle = rest + middle
        tree = yield f"order({', '.join([*self.blocks, *middle, *self.threads, *self.inner])})"
        return tree

    def _in_parts(self, tree):
        """The reduction in parts, each of consecutive or of scattered terms; what combines them stays as it is."""
        tree = yield f"rfactor({self.targets[0]}, {self.pick([self.stage, *self.inner])}) -> {self.prefix}part"
        if any(b.name == f"{self.prefix}part" for b in tree.buffers):
            self.targets = [t.replace(self.targets[0], f"{self.prefix}part", 1) for t in self.targets]
        return tree

    def _bind_loops(self, tree):
        pick, p = self.pick, self.prefix
        if len(self.blocks) > 1 and pick([False] * 3 + [True]):
            tree = yield f"collapse({self.blocks[-2]}, {self.blocks[-1]}) -> {p}b"
            if find_loop(tree, f"{p}b") or any(loop.collapsed for loop in loops(tree.body)):
                self.blocks[-2:] = [f"{p}b"]
        for name, kind in zip(reversed(self.blocks), BLOCK_KINDS, strict=False):
            tree = yield f"bind({name}, {kind})"
        for n, name in enumerate(list(self.threads)):
            plain = not self.reduced and n == len(self.threads) - 1
            how = pick(["", "", "coarsen", "coarsen_blocked", "vector", "collapse", *["vector"] * 4 * plain])
            if how == "vector" and name == self.threads[-1]:
                tree = yield f"tile({name}, {pick([2, 4])}) -> {p}u{n}, {p}v"
                if find_loop(tree, f"{p}v"):
                    self.threads[n] = f"{p}u{n}"
                    tree = yield f"order(..., {p}v)"
                    tree = yield f"vectorize({p}v)"
            elif how == "collapse" and n == 1:
                tree = yield f"collapse({self.threads[0]}, {name}) -> {p}c"
                if find_loop(tree, f"{p}c"):
                    self.threads = [f"{p}c"]
                    break
            elif how.startswith("coarsen"):
                tree = yield f"{how}({name}, {pick([2, 2, 4])}) -> {p}u{n}, {p}w{n}"
                if find_loop(tree, f"{p}u{n}"):
                    self.threads[n] = f"{p}u{n}"
        kinds = pick([THREAD_KINDS, THREAD_KINDS, (THREAD_KINDS[1], THREAD_KINDS[0])])
        for name, kind in zip(reversed(self.threads), kinds, strict=False):
            tree = yield f"bind({name}, {kind})"
        return tree

    def _place_copies(self, tree):
        """Copies: accumulators in registers, inputs in shared memory and from there in registers."""
        pick = self.pick
        places = [n for n in (*self.blocks[-1:], *self.blocks[-1:], self.stage, *self.threads[-1:]) if n]
        for target in reversed(self.targets):
            if places and pick([True, True, True, False]):
                word = pick(["cache_register"] * 5 + ["cache_shared"])
                tree = yield f"{word}({target}, at={pick(places)})"
                if word == "cache_shared" and pick([True, False]):
                    tree = yield f"bulk({target}.shared)"
        at = self.stage or (self.blocks[-1] if self.blocks else None)
        for tensor in [b.name for b in tree.buffers if b.role == "input" or b.name.endswith(".global")]:
            if not at or pick([True, False, False]):
                continue
            tree = yield cache_shared(pick, tree, tensor, at)
            if pick([True, False, False]):
                tree = yield f"pad({tensor}.shared, {pick([1, 2, 4])})"
            if pick([True, False, False]):
                tree = yield f"swizzle({tensor}.shared, {swizzle(pick)})"
            if pick([True, False, False]):
                tree = yield f"bulk({tensor}.shared)"
            if self.inner and pick([True, False, False]):
                tree = yield f"cache_register({tensor}.shared, at={self.inner[0]})"
        for name in self.inner:
            if pick([True, False]):
                tree = yield f"unroll({name})"
        if at and pick([True, False, False, False]):
            tree = yield f"pipeline({at}, {pick([2, 2, 3])})"
            word = pick(["peel", "specialize", "", ""])
            tree = (yield f"{word}({at})") if word else tree
        return tree


def warp_recipe(pick, tree, tiles):
    """Tiles for blocks, warps, lanes and registers of a product, walked to and fro, in a pipeline or two."""
    equation, *others = tree.kernel.equations
    names, reduced = [r.name for r in equation.loops], [r.name for r in equation.reduced]
    if others or len(names) < 2 or not reduced:
        tree = yield from gpu_recipe(pick, tree, tiles)
        return
    if not equation.best and pick([True, False, False]):
        tree = yield f"reassociate({equation.target})"
    deep = []
    for axis, tile in zip(names[-2:], tiles, strict=True):
        tree = yield f"tile({axis}, {tile}) -> b{axis}, t{axis}"
        tree = yield from _warps(pick, tree, axis, tile)
        deep += [n for n in (f"w{axis}", f"c{axis}", f"l{axis}", f"v{axis}") if find_loop(tree, n)]
    last, step = reduced[-1], pick([2, 2, 4])
    if pick([True, False, False]):
        tree = yield f"round_up({last}, {step})"
        tree = yield from in_whole_tiles(
            pick, tree, equation, {**dict(zip(names[-2:], tiles, strict=True)), last: step}
        )
    tree = yield f"tile({last}, {step}) -> ko, ki"
    outer = [f"b{n}" for n in names[-2:]]
    stage = [n for n in (*names[:-2], *reduced[:-1], "ko") if find_loop(tree, n)]
    warps, lanes = ([n for n in deep if n[0] == letter] for letter in "wl")
    registers = [n for n in deep if n[0] in "cv"]
    tree = yield f"order({', '.join([*outer, *stage, *warps, *lanes, 'ki', *registers])})"
    if len(lanes) == 2 and pick([True, True, True, False]):
        tree = yield f"collapse({', '.join(lanes)}) -> lane"
        lanes = ["lane"] if find_loop(tree, "lane") else lanes
    for name, kind in zip(reversed(outer), BLOCK_KINDS, strict=False):
        tree = yield f"bind({name}, {kind})"
    for name, kind in zip((*reversed(lanes), *reversed(warps)), THREAD_KINDS, strict=False):
        tree = yield f"bind({name}, {kind})"
    tree = yield from _stage_copies(pick, tree, equation.target, outer[-1])
    tree = yield "unroll(ki)"
    if len(registers) > 2 and pick([True, True, False]):
        tree = yield f"serpentine({', '.join(registers[pick([0, 1]) :])})"
    if pick([True, True, False]):
        tree = yield f"pipeline(ko, {pick([2, 3])})"
        if pick([True, False]):
            tree = yield "specialize(ko)"
    if pick([True, False]):
        tree = yield f"pipeline(ki, {pick([2, 2, 3])}{pick(['', ', across=ko'])})"
    if pick([True, False]):
        tree = yield "peel(ko)"


def _warps(pick, tree, axis, tile):
    """A tile over warps, chunks, lanes and neighbours, by the composite step or by parts of it."""
    if tile >= 8 and pick([True, False, False]):
        tree = yield f"warp_tile(t{axis}, 1, {tile // 8 or 1}) -> w{axis}, c{axis}, l{axis}, v{axis}"
        return tree
    warps = pick([1, 2]) if tile > 4 else 1
    near = pick([2, 4]) if tile // warps > 8 else 2
    tree = yield f"tile(t{axis}, parts={warps}) -> w{axis}, c{axis}"
    tree = yield f"tile(c{axis}, {2 * near}) -> c{axis}, l{axis}"
    tree = yield f"tile(l{axis}, {near}) -> l{axis}, v{axis}"
    return tree


def _stage_copies(pick, tree, target, block):
    """Results in registers, operands in shared memory and from there in registers, some of it as vectors."""
    vector = pick(["", ", vector=2", ", vector=4"])
    tree = yield f"cache_register({target}, at={block}{vector})"
    for tensor in sources(tree):
        if pick([True, True, True, False]):
            tree = yield cache_shared(pick, tree, tensor, "ko")
        if pick([True, False]):
            tree = yield f"pad({tensor}.shared, {pick([1, 2, 4])})"
        if pick([True, False]):
            tree = yield f"swizzle({tensor}.shared, {swizzle(pick)})"
        if pick([True, False]):
            tree = yield f"bulk({tensor}.shared)"
        if pick([True, True, False]):
            tree = yield f"cache_register({tensor}.shared, at=ki{pick(['', ', vector=2', ', vector=4'])})"
    return tree


def lanes_recipe(pick, tree, tiles):
    """A reduction by the lanes of a warp: some of its terms in each, combined at once or in each round."""
    equation, *others = tree.kernel.equations
    names, reduced = [r.name for r in equation.loops], [r.name for r in equation.reduced]
    if others or not reduced:
        tree = yield from gpu_recipe(pick, tree, tiles)
        return
    if not equation.best and pick([True] * 5 + [False]):
        tree = yield f"reassociate({equation.target})"
    tree = yield f"tile({names[-1]}, {pick(tiles)}) -> b, w"
    term = pick(reduced)
    cut = pick([f"tile({term}, {pick([2, 4, 8])}) -> ko, lane", f"tile({term}, parts={pick([2, 4])}) -> lane, ko"])
    tree = yield cut
    around = [n for n in (*names[:-1], "b", "w") if find_loop(tree, n)]
    inner = [n for n in ("lane", *reduced, "ko") if find_loop(tree, n)]
    inner = pick([inner, inner[::-1]])
    tree = yield f"order({', '.join([*around, *inner])})"
    for name, kind in (("b", "block.x"), ("w", pick(["thread.y", "thread.y", "thread.z"]))):
        if pick([True, True, False]):
            tree = yield f"bind({name}, {kind})"
    if pick([True, True, True, False]):
        tree = yield f"bind(lane, {pick(['thread.x'] * 6 + ['thread.y'])})"
    around = [n for n in around if find_loop(tree, n)] or loop_names(tree)[:1]
    if pick([True, True, True, False]):
        tree = yield f"{pick(['cache_register'] * 4 + ['cache_shared'])}({equation.target}, at={pick(around)})"
    for tensor in [b.name for b in tree.buffers if b.role == "input"]:
        if pick([True, False, False]):
            tree = yield cache_shared(pick, tree, tensor, pick(around))
