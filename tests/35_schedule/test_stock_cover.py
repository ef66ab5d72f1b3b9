"""The two covers: stock schedules that stand for all of them where tests are not to take long."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support.cover import COVERS, cover, each_stock_schedule_short_or_long, features, greedy_cover, pairs, stored
from tests.support.stock import cases

PAGE = (Path(__file__).parents[1] / "nets.md").read_text()


def test_the_covers_are_of_stock_schedules_as_the_page_says() -> None:
    assert cover() | cover("pairs") <= set(cases())
    assert f"The cover are the {len(cover())} of the {len(cases())} stock schedules" in PAGE
    assert f"the {len(cover('pairs'))} in `tests/golden/{COVERS['pairs']}`" in PAGE


@cache
def features_of_cover() -> set[tuple[str, ...]]:
    return set().union(*(features(*case) for case in cover()))


@pytest.mark.long
@each_stock_schedule_short_or_long
def test_the_cover_has_every_feature(name: str, schedule: str) -> None:
    assert not features(name, schedule) - features_of_cover()


@pytest.mark.nightly
def test_the_cover_of_pairs_has_every_pair() -> None:
    every, found = (set().union(*(pairs(*case) for case in some)) for some in (cases(), cover("pairs")))
    assert not every - found


@pytest.mark.nightly
@pytest.mark.parametrize("counted", COVERS)
def test_a_cover_has_few_schedules(counted: str, request: pytest.FixtureRequest) -> None:
    """With --update-golden it is stored anew."""
    least = greedy_cover(counted)
    if request.config.getoption("--update-golden"):
        stored(counted).write_text("".join(f"{name}.{schedule}\n" for name, schedule in sorted(least)))
        cover.cache_clear()
    assert len(cover(counted)) < 1.2 * len(least)
