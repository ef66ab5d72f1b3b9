"""A matrix product from text to result: load, schedule, look, compile, call, compare.

Runs on a GPU with cupy's arrays where there is one, and on the CPU with numpy's.
"""

from __future__ import annotations

import numpy as np

import tilegen
from tilegen.backends.devices import engine
from tilegen.lab.compare import compare


def main() -> None:
    file = tilegen.load("gemm")
    tiled = file.schedule("tiled", TS=16)
    print(tiled.source("cuda"))

    # Any shape is right, multiples of the tile or not.
    device = engine("auto")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in ((100, 70), (70, 90)))
    multiply = tiled.compile()
    c = multiply(device.xp.asarray(a), device.xp.asarray(b))
    c = c.get() if device.on_gpu else c
    print(f"on {device.name}: the largest error is {abs(c - a @ b).max():.2g}")

    # Steps are methods too; each is judged as it is made.
    mine = file.kernel("gemm").schedule()
    mine = mine.tile("i", 16, into=("bi", "ti")).tile("j", 16, into=("bj", "tj")).order("bi", "bj", "ti", "tj")
    mine = mine.bind("bi", "block.y").bind("bj", "block.x").bind("ti", "thread.y").bind("tj", "thread.x")

    result = compare({"mine": mine.tree, "tiled": tiled.tree}, device, {"M": 256, "N": 256, "K": 256})
    for row in result.rows:
        if row.time is not None:
            print(f"{row.name:10} {row.time.median:8.3f} ms  {row.rate:8.4g} {result.unit}")


if __name__ == "__main__":
    main()
