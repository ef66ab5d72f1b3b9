"""What `where` says of a schedule's parameters: read, inherited, written again, and asked of values."""

from tilegen import api

TEXT = """\
schedule s for gemm(TS=32 in {8, 16, 32}, TK=32 in {8, 32})
        where TS % 8 == 0, TS * TK <= 2048, 1 <= TK <= TS or not TS > 8:
    tile(i, TS) -> bi, ti
    tile(k, TK) -> ko, ki

schedule t extends s(TS=16, TK=8) where TS != 8:
    bind(bi, block.x)

schedule u extends s:
    without tile(i)
"""


def test_facts_decide_which_values_are_candidates() -> None:
    s, t, _ = api.load(TEXT).schedules
    assert s.admits({"TS": 8, "TK": 32})
    assert not s.admits({"TS": 16, "TK": 32})
    assert not s.admits({"TS": 4, "TK": 8})
    assert not t.admits({"TS": 8, "TK": 8})


def test_facts_are_inherited_with_the_parameters_that_they_speak_of() -> None:
    _, t, u = api.load(TEXT).schedules
    assert [fact.text for fact in t.facts] == [
        "TS % 8 == 0", "TS * TK <= 2048", "1 <= TK <= TS or not TS > 8", "TS != 8",
    ]  # fmt: skip
    assert u.facts == ()


def test_an_inherited_fact_that_new_defaults_break_is_dropped() -> None:
    _, _, _, v = api.load(TEXT + "\nschedule v extends s(TS=12):\n    unroll(ki)\n").schedules
    assert [fact.text for fact in v.facts] == ["TS * TK <= 2048"]


def test_a_division_by_zero_is_never_so() -> None:
    (schedule,) = api.load("schedule s for gemm(T=4, U=2) where T // U > 1:\n    tile(i, T) -> a, b\n").schedules
    assert not schedule.admits({"T": 4, "U": 0})


def test_facts_are_written_again() -> None:
    file = api.load(TEXT)
    again = api.load(file.self_contained("t")).find_schedule("t")
    assert again.facts == file.find_schedule("t").facts
