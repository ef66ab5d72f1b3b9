"""roles(tc, td) -> t"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Loop, Node, Tree
from tilegen.ir.parts.role import Role
from tilegen.ir.walk import change_first_list, loops, substitute
from tilegen.primitives import LoopName, NewName, primitive
from tilegen.primitives.rewriting.tree import add_guard, need_constant, need_fresh, need_loop, rescope


@primitive("loops")
class Roles:
    """Put loops that follow one another side by side in one loop: the iterations of the first, then those of the next.

    kernel:
        kernel pair(a: f32[N]) -> c: f32[N], d: f32[N]:
            c[i] = sin(a[i])
            d[i] = log(a[i])
    before:
        for bd < (N + 127)/128
          for tc < 128
            c[bd*128 + tc] = sin(a[bd*128 + tc])  if bd*128 + tc < N
          for td < 128
            d[bd*128 + td] = log(a[bd*128 + td])  if bd*128 + td < N
    steps:
        tile(c.i, 128) -> bc, tc
        tile(d.i, 128) -> bd, td
        fuse(bc, bd) -> bd
        roles(tc, td) -> t
    after:
        for bd < (N + 127)/128
          for t < 256  roles tc, td
            c[bd*128 + t] = sin(a[bd*128 + t])  if bd*128 + t < N and t <= 127
            d[bd*128 + t - 128] = log(a[bd*128 + t - 128])  if bd*128 + t <= N + 127 and t >= 128

    Bound to threads, some threads of a block run one body while others run the next (inner-block fusion); bound to
    blocks, so do the blocks of one launch (inter-block fusion, also called horizontal fusion). What stands after
    the loop has a barrier before it where it needs one; inside a role no thread can wait for another. Extents may
    differ, and `align=32` lets each role of threads begin with a warp of its own. Copies to shared memory of what
    the roles write come before this step, each as large as its loop needs; registers come after it.
    """

    loops: tuple[LoopName, ...]
    align: int = 1
    name: NewName

    def apply(self, tree: Tree) -> Tree:
        if len(self.loops) < 2:
            raise StepError("roles takes at least two loops")
        if self.align < 1:
            raise StepError(f"roles begin at multiples of a positive number, and align is {self.align}")
        found = [need_loop(tree, name) for name in self.loops]
        need_fresh(tree, (self.name,), gone=self.loops)
        for loop in found:
            self._check_plain(found[0], loop)
            if self.align > 1:
                need_constant(loop, "align")
            if sum(loop.name == other.name for other in loops(tree.body)) > 1:
                raise StepError(f"loop '{loop.name}' is in several nests", notes=("roles before order distributes it",))
        body = change_first_list(tree.body, self._join_in)
        if body is None:
            raise StepError(f"{', '.join(self.loops)} do not follow one another, in this order, in one body")
        return rescope(replace(tree, body=body), self.loops, self.name)

    def _check_plain(self, first: Loop, loop: Loop) -> None:
        if first.kind != loop.kind:
            raise StepError(
                f"'{first.name}' is {first.kind} and '{loop.name}' is {loop.kind}",
                notes=("bind them to the same, or bind the loop that roles makes",),
            )
        if loop.stages > 1 or loop.peeled:
            word = "pipelined" if loop.stages > 1 else "peeled"
            raise StepError(
                f"loop '{loop.name}' is {word}, and roles puts other work in its iterations",
                notes=("a loop inside of it can be",),
            )

    def _join_in(self, body: tuple[Node, ...]) -> tuple[Node, ...] | None:
        """`body` with the loops in it as one at the place of the last, or None if it does not hold them."""
        members = [node for node in body if isinstance(node, Loop) and node.name in self.loops]
        if tuple(loop.name for loop in members) != self.loops:
            return None
        joined = self._join_loops(members)
        return tuple(joined if node is members[-1] else node for node in body if node not in members[:-1])

    def _join_loops(self, members: list[Loop]) -> Loop:
        """One loop with the iterations of all, each role under the test that this is one of its own."""
        body: tuple[Node, ...] = ()
        roles: list[Role] = []
        end, here = const(0), var(self.name)
        for loop in members:
            start = (end + self.align - 1) // self.align * self.align
            end = start + loop.extent
            role = Role(loop.name, start, loop.extent)
            part = substitute(loop.body, {loop.name: here - start})
            part = part if loop is members[-1] else add_guard(part, Condition(role.until_end(self.name)))
            body += part if loop is members[0] else add_guard(part, Condition(role.since_start(self.name)))
            roles.append(role)
        resident = max(loop.resident for loop in members)
        return replace(members[-1], name=self.name, extent=end, body=body, resident=resident, roles=tuple(roles))
