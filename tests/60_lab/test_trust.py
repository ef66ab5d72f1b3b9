"""When a median is known, and what speaks against a time."""

import numpy as np
import pytest

from tilegen.cli.looks.trust import trust_lines
from tilegen.lab.measure.trust import doubts_of_conditions, doubts_of_samples, is_known, median_error
from tilegen.lab.records.records import Conditions, Readings


def test_the_error_of_a_median_is_that_of_ranks() -> None:
    """Of nine samples the median lies between the second and the eighth but for 3.9 %; of five nothing is known."""
    assert median_error([1.0, 2.0, 90.0, 100.0, 101.0, 102.0, 103.0, 110.0, 900.0][:5]) is None
    assert median_error([900.0, 2.0, 90.0, 100.0, 101.0, 102.0, 103.0, 110.0, 1.0]) == pytest.approx(99 / 101)
    assert median_error([100.0] * 4 + [101.0] + [102.0] * 4) == pytest.approx(1 / 101)


def test_the_error_holds_for_nineteen_of_twenty_medians() -> None:
    rng = np.random.default_rng(0)
    for count in (6, 9, 25, 60):
        drawn = 1 + rng.exponential(size=(2000, count))  # far from symmetric; its median is known
        held = 0
        for samples in drawn:
            error, middle = median_error(samples), float(np.median(samples))
            held += error is not None and abs(1 + np.log(2) - middle) <= error * middle
        assert held / 2000 > 0.94


@pytest.mark.parametrize(
    ("samples", "doubt"),
    [
        ([], None),
        ([2.0] * 9, None),
        ([2.0] * 5, "5 samples are too few for a median that is known to within 1%"),
        ([1.9, 2.0, 2.1] * 3, "the median is known to within 5.0% only, by 9 samples"),
    ],
)
def test_a_median_that_is_not_known_is_doubted(samples, doubt) -> None:
    assert doubts_of_samples(samples) == ((doubt,) if doubt else ())
    assert is_known(samples) == (doubt is None and bool(samples))


def test_what_held_the_gpu_back_is_told() -> None:
    clear = Conditions(100, others=0)
    assert doubts_of_conditions(clear, 0.0) == doubts_of_conditions(None, 0.0) == ()
    assert doubts_of_conditions(Conditions(100, throttled={"heat": 0.01}, others=0), 0.0) == ()
    found = doubts_of_conditions(Conditions(100, throttled={"heat": 0.34, "power brake": 1.0}, others=2), 0.0)
    assert found == (
        "the GPU was throttled (heat) at 34% of 100 readings",
        "the GPU was throttled (power brake) at 100% of 100 readings",
        "2 other processes had a context on the GPU",
    )


def test_at_the_power_limit_long_samples_are_to_be_taken() -> None:
    at_limit = Conditions(50, throttled={"power limit": 0.5})
    (doubt,) = doubts_of_conditions(at_limit, 0.0)
    assert doubt.endswith("--steady 0.35 times each alone")
    assert doubts_of_conditions(at_limit, 0.35) == ()


def test_the_state_of_the_gpu_is_told_on_a_line() -> None:
    assert list(trust_lines(None, ("doubted",), {})) == []
    found = Conditions(7, Readings(1200, 1980, 1980), None, Readings(655, 655, 655), Readings(40, 50, 54))
    assert list(trust_lines(found, ("it was hot",), {"tiled": ("few samples",)})) == [
        "during the timing: 1980 MHz (1200..1980), 655 W, 50 C (40..54); median and range of 7 readings",
        "not to be trusted: it was hot",
        "not to be trusted: tiled: few samples",
    ]
    (line,) = trust_lines(Conditions(unknown="nvidia-ml-py is not installed"), (), {})
    assert line == "clocks, power and temperature are not known: nvidia-ml-py is not installed"
