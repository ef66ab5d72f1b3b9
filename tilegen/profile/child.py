"""What a profiler runs: `python -m tilegen.profile.child TASK` launches the program after each step of a schedule once.

Launches of kernels that are not the program's, such as those that fill arrays, are not counted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilegen import api
from tilegen.errors import TilegenError
from tilegen.ir.nodes import Tree
from tilegen.ir.steps import Setting
from tilegen.lab.predict.explain import stages_by_line
from tilegen.schedule import Derivation


@dataclass(frozen=True)
class Task:
    """Which steps are to be launched, in a process of its own.

    Attributes:
        text: of the kernel and the schedule, which needs no other.
        constants: attributes of the kernel, and sizes that are compiled into it.
        steps: places among the lines of the schedule, the kernel as written first.
        answer: the file that gets, for each of these steps, how many launches there were, or an error.
        sources: the folder for the texts whose lines the machine code is to name; None where it need not.
    """

    text: str
    kernel: str
    schedule: str | None
    parameters: Mapping[str, Setting]
    constants: Mapping[str, float]
    sizes: Mapping[str, int]
    steps: tuple[int, ...]
    answer: str
    sources: str | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    """Does the task of the file that is named; each step by itself, so that a fault costs what follows alone."""
    task = Task(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    answers: list[dict[str, Any]] = []
    derivation = derivation_of(task)
    for number, tree in enumerate(trees_of(task, derivation)):
        file = Path(task.sources, f"step{number}.cu") if task.sources else None
        try:
            answers.append({"launches": _launch(tree, task.sizes, derivation, file)})
        except TilegenError as error:
            answers.append({"error": error.message})
        Path(task.answer).write_text(json.dumps(answers), encoding="utf-8")


def derivation_of(task: Task) -> Derivation:
    """The kernel and the schedule of a task; with `sources`, their text lies in a file there."""
    text: str | Path = task.text
    if task.sources:
        text = Path(task.sources, f"{task.kernel}.tg")
        text.write_text(task.text, encoding="utf-8")
    kernel = (api.load(text) if isinstance(text, Path) else api.from_text(text)).kernel(task.kernel, **task.constants)
    return kernel.schedule(task.schedule, **task.parameters).core


def trees_of(task: Task, derivation: Derivation) -> list[Tree]:
    """The trees after the steps of a task."""
    stages = stages_by_line(derivation.stages)
    return [stages[step].tree for step in task.steps]


def _launch(tree: Tree, sizes: Mapping[str, int], derivation: Derivation, file: Path | None) -> int:
    """Launches the program of a tree once, under the profiler; the number of its launches."""
    from tilegen.backends.devices.cuda import CudaEngine
    from tilegen.backends.devices.devices import program
    from tilegen.lab.measure.timing import SEED, random_arrays
    from tilegen.profile.lines import EngineWithLines

    runs_on = EngineWithLines(derivation, file) if file else CudaEngine()
    each = program(tree, runs_on)
    runs_on.run_profiled(each.bind(sizes, random_arrays(runs_on, each.kernel, sizes, SEED)))
    return len(each.launches_at(sizes))


if __name__ == "__main__":
    main()
