"""Which device a kernel runs on, by the user's word for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tilegen import interpreter
from tilegen.backends import cuda, opencl
from tilegen.backends.arrays import check_sizes
from tilegen.backends.device_program import Program
from tilegen.backends.engine import Engine, Run
from tilegen.backends.host import HostArrays
from tilegen.errors import UsageError, did_you_mean
from tilegen.ir.nodes import Tree
from tilegen.lowering import Launch

DEVICES = ("auto", "cuda", "cpu", "interpreter", "oclgrind")


class InterpreterEngine(HostArrays):
    """numpy, statement by statement: right, and slow. What is left where no OpenCL platform is found."""

    name = "the interpreter"

    def build(self, text: str, launches: Sequence[Launch]) -> Mapping[str, Any]:
        raise AssertionError("the interpreter runs trees")

    def enqueue(self, entry: Any, run: Run) -> Callable[[], None]:
        raise AssertionError("the interpreter runs trees")

    def synchronize(self) -> None:
        """Nothing: it is done when it returns."""


class InterpretedProgram(Program):
    """A scheduled kernel run by the interpreter, with the same calls as one that is compiled."""

    def bind(self, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> Callable[[], None]:
        """A call that interprets the tree on the arrays."""
        check_sizes(self.kernel, sizes)
        inputs = {name: arrays[name] for name in self.kernel.parameters}

        def run() -> None:
            for name, (values, written) in interpreter.execute(self.tree, sizes, inputs).items():
                arrays[name][written] = values[written]

        return run


def program(tree: Tree, engine: Engine, *, unproved: bool = False) -> Program:
    """The tree as a program of the engine; nothing is compiled yet, and nothing `unproved` unless that is allowed."""
    kind = InterpretedProgram if isinstance(engine, InterpreterEngine) else Program
    return kind(tree, engine, unproved=unproved)


@cache
def engine(device: str = "auto") -> Engine:
    """The engine that `device`, one of DEVICES, means here; "auto" takes the first of a GPU, OpenCL, numpy.

    Raises:
        UsageError: no such word.
        DeviceError: the device that is asked for is not there.
    """
    match device:
        case "cuda":
            return cuda.CudaEngine()
        case "cpu":
            return InterpreterEngine() if opencl.unavailable_reason() else opencl.OpenclEngine()
        case "interpreter":
            return InterpreterEngine()
        case "oclgrind":
            return opencl.OpenclEngine(opencl.SIMULATOR)
        case "auto":
            return engine("cpu") if cuda.unavailable_reason() else engine("cuda")
        case _:
            meant = {
                "gpu": "cuda",
                "nvidia": "cuda",
                "opencl": "cpu",
                "pocl": "cpu",
                "host": "cpu",
                "numpy": "interpreter",
            }
            near = did_you_mean(meant.get(device.lower(), device), list(DEVICES))
            notes = near or (f"the devices are {', '.join(DEVICES)}",)
            raise UsageError(f"there is no device '{device}'", notes=notes)
