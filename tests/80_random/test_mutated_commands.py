"""Commands with mistakes that nobody thought of: they end with an exit code of the README, and a word on why."""

from __future__ import annotations

import pytest

from tests.support.generators.mutated_commands import outcome


@pytest.mark.parametrize("number", range(40))
def test_only_exit_codes_of_the_readme_come_out(number: int) -> None:
    outcome(number, 0)
