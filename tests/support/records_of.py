"""Records and ladders of made-up runs, as the commands write them."""

from __future__ import annotations

from tilegen.lab.records.records import Device, RunRecord

H200 = Device("NVIDIA H200", True, "sm_90")


def record(name: str, milliseconds: float, sizes: int | dict[str, int] = 4096, **others) -> RunRecord:
    """A record of three samples around `milliseconds`."""
    values = sizes if isinstance(sizes, dict) else {"M": sizes, "N": sizes, "K": sizes}
    work = 2.0
    for value in values.values():
        work *= value
    given = {
        "outcome": "measured",
        "proof": "proved",
        "schedule": name.split()[0],
        "device": H200,
        "samples": (milliseconds * 0.98, milliseconds, milliseconds * 1.02),
        "rate": work / max(milliseconds, 1e-9) / 1e9,
        "unit": "TFLOP/s",
    }
    return RunRecord(name, "gemm", sizes=values, **{**given, **others})


def rung(step: str | None, predicted: float | None, milliseconds: float | None = None, **others) -> dict:
    """A rung as `tilegen ladder --json` writes it."""
    launches = [{"prediction": {"milliseconds": predicted}}] if predicted else []
    time = milliseconds and {"median": milliseconds, "p20": 0.9 * milliseconds, "p80": 1.1 * milliseconds, "samples": 9}
    told = {"step": step, "launches": launches, "same": False, "error": None, "untimed": None}
    return {**told, "time": time, **others}


def ladder(*rungs: dict, **others) -> dict:
    """What `tilegen ladder --json` writes."""
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    told = {"kernel": "gemm", "schedule": "tiled", "sizes": sizes, "device": "NVIDIA H200", "on_gpu": True}
    return {**told, "rungs": list(rungs), "rival": None, "rival_time": None, **others}
