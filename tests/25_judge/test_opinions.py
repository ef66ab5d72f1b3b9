"""A few hundred of the verdicts that opinions.py counts by the ten thousand."""

from tests.support.enumeration.opinions import chunk_of


def test_no_verdict_is_falsely_legal_and_few_are_falsely_illegal():
    counts, lines = chunk_of(("test", 300))
    assert not counts["false legal"], lines
    assert not counts["crashes"], lines
    assert counts["false illegal"] <= 3, lines
    assert min(counts["legal"], counts["illegal"]) >= 75
