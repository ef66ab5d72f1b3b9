"""Which device a kernel runs on, by the user's word for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tilegen import interpreter
from tilegen.backends.calls.arrays import bits_of
from tilegen.backends.calls.device_program import Program
from tilegen.backends.calls.engine import Engine, Launcher, Run
from tilegen.backends.calls.host import HostArrays
from tilegen.backends.devices import cuda, opencl
from tilegen.backends.system.record import Record
from tilegen.errors import UsageError, did_you_mean
from tilegen.ir.nodes import Buffer, Scalar, Tree
from tilegen.lowering import Launch

DEVICES = ("auto", "cuda", "cpu", "interpreter", "oclgrind")


class InterpreterEngine(HostArrays):
    """numpy, statement by statement: right, and slow. What is left where no OpenCL platform is found."""

    name = "the interpreter"
    language = "cuda"  # it runs trees; what is proved of them is the CUDA program

    def build(self, text: str, launches: Sequence[Launch]) -> Mapping[str, Any]:
        raise AssertionError("the interpreter runs trees")

    def launcher(self, entry: Any, run: Run) -> Launcher:
        raise AssertionError("the interpreter runs trees")

    def synchronize(self) -> None:
        """Nothing: it is done when it returns."""


class InterpretedProgram(Program):
    """A scheduled kernel run by the interpreter, with the same calls as one that is compiled."""

    def _scratch(self) -> tuple[Buffer, ...]:
        return ()

    def _as_passed(self, scalar: Scalar, stored: Any) -> Any:
        return stored

    def _launchers(
        self,
        engine: Engine,
        sizes: Mapping[str, int],
        names: Sequence[str],
        alignments: Mapping[str, int],
        rounds: int,
    ) -> tuple[Launcher, ...]:
        scalar_names = [scalar.name for scalar in self.kernel.scalars]

        def launch(memory: Sequence[Any], addresses: Sequence[int], scalars: Sequence[Any], stream: int) -> None:
            arrays = dict(zip((*names, *scalar_names), (*map(bits_of, memory), *scalars), strict=True))
            inputs = {name: arrays[name] for name in self.kernel.parameters}
            for name, (values, written) in interpreter.execute(self.tree, sizes, inputs).items():
                arrays[name][written] = values[written]

        return (launch,)


def program(tree: Tree, engine: Engine, *, unproved: bool = False, record: Record | None = None) -> Program:
    """The tree as a program of the engine; nothing is compiled yet, and nothing `unproved` unless that is allowed.

    `record` is what is stored of the tree; if left out, nothing is, and all is found out anew.
    """
    kind = InterpretedProgram if isinstance(engine, InterpreterEngine) else Program
    return kind(tree, engine, unproved=unproved, record=record)


@cache
def engine(device: str = "auto") -> Engine:
    """The engine that `device` means here, one of DEVICES, or "gpu" for cuda; "auto" takes the first of a GPU, OpenCL,
    numpy.

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
        case "gpu":
            return engine("cuda")
        case "auto":
            return engine("cpu") if cuda.unavailable_reason() else engine("cuda")
        case _:
            meant = {
                "nvidia": "cuda",
                "opencl": "cpu",
                "pocl": "cpu",
                "host": "cpu",
                "numpy": "interpreter",
            }
            notes = did_you_mean(meant.get(str(device).lower(), str(device)), DEVICES, "the devices are")
            raise UsageError(f"there is no device '{device}'", notes=notes)
