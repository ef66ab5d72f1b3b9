"""The candidates of a space: the written ones first, each once, and none that a `where` excludes."""

from random import Random

import pytest

from tilegen import api
from tilegen.errors import UsageError
from tilegen.tune.search import search
from tilegen.tune.space import Candidate, Space, require_candidates

TEXT = """\
schedule a for gemm(TM=32 in {16, 32, 64}, TN=32 in {16, 32, 64}, U=4) where TM * TN <= 2048:
    tile(i, TM) -> bi, ti
    tile(j, TN) -> bj, tj
    tile(k, U) -> ko, ki

schedule b for gemm(TM=8 in {8, 16}):
    tile(i, TM) -> bi, ti
"""


def space(**given: tuple[int, ...]) -> Space:
    return Space(api.load(TEXT).schedules, given)


def test_every_candidate_comes_once_and_is_as_the_where_wants_it() -> None:
    found = list(space())
    assert len(found) == len(set(found)) == 8 + 2
    assert Candidate("a", (("TM", 64), ("TN", 64), ("U", 4))) not in found
    assert sorted(map(str, space().shuffled(Random(1)))) == sorted(map(str, found))
    assert space().combinations == 9 + 2


def test_the_written_ones_come_first() -> None:
    found = search("random", space(), seed=3)
    assert [str(found.ask()), str(found.ask())] == ["a TM=32 TN=32 U=4", "b TM=8"]


def test_given_values_stand_in_place_of_those_in_the_head() -> None:
    assert [str(each) for each in space(TM=(16, 128), TN=(16,))] == [
        "a TM=16 TN=16 U=4", "a TM=128 TN=16 U=4", "b TM=16", "b TM=128",
    ]  # fmt: skip


def test_a_large_space_is_drawn_from_and_comes_to_an_end() -> None:
    parameters = ", ".join(f"P{n}=0 in {{{', '.join(map(str, range(10)))}}}" for n in range(7))
    text = f"schedule s for gemm({parameters}) where P0 + P1 + P2 == 0, P3 + P4 + P5 + P6 <= 1:\n    unroll(k)\n"
    large = Space(api.load(text).schedules, {})
    found = list(large.shuffled(Random(0)))
    assert large.combinations == 10**7
    assert len(found) == len(set(found)) <= 5
    assert all(large.allows(each) for each in found)
    with pytest.raises(UsageError, match="more than 200,000 combinations"):
        search("grid", large, 1)


@pytest.mark.parametrize("kind", ["random", "tpe", "evolution", "quasi-random", "grid"])
def test_a_search_asks_for_all_of_a_space_and_then_for_none(kind: str) -> None:
    if kind not in ("random", "grid"):
        pytest.importorskip("optuna")
    found, asked = search(kind, space(), seed=1), []
    while each := found.ask():
        asked.append(each)
        found.tell(each, None if len(asked) % 3 == 0 else float(len(asked)))
    assert [str(each) for each in asked[:2]] == ["a TM=32 TN=32 U=4", "b TM=8"]
    assert len(asked) == len(set(asked)) == 10


@pytest.mark.parametrize("kind", ["random", "tpe", "evolution", "quasi-random", "grid"])
def test_a_seed_decides_what_is_asked_for(kind: str) -> None:
    if kind not in ("random", "grid"):
        pytest.importorskip("optuna")

    def order(seed: int) -> list[Candidate]:
        one = search(kind, space(), seed)
        found = []
        for _ in range(8):
            found.append(one.ask())
            one.tell(found[-1], float(len(found)))
        return found

    assert order(5) == order(5)


def test_a_grid_goes_through_the_values_in_order() -> None:
    found = search("grid", space(), seed=1)
    asked = list(iter(found.ask, None))
    assert asked[2:] == [each for each in space() if each not in asked[:2]]


def test_what_is_told_is_not_asked_for_again() -> None:
    for kind in ("random", "tpe"):
        found, known = search(kind, space(), seed=1), list(space())[:9]
        for each in known:
            found.tell(each, 1.0)
        assert found.ask() == list(space())[9]
        assert found.ask() is None


def test_nothing_to_choose_from_is_told() -> None:
    file = api.load("schedule s for gemm(T=8 in {8, 16}) where T < 10:\n    tile(i, T) -> bi, ti\n")
    with pytest.raises(UsageError, match="no values"):
        require_candidates(Space(file.schedules, {"T": (32, 64)}))
    with pytest.raises(UsageError, match="one candidate alone"):
        require_candidates(Space(file.schedules, {"T": (8,)}))
    with pytest.raises(UsageError, match="one candidate alone"):
        require_candidates(Space(file.schedules, {}))  # its `where` leaves one


def test_what_a_head_computes_follows_the_values_that_are_tried() -> None:
    text = "schedule s for gemm(V=4 in {2, 4}, T=8 * V):\n    tile(i, T) -> bi, ti\n    tile(ti, V) -> to, tv\n"
    of = api.load(text).schedules
    assert [str(each) for each in Space(of, {})] == ["s V=2 T=16", "s V=4 T=32"]
    assert [str(each) for each in Space(of, {"T": (64,)})] == ["s V=2 T=64", "s V=4 T=64"]
    assert Space(of, {}).pick("s", {"V": 2, "T": 99}) == Candidate("s", (("V", 2), ("T", 16)))
    assert not Space(of, {}).allows(Candidate("s", (("V", 2), ("T", 32))))
    uneven = api.load(text.replace("8 * V", "8 / V").replace("{2, 4}", "{3, 4}")).schedules
    assert [str(each) for each in Space(uneven, {})] == ["s V=4 T=2"]
