"""A matrix product from text to result: load, schedule, look, compile, call, compare.

Runs on a GPU with cupy's arrays where there is one, and on the CPU with numpy's.
"""

from __future__ import annotations

import numpy as np

import tilegen


def main() -> None:
    file = tilegen.load("gemm")
    tiled = file.schedule("tiled", TS=16)
    print(tiled.source("cuda"))

    # Any shape is right, multiples of the tile or not.
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in ((100, 70), (70, 90)))
    multiply = tiled.compile()
    xp = multiply.xp  # cupy or numpy
    c = multiply(xp.asarray(a), xp.asarray(b))
    c = c.get() if multiply.on_gpu else c
    print(f"on {multiply.device}: the largest error is {abs(c - a @ b).max():.2g}")

    # Steps are methods too; each is judged as it is made.
    mine = file.kernel("gemm").schedule()
    mine = mine.tile("i", 16, into=("bi", "ti")).tile("j", 16, into=("bj", "tj")).order("bi", "bj", "ti", "tj")
    mine = mine.bind("bi", "block.y").bind("bj", "block.x").bind("ti", "thread.y").bind("tj", "thread.x")

    print(mine.compare(tiled, M=256, N=256, K=256))


if __name__ == "__main__":
    main()
