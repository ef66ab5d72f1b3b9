"""What tensor cores compute: operations of an instruction, and the most that a GPU has of them a second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from tilegen.ir.hardware.instructions import UNITS, Instruction
from tilegen.ir.nodes import BYTE_FLOATS
from tilegen.lab.counts.metric import operations_per_point


@dataclass(frozen=True)
class TensorCores:
    """The tensor cores of one GPU.

    Attributes:
        device: whose they are.
        peaks: dense TFLOP/s, of integers TOP/s, by the format of the factors.
        share_of_warps: what part of a peak instructions of one warp reach, by the same formats; 1 where it is not
            given. Others than those of a warp reach the rest.
    """

    device: str
    peaks: Mapping[str, float]
    share_of_warps: Mapping[str, float]

    def rate(self, format_: str, unit: str = "warp") -> float | None:
        """TFLOP/s that instructions of a unit reach; None where the GPU has no such tensor cores."""
        peak = self.peaks.get(format_)
        share = self.share_of_warps.get(format_, 1.0) if unit == "warp" else 1.0
        return peak * share if peak else None


def _cores(
    device: str, f16: float, tf32: float, i8: float, f64: float | None, f8: float | None = None, share: float = 1.0
) -> TensorCores:
    peaks = {"f16": f16, "bf16": f16, "tf32": tf32, "i8": i8, "u8": i8} | ({"f64": f64} if f64 else {})
    peaks |= dict.fromkeys(BYTE_FLOATS, f8) if f8 else {}
    return TensorCores(device, peaks, {name: share for name in peaks if name != "f64"})


# Dense peaks as NVIDIA's data sheets have them: "A100 Tensor Core GPU", "A40", "L40S" and "HGX B200", halved where a
# sheet speaks of sparse matrices; of the H200 those of the white paper on the H100, which has the same chip. What the
# figures were read from stands in lab/predict/machines; A40 and L40S were not looked up. From Hopper on, the peak needs
# instructions of four warps: `mma.sync` reached 490.7 of 756 TFLOP/s on an H800 (Luo et al., arXiv 2402.13499, its
# table of mma instructions), 0.65 of it, and 0.62 to 0.65 on other cards. Of Blackwell no figure is taken as known.
TENSOR_CORES: Mapping[str, TensorCores] = {
    "sm_80": _cores("A100", 312.0, 156.0, 624.0, 19.5),
    "sm_86": _cores("A40", 149.7, 74.8, 299.3, None),
    "sm_89": _cores("L40S", 362.0, 183.0, 733.0, None, 733.0),
    "sm_90": _cores("H200", 989.4, 494.7, 1978.9, 66.9, 1978.9, share=0.65),
    "sm_100": _cores("B200", 2250.0, 1100.0, 4500.0, 37.0, 4500.0),
}


@dataclass(frozen=True)
class InstructionCount:
    """An instruction of warps or warpgroups in a launch.

    Attributes:
        runs: by all units of the launch; `of_a_unit` by each of those that run it, on average.
        operations: of one run; 0 for a copy.
        format: of the factors: "bf16", "tf32".
        unit: "warp" or "warpgroup".
    """

    name: str
    runs: float
    of_a_unit: float
    operations: int
    format: str
    unit: str = "warp"

    @property
    def warps(self) -> int:
        """Of a unit, each of which issues the instruction."""
        return UNITS[self.unit] // UNITS["warp"]


def count_of(instruction: Instruction, runs: float, of_a_unit: float) -> InstructionCount:
    """A number of runs of an instruction, with what its declaration says of each."""
    operations, format_ = operations_of(instruction), instruction.format_of(instruction.operands[0].operand.name)
    return InstructionCount(instruction.name, runs, of_a_unit, operations, format_, instruction.unit)


def operations_of(instruction: Instruction) -> int:
    """Operations of one run, a multiply-add two; 0 for what only moves bits."""
    equation = instruction.equation
    return operations_per_point(equation) * prod(r.extent.const for r in (*equation.loops, *equation.reduced))


def tensor_seconds(counts: Iterable[InstructionCount], cores: TensorCores) -> float:
    """The least time of all that is computed, each format at its own rate; formats without a rate take none."""
    return sum(c.runs * c.operations / (rate * 1e12) for c in counts if (rate := cores.rate(c.format, c.unit)))
