"""look_back(c)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Buffer, Loop, Tree
from tilegen.ir.reductions.linear import words_of_blocks
from tilegen.ir.walk import find_loop, stmts
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import change_loops, need_loop, need_serial


@primitive("execution")
class LookBack:
    """Run the iterations of a loop as blocks at once, where each needs of those before it one combined value alone.

    kernel:
        kernel sums(x: f32[N]) -> y: f32[N]:
            y[i] = sum[k <= i](x[k])
    before:
        for o < 1
          run.reg[] = 0
          for c < (N + 31)/32
            total.reg[] = 0
    steps:
        reassociate(y)
        split_scan(y, 32) -> total, local, ahead
        scan(local, along=total)
        scan(ahead) -> run
        tile(total.io, parts=1) -> o, c
        tile(y.io, parts=1) -> o2, c2
        fuse(o, ahead.o, o2) -> o
        fuse(c, ahead.io, c2) -> c
        cache_register(run, at=o)
        cache_register(total, at=c)
        cache_register(ahead, at=c)
        bind(total.ki, thread.x)
        bind(y.ii, thread.x)
        cache_register(local, at=c)
        look_back(c)
    after:
        for o < 1
          run.reg[] = 0
          for c < (N + 31)/32  hands on run.reg
            total.reg[] = 0

    The meaning of the loop does not change: one register goes along it, here `run.reg`, to which each iteration adds
    what it has, and which is read right beside that. A block publishes what it adds, looks back at what the blocks
    before it have published, to one that knows what all up to it come to (decoupled look-back), and publishes the
    same. Blocks take numbers in the order in which they begin, so that each waits for others that run. The data are
    read and written once. The value has 32 bits; its reduction is reassociated. OpenCL runs the loop in one block.
    Of a linear recurrence it is the element before, and a block publishes a factor and a term.
    """

    loop: LoopName

    def apply(self, tree: Tree) -> Tree:
        loop = need_loop(tree, self.loop)
        need_serial(loop, "look_back")
        if loop.handed:
            raise StepError(
                f"'{loop.name}' hands on '{loop.handed}' already", notes=("leave out one of the two steps",)
            )
        outside = {b.name for b in tree.buffers if b.space == "register" and not self._is_inside(tree, b.scope)}
        handed = {s.target.buffer: s.reduce for s in stmts(loop.body) if s.reduce and s.target.buffer in outside}
        if len(handed) != 1:
            found = f"{len(handed)} are: {', '.join(handed)}" if handed else "none is"
            notes = (f"scan(y) -> run makes one, and cache_register(run, at=...) outside of '{loop.name}' keeps it",)
            raise StepError(f"one register is to be built up along '{loop.name}', and {found}", notes=notes)
        (name,) = handed
        words = words_of_blocks(loop.extent, handed[name])
        states = Buffer(f"{name}.states", "i64", (words,), "global", (0,), role="states")
        tree = change_loops(tree, self.loop, lambda old: replace(old, handed=name))
        return replace(tree, buffers=(*tree.buffers, states))

    def _is_inside(self, tree: Tree, scope: str | None) -> bool:
        loop = find_loop(tree, self.loop)
        inside = find_loop(replace(tree, body=(loop,)), scope) if loop and scope else None
        return isinstance(inside, Loop)
