"""Reductions that the lanes of a warp combine: what they exchange, and the update of the target with the result.

for l < 32  thread.x               const float m_lanes = max_of_lanes<32>(part);
  m.reg max= part.reg[l]           m = fmaxf(m, m_lanes);
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilegen.ir.affine import var
from tilegen.ir.hardware.lanes import combining_loop, copied_registers, running_reads
from tilegen.ir.nodes import SHORT_FLOATS, Access, Buffer, Condition, Load, Loop, Node, Stmt, Tree
from tilegen.ir.reductions.linear import LINEAR
from tilegen.ir.walk import leaves, rewrite_accesses
from tilegen.lowering.launch.program import Combine, For, If, Spmd

Tests = tuple[Condition, ...]


@dataclass
class Lanes:
    """What the lanes of warps do together in the one launch of `tree`.

    Attributes:
        copied: (register, thread kind) where every thread along the axis has it and changes it like the others.
        results: what lanes exchange comes to, as buffers of one element in the space "lanes".
    """

    tree: Tree
    results: dict[str, Buffer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.register_copies = copied_registers(self.tree, leaves(self.tree.body))

    def loop(self, path: tuple[Loop, ...], stmt: Stmt) -> Loop | None:
        """The loop whose iterations combine their terms in `stmt`."""
        return combining_loop(self.tree, path, stmt)

    def exchange_and_update(self, stmt: Stmt, lane: Loop) -> tuple[Combine, Stmt]:
        """What the lanes of the loop `lane` exchange for `stmt`, and the update, in whose guard no lane is tested."""
        assert stmt.reduce
        result = self._result(stmt.best or stmt.target)
        exchange = Combine(result.name, stmt.reduce, lane.extent.const, var(lane.name), stmt.value, result.dtype)
        guard = tuple(dict.fromkeys(easier for c in stmt.guard for easier in _in_some_lane(c, lane)))
        update = replace(stmt, value=Load(result.name, (), stmt.value.dtype), guard=guard)
        if stmt.arg is not None:
            other = self._result(stmt.target, "factor" if stmt.reduce == LINEAR else "lanes")
            exchange = replace(exchange, arg=stmt.arg, arg_name=other.name, arg_dtype=other.dtype)
            update = replace(update, arg=Load(other.name, (), stmt.arg.dtype))
        return self._add_tests(exchange, stmt.guard), update

    def running(self, around: tuple[Loop, ...], body: tuple[Node, ...]) -> list[tuple[list[Combine], Node]]:
        """Each node of `body` with the exchanges before it that give what it reads while lanes combine that."""
        found: list[tuple[list[Combine], Node]] = [([], node) for node in body]
        if not around or around[-1].kind != "thread.x":
            return found
        for at, node in enumerate(body):
            if not isinstance(node, Stmt) or not node.reduce or self.loop(around, node) is None:
                continue
            for word, places in zip(("ahead", "upto"), running_reads(body, at, node.target.buffer), strict=True):
                if places:
                    exchange = self._exchange_in_order(node, around[-1], word)
                    found[min(places.start, at)][0].append(exchange)
                for n in places:
                    found[n] = found[n][0], _read_there(found[n][1], exchange)
        return found

    def _exchange_in_order(self, stmt: Stmt, lane: Loop, word: str) -> Combine:
        """What each lane has of the target of `stmt` right before its own update, or up to it."""
        assert stmt.reduce
        result, dtype = self._result(stmt.target, word), self.tree.buffer(stmt.target.buffer).dtype
        start, inclusive = Load(stmt.target.buffer, stmt.target.index, dtype), word == "upto"
        exchange = Combine(result.name, stmt.reduce, lane.extent.const, var(lane.name), stmt.value, result.dtype,
                           start=start, inclusive=inclusive)  # fmt: skip
        if stmt.arg is not None:
            factor = self._result(stmt.target, f"{word}_factor")
            exchange = replace(exchange, arg=stmt.arg, arg_name=factor.name, arg_dtype=factor.dtype)
        return self._add_tests(exchange, stmt.guard)

    def _result(self, target: Access, word: str = "lanes") -> Buffer:
        """A name for what goes to `target`."""
        dtype = self.tree.buffer(target.buffer).dtype
        stem = target.buffer.removesuffix(".reg").removesuffix(".shared")
        name, number = f"{stem}.{word}", 1
        while name in self.results:
            number += 1
            name = f"{stem}.{word}{number}"
        # Short floats are computed with in 32 bits.
        self.results[name] = Buffer(name, "f32" if dtype in SHORT_FLOATS else dtype, (), "lanes", ())
        return self.results[name]

    def under(self, test: Condition, body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        """`body` where `test` holds; exchanges stay outside of the test, because all threads of a warp run them."""
        out: list[Spmd] = []
        run: list[Spmd] = []
        for node in body:
            if not _exchanges(node):
                run.append(node)
                continue
            out += [If((test,), tuple(run))] if run else []
            run = []
            match node:
                case Combine():
                    out.append(self._add_tests(node, (test,)))
                case For():
                    out.append(replace(node, body=self.under(test, node.body)))
                case _:
                    raise TypeError(node)
        return (*out, If((test,), tuple(run))) if run else tuple(out)

    def _add_tests(self, node: Combine, tests: Tests) -> Combine:
        """`node` under more tests.

        Also those that are the same for all of its lanes: where they fail nobody uses what the lanes come to,
        but what they would put in may be a register that has no value.
        """
        return replace(node, test=node.test + tests)


def _read_there(node: Node, exchange: Combine) -> Node:
    """The statement that reads what is exchanged in the place of the register."""
    start = exchange.start
    assert start

    def change(access: Access | Load) -> Access | Load:
        is_start = isinstance(access, Load) and access.buffer == start.buffer
        return Load(exchange.name, (), start.dtype) if is_start else access

    return rewrite_accesses(node, change)


def _exchanges(node: Spmd) -> bool:
    return isinstance(node, Combine) or (isinstance(node, For) and any(_exchanges(each) for each in node.body))


def _in_some_lane(condition: Condition, lane: Loop) -> tuple[Condition, ...]:
    """What holds wherever `condition` holds in some lane; what it says of lanes it says of nothing else."""
    own = condition.value.part_with((lane.name,))
    if own.is_const:
        return (condition,)
    rest, values = condition.value - own, [own.evaluate({lane.name: n}) for n in range(lane.extent.const)]
    most = Condition(rest + max(values))
    return (most, Condition(-rest - min(values))) if condition.equal else (most,)
