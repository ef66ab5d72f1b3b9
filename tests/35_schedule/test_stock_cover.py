"""The stock schedules that stand for all of them where tests are not to take long."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support.cover import STORED, cover, each_stock_schedule, features, greedy_cover
from tests.support.stock import cases

PAGE = (Path(__file__).parents[1] / "nets.md").read_text()


def test_the_cover_is_of_stock_schedules_as_the_page_says() -> None:
    assert cover() <= set(cases())
    assert f"The cover are the {len(cover())} of the {len(cases())} stock schedules" in PAGE


@cache
def features_of_cover() -> set[tuple[str, ...]]:
    return set().union(*(features(*case) for case in cover()))


@pytest.mark.long
@each_stock_schedule
def test_the_cover_has_every_feature(name: str, schedule: str) -> None:
    assert not features(name, schedule) - features_of_cover()


@pytest.mark.nightly
def test_the_cover_has_few_schedules(request) -> None:
    """With --update-golden it is stored anew."""
    least = greedy_cover()
    if request.config.getoption("--update-golden"):
        STORED.write_text("".join(f"{name}.{schedule}\n" for name, schedule in sorted(least)))
        cover.cache_clear()
    assert len(cover()) < 1.2 * len(least)
