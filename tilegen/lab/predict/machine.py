"""Machines that times are predicted for: files of figures, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from tomllib import TOMLDecodeError
from typing import Any

from tilegen.errors import DeviceError, UsageError, did_you_mean
from tilegen.frontend.files import read_text
from tilegen.lab.counts.tensor_cores import TensorCores
from tilegen.lab.predict.occupancy import SM, Limits
from tilegen.lab.records.schemas import find_complaint
from tilegen.lab.records.values import parse_toml


@dataclass(frozen=True)
class Machine:
    """Ceilings of a GPU, as its `basis` has them.

    Attributes:
        clock: GHz.
        multiply_adds: TFLOP/s of fp32 multiply-adds from registers, two operations each.
        copy: TB/s of a kernel that copies, its reads and writes together.
        shared: TB/s of shared memory; a wavefront moves 128 bytes of it.
        second_level: TB/s that the L2 cache delivers to the SMs; None where nobody has said.
        second_level_size: MB that it holds, of 2**20 bytes each; None where nobody has said.
        memory: GB as on a data sheet, of 2**30 bytes each; None where nobody has said.
        f64: how many times longer an instruction takes in f64 than the same one in f32.
        schedulers: instructions of warps that an SM issues a cycle.
        special: results a cycle of the special function units of an SM.
        tensor: its tensor cores.
        limits: what an SM has.
        sources: of each figure, where it is from.
    """

    name: str
    arch: str
    basis: str
    sms: int
    clock: float
    multiply_adds: float
    copy: float
    shared: float
    second_level: float | None
    tensor: TensorCores
    limits: Limits
    memory: float | None = None
    second_level_size: float | None = None
    f64: float = 2.0
    schedulers: int = 4
    special: int = 16
    devices: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def slower(self, dtype: str) -> float:
        """How many times longer an instruction takes than the same one in f32."""
        return self.f64 if dtype == "f64" else 1.0


_FOLDER = files("tilegen") / "lab" / "predict" / "machines"


def machine_names() -> tuple[str, ...]:
    """The machines that come with tilegen."""
    return tuple(sorted(each.name.removesuffix(".toml") for each in _FOLDER.iterdir() if each.name.endswith(".toml")))


@cache
def stock_machine(name: str) -> Machine:
    """A machine that comes with tilegen, by its name."""
    return _machine_of(parse_toml(machine_text(name)))


def machine_text(name: str) -> str:
    """The file of a machine that comes with tilegen."""
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def machine_here() -> Machine:
    """The machine that the current GPU is; an H200 where there is none, or nothing is known of it."""
    from tilegen.backends.system import gpus

    return (None if gpus.missing() else machine_of_device(gpus.current_name())) or H200


def find_machine(word: str | None) -> Machine:
    """The machine that a user means: one that comes with tilegen, the GPU here for "auto", or a file of one.

    None is that of `machine_here`.

    Raises:
        UsageError: there is no such machine, or the file is none. DeviceError: "auto" without a GPU.
    """
    if word is None:
        return machine_here()
    if word in machine_names():
        return stock_machine(word)
    if word == "auto":
        return _machine_here()
    if not word.endswith(".toml"):
        names = [*machine_names(), "auto"]
        notes = did_you_mean(word, names) or (f"the machines are {', '.join(names)}", "a file of one ends in .toml")
        raise UsageError(f"there is no machine '{word}'", notes=notes)
    return read_machine(read_text(word), word)


def machine_instead(word: str | None, device: str, *, on_gpu: bool) -> Machine | None:
    """The machine whose times are predicted, where nothing is to be timed; None where times are taken.

    That is the one asked for; without one an H200 where "auto" found no GPU, for a CPU's times say nothing of one.

    Args:
        device: the word for the device. `on_gpu` is whether it is one.
    """
    if word:
        return find_machine(word)
    return None if on_gpu or device != "auto" else H200


def machine_of_device(name: str) -> Machine | None:
    """The machine that comes with tilegen for a device of this name, as drivers give it; None for any other."""
    return next((each for each in map(stock_machine, machine_names()) if name in each.devices), None)


def read_machine(text: str, name: str) -> Machine:
    """The machine of a file, which messages call `name`. Raises UsageError where it is none."""
    try:
        value = parse_toml(text)
    except TOMLDecodeError as error:
        raise UsageError(f"{name} is no TOML: {error}") from None
    except ValueError as error:
        raise UsageError(f"{name} is no machine: {error}") from None
    if complaint := find_complaint("machine", value):
        known = f"tilegen cat {machine_names()[0]}.toml prints one"
        raise UsageError(f"{name} is no machine: {complaint}", notes=(known,))
    if "sm" not in value and value["arch"] not in SM:
        raise UsageError(f"{name}: nothing is known of an SM of {value['arch']}", notes=("a table [sm] tells it",))
    return _machine_of(value)


def _machine_of(value: Mapping[str, Any]) -> Machine:
    """The machine of a value that is one by the schema."""
    figures = {key: value[key] for key in value if key not in ("tensor", "by_one_warp", "sm", "devices")}
    tensor = TensorCores(value["name"], value.get("tensor", {}), value.get("by_one_warp", {}))
    limits = Limits(**value["sm"]) if "sm" in value else SM[value["arch"]]
    own = {"second_level": value.get("second_level"), "devices": tuple(value.get("devices", ()))}
    return Machine(**{**figures, **own}, tensor=tensor, limits=limits)


def _machine_here() -> Machine:
    """The machine that the current GPU is.

    Raises:
        DeviceError: there is no GPU. UsageError: it is of no machine that is known.
    """
    from tilegen.backends.system import gpus

    if lacking := gpus.missing():
        raise DeviceError(f"auto is the GPU of this machine, and {lacking.reason}", notes=(_names_note(),))
    name = gpus.current_name()
    found = machine_of_device(name)
    if found is None:
        raise UsageError(f"nothing is known of the ceilings of '{name}'", notes=(_names_note(),))
    return found


def _names_note() -> str:
    return f"the machines are {', '.join(machine_names())}; a file of your own is given by its path"


H200 = stock_machine("h200")
