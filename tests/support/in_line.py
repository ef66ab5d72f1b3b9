"""Lowered programs with the statements of their functions where they are called, to put faults into one place."""

from __future__ import annotations

from dataclasses import replace

from tilegen.proof.reading.inlining import without_calls


def in_line(launches):
    """The launches without functions."""
    return tuple(replace(launch, body=without_calls(launch.body)) for launch in launches)
