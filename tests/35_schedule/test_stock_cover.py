"""The stock schedules that stand for all of them where tests are not to take long."""

from __future__ import annotations

import pytest

from tests.support.cover import cover, features, greedy_cover
from tests.support.stock import cases


def test_the_cover_is_of_stock_schedules() -> None:
    assert cover() <= set(cases())
    assert 15 < len(cover()) < 45


@pytest.mark.long
def test_the_cover_has_every_feature(golden) -> None:
    missing = set().union(*(features(*case) for case in cases())) - set().union(*(features(*case) for case in cover()))
    golden("".join(f"{name}.{schedule}\n" for name, schedule in sorted(greedy_cover())), "cover.txt")
    assert not missing
