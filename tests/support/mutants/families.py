"""Kinds of faults in lowered programs, each family with small kernels that have what it breaks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType

from tests.support.bulk_kernels import CASES as BULK
from tests.support.mutants import (
    budget_faults,
    bulk_faults,
    cluster_faults,
    factor_faults,
    overlap_faults,
    overlap_launch_faults,
    place_faults,
    ring_faults,
    store_faults,
    turn_faults,
    warpgroup_faults,
)
from tests.support.overlapping_kernels import CASES as OVERLAPPING
from tests.support.warpgroup_kernels import BUDGETS, CLUSTER, FACTORS, RINGS, WINDOWS
from tests.support.warpgroup_kernels import CASES as WARPGROUPS
from tests.support.written import tree_from
from tilegen.ir.nodes import Tree
from tilegen.lowering import lower
from tilegen.lowering.launch.launch import Launch
from tilegen.proof import prove

Fault = Callable[[Launch], Iterator[Launch]]


@dataclass(frozen=True)
class Family:
    """Kinds of faults, and the texts of kernels that they are put into, by name.

    `runs` are those that are simulated, each with sizes at which every part of it runs. Some kinds are `beyond` the
    simulation, which knows PTX and no more; of some, which are `mild`, a part does no harm. Both say why.
    """

    kinds: tuple[Fault, ...]
    texts: Mapping[str, str]
    runs: Mapping[str, dict[str, int]]
    beyond: Mapping[str, str] = field(default_factory=dict)
    mild: Mapping[str, str] = field(default_factory=dict)

    def faulty(self, kind: Fault) -> Iterator[tuple[str, list[Launch]]]:
        """Each text that has what a kind of fault breaks, with its launches with such a fault."""
        for name, text in self.texts.items():
            if found := list(kind(program(text)[1])):
                yield name, found


@cache
def program(text: str) -> tuple[Tree, Launch]:
    """The tree of a kernel with its schedule, and its only launch."""
    tree = tree_from(text)
    (launch,) = lower(tree)
    return tree, launch


def missed(text: str, faulty: list[Launch]) -> list[Launch]:
    """The launches with a fault that the proof takes for right."""
    tree = program(text)[0]
    return [each for each in faulty if prove(tree.kernel, (each,), tree.reassociated).verdict == "proved"]


def _kinds(*modules: ModuleType) -> tuple[Fault, ...]:
    """The public functions of modules that take a launch alone."""
    found = (f for module in modules for f in vars(module).values() if inspect.isfunction(f))
    mine = {module.__name__ for module in modules}
    public = (f for f in found if f.__module__ in mine and not f.__name__.startswith("_"))
    return tuple(dict.fromkeys(f for f in public if list(inspect.signature(f).parameters) == ["launch"]))


def _bulk(*names: str) -> dict[str, str]:
    return {name: BULK[name] for name in names}


COPIED = {"M": 18, "N": 36, "K": 24, "L": 2}
NO_WORDS = "what is said to be waited for is in no text"
NO_ADDRESSES = "it has elements, and no addresses"
NO_DECLARATIONS = "it runs the PTX, whatever a declaration says of it"
OF_THE_COMPILER = "which registers are held is a matter of the compiler's"
NO_HARM = "who has waited waits no longer"
IDLE = "another thread that has nothing else to do serves as well"
DISTANCE = "how far rows or pieces are apart matters where a product has several"
NOT_READ = "a wrong box may bring, or take, what nobody reads"

# With one warp in each turn both barriers of a slot have as many arrivals, and may have each other's names; and of
# other producers one is the right one.
_ALIKE_IN_TURNS = ("all_barriers_exchanged", "other_producer")

FAMILIES = {
    "copies": Family(
        _kinds(bulk_faults),
        _bulk(
            "once",
            "swizzled",
            "each time",
            "two stages",
            "beside others",
            "again",
            "again in stages",
            "few readers",
            "few readers, two stages",
            "few readers, three tiles",
        ),
        {
            "swizzled": {"M": 18, "N": 36},
            "two stages": {"M": 18, "N": 36, "K": 24},
            "again": {"M": 18, "N": 36, "K": 24, "L": 2},
        },
        beyond={"wait_names_others": NO_WORDS, "unaligned_tensor": NO_ADDRESSES, "wait_twice": NO_HARM},
        mild={
            **dict.fromkeys(("wrong_bytes", "wrong_coordinate", "wrong_place", "wrong_map", "wrong_memory"), NOT_READ),
            "barriers_started_late": "the thread that starts them may be the first to use them",
        },
    ),
    "stores": Family(
        (*_kinds(store_faults), bulk_faults.wrong_map, bulk_faults.unaligned_tensor),
        {name: text for name, text in BULK.items() if name.startswith("stored")},
        {
            "stored, swizzled": {"M": 36, "N": 20},
            "stored in panels": {"M": 36, "N": 20},
            "stored each time": {"M": 36, "N": 20},
            "stored panel by panel": {"M": 9, "N": 36},
            "stored tile by tile, beside a ring": {"M": 4, "N": 68, "K": 12},
        },
        beyond={"unaligned_tensor": NO_ADDRESSES, "wait_twice": NO_HARM},
        mild=dict.fromkeys(("wrong_coordinate", "wrong_place", "wrong_map", "wrong_memory"), NOT_READ),
    ),
    "rings": Family(
        _kinds(ring_faults),
        _bulk(
            "ring, narrow",
            "ring",
            "ring, again",
            "ring, again, narrow",
            "cluster",
            "cluster, narrow",
            "cluster, again, narrow",
        ),
        {"ring, narrow": {"M": 13, "N": 20, "K": 44}},
        beyond={"wait_names_others": NO_WORDS, "wait_of_the_other_kind": NO_WORDS, "wait_twice": NO_HARM},
        mild={
            "slot_shifted": "the other one of two slots is released later",
            "other_producer": IDLE,
            "release_early": "who releases before the fence comes to it before anybody copies",
        },
    ),
    "places in rings": Family(
        _kinds(place_faults),
        _bulk("ring, again, narrow", "ring, again", "cluster, again, narrow"),
        {"ring, again, narrow": {"M": 13, "N": 72, "K": 20}},
        beyond={
            "slots_miscounted": "it counts iterations and no slots; those of the text are read back",
            "slots_miscounted_alike": "it counts iterations and no slots; those of the text are read back",
        },
    ),
    "rings in turns": Family(
        tuple(f for f in _kinds(ring_faults, place_faults) if f.__name__ not in _ALIKE_IN_TURNS),
        _bulk("turns"),
        {},
    ),
    "turns": Family(
        _kinds(turn_faults),
        _bulk("turns, stored", "turns", "turns, cluster"),
        {"turns, stored": {"M": 5, "N": 136, "K": 20}, "turns, cluster": {"M": 29, "N": 136, "K": 20}},
        beyond={
            "pass_before_the_last_wait": "its threads are not at the pace at which it matters",
        },
        mild={"next_producer": IDLE},
    ),
    "clusters": Family(
        _kinds(cluster_faults),
        _bulk("cluster, narrow", "cluster", "cluster, again, narrow", "turns, cluster") | {"products": CLUSTER},
        {"cluster, narrow": {"M": 29, "N": 40, "K": 20}},
        mild={"other_clusters": "the order of the factors of a grid is in no text"},
    ),
    "products that run on": Family(
        (*_kinds(overlap_faults), warpgroup_faults.hold_dropped),
        RINGS | {"cluster": CLUSTER},
        {"ring, again": {"M": 3, "N": 136, "K": 136}},  # two tiles of the first block, three iterations of each
        beyond={
            "complete_the_earlier_alone": "an empty group is the last one there: all products have ended",
            "hold_dropped": OF_THE_COMPILER,
        },
        mild={
            "release_untested": "the test of the last one holds at these sizes",
            "release_ahead_of_the_wait": "behind the loop nobody fills a slot again",
        },
    ),
    "launches that overlap": Family(
        _kinds(overlap_launch_faults),
        OVERLAPPING,
        {"tiles": {"M": 11, "N": 9, "K": 7}},
        beyond=dict.fromkeys((f.__name__ for f in _kinds(overlap_launch_faults)), "it runs one launch after another"),
    ),
    "budgets of registers": Family(
        _kinds(budget_faults),
        BUDGETS,
        {"budgets": {"M": 130, "N": 72, "K": 64}},
        beyond=dict.fromkeys((f.__name__ for f in _kinds(budget_faults)), "it does not count registers"),
    ),
    "products by warpgroups": Family(
        _kinds(warpgroup_faults),
        WARPGROUPS,
        {"ahead": {"M": 9, "N": 8, "K": 72}, "panels": {"M": 9, "N": 72, "K": 72}},
        beyond={"lanes_of_the_result": NO_DECLARATIONS, "hold_dropped": OF_THE_COMPILER},
        mild=dict.fromkeys(("stride", "leading"), DISTANCE),
    ),
    "factors in registers": Family(
        (
            *_kinds(factor_faults),
            *(getattr(warpgroup_faults, f"{each}_dropped") for each in ("complete", "results", "begin", "hold")),
        ),
        FACTORS,
        dict.fromkeys(FACTORS, {"M": 9, "N": 8, "K": 72}),
        beyond={"layout_of_the_factor": NO_DECLARATIONS, "hold_dropped": OF_THE_COMPILER},
    ),
    "windows": Family(
        (warpgroup_faults.stride, warpgroup_faults.leading, warpgroup_faults.start),
        {"windows": WINDOWS},
        {"windows": {"M": 64, "N": 64}},
        mild={"leading": DISTANCE},
    ),
}

# Every kernel of the families and more of their like, each with sizes at which every part of it runs.
KERNELS = {
    **{name: (text, COPIED) for name, text in BULK.items() if name != "halves"},
    **{name: (BULK[name], {"M": 29, "N": 72, "K": 20}) for name in BULK if name.startswith("cluster,")},
    "turns, cluster": (BULK["turns, cluster"], {"M": 29, "N": 136, "K": 20}),
    **{name: (text, {"M": 65, "N": 24, "K": 72}) for name, text in (WARPGROUPS | FACTORS).items()},
    **{f"products, {name}": (text, {"M": 3, "N": 136, "K": 136}) for name, text in RINGS.items()},
    **{name: (text, {"M": 130, "N": 72, "K": 64}) for name, text in BUDGETS.items()},
    "products, cluster": (CLUSTER, {"M": 3, "N": 8, "K": 72}),
    "launches that overlap": (OVERLAPPING["tiles"], {"M": 11, "N": 9, "K": 7}),
    "windows": (WINDOWS, {"M": 64, "N": 64}),
}
