"""Schedules as texts of the language again, with all of their steps."""

from __future__ import annotations

from tilegen.ir.steps import Parameter, Schedule, text_of_argument


def text_of_schedule(schedule: Schedule) -> str:
    """The schedule for its kernel with all of its steps, those that it inherits among them."""
    head = f"schedule {schedule.name} for {schedule.kernel}{text_of_parameters(schedule)}:"
    steps = [step.text for step in schedule.steps] or ["pass"]
    comment = [f"# {line}".rstrip() for line in schedule.doc.split("\n")] if schedule.doc else []
    comment += [f"# By form: {schedule.form}"] if schedule.form else []
    return "\n".join([*comment, head, *(f"    {text}" for text in steps)])


def text_of_parameters(schedule: Schedule) -> str:
    """`(TM=64 in {32, 64}, TN=32) where TM * TN <= 2048`; empty where the schedule has none."""
    parameters = ", ".join(map(text_of_parameter, schedule.parameters))
    facts = ", ".join(fact.text for fact in schedule.facts)
    return (f"({parameters})" if parameters else "") + (f" where {facts}" if facts else "")


def text_of_parameter(parameter: Parameter) -> str:
    among = f" in {{{', '.join(map(str, parameter.candidates))}}}" if parameter.candidates else ""
    default = text_of_argument(parameter.computed) if parameter.computed else parameter.default
    return f"{parameter.name}={default}{among}"
