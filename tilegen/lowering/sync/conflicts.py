"""The dependences between threads of a block, placed: where in the launch a barrier can stand for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilegen.ir.nodes import THREAD_KINDS, Loop, Node, Stmt, Tree
from tilegen.judge import Dependence, DependenceKind, dependences
from tilegen.lowering.threads.distribute import Block
from tilegen.poly.instances import Placed, leaf_of

Path = tuple[int, ...]
Gap = tuple[Path, int]  # the way to a body, and the child that the place is before


@dataclass(frozen=True, eq=False)
class Conflict:
    """A thread touches an element in `before`, another may touch it later in `after`, and one of them writes.

    Attributes:
        of_global: the element is in global memory.
        before, after: the positions of the two statements in the launch, one number for each body.
        depth: how many loops lie around the body in which the two meet: the one at `before[:depth]`.
        beyond: the loops around `after`, by their path.
        of_store: what is read first goes to a tensor by a bulk store, so that the wait for it had best come late.
    """

    dependence: Dependence
    of_global: bool
    before: Path
    after: Path
    depth: int
    beyond: Mapping[Path, str]
    of_store: bool

    @property
    def kind(self) -> DependenceKind:
        return self.dependence.kind

    @property
    def buffer(self) -> str:
        return self.dependence.buffer

    @property
    def is_carried(self) -> bool:
        """True if the loop with the body in which the two meet has gone on to a later iteration in between."""
        return self.dependence.carried_by is not None

    @property
    def exists(self) -> bool:
        return self.dependence.exists

    def is_iterations_apart(self, path: Path) -> bool:
        """True if a whole iteration of the loop at `path` lies in between, whenever the two meet."""
        return path in self.beyond and self.dependence.is_iterations_apart(self.beyond[path])


def conflicts(tree: Tree, block: Block, waits: Sequence[tuple[Path, Stmt]] = ()) -> tuple[Conflict, ...]:
    """The conflicts of a tree with one launch, whose copies have been dealt out to threads.

    `waits` are statements that all threads of the block run before what is at their places.
    """
    places, found, more = list(_places(tree.body, (), ())), list[Conflict](), list[Placed]()
    for path, stmt in waits:
        around = tuple(_loops_at(tree.body, path))
        more.append(Placed(leaf_of((*around, *block.loops), stmt), path, len(places)))
        places.append((around, path))
    for d in dependences(tree, 0, more):
        (around, before), (beyond, after) = places[d.source], places[d.sink]
        shared = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(around))
        depth = min(shared, len(around))
        if d.carried_by is not None:
            depth = [loop.name for loop in around].index(d.carried_by) + 1
        if any(loop.kind in THREAD_KINDS for loop in around[:depth]):
            continue  # the judge has shown that there is none
        space = tree.buffer(d.buffer).space
        loops = {after[: n + 1]: loop.name for n, loop in enumerate(beyond)}
        of_store = d.kind == "WAR" and space == "shared" and around[-1:] != () and around[-1].kind == "bulk"
        found.append(Conflict(d, space == "global", before, after, depth, loops, of_store))
    return tuple(found)


def _loops_at(body: tuple[Node, ...], path: Path) -> Iterator[Loop]:
    """The loops around what is at `path`."""
    for place in path[:-1]:
        loop = body[place]
        assert isinstance(loop, Loop)
        yield loop
        body = loop.body


def _places(body: tuple[Node, ...], around: tuple[Loop, ...], path: Path) -> Iterator[tuple[tuple[Loop, ...], Path]]:
    """(loops, positions) of every statement, in program order."""
    for place, node in enumerate(body):
        if isinstance(node, Loop):
            yield from _places(node.body, (*around, node), (*path, place))
        else:
            yield around, (*path, place)
