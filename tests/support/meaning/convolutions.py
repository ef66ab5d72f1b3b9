"""What convolutions mean, tap by tap."""

from __future__ import annotations

from typing import Any

import numpy as np

Inputs = dict[str, Any]


def pad_zeros(x: Any, pad: int, axes: tuple[int, ...]) -> Any:
    return np.pad(x, [(pad, pad) if a in axes else (0, 0) for a in range(x.ndim)])


def conv(x: Any, f: Any, stride: int = 1, dilation: int = 1, pad: int = 0) -> Any:
    """x[n, c, ...], f[k, c, ...] of any number of dimensions, tap by tap."""
    spatial = x.ndim - 2
    x = pad_zeros(x, pad, tuple(range(2, x.ndim)))
    out = [(x.shape[2 + d] - dilation * (f.shape[2 + d] - 1) - 1) // stride + 1 for d in range(spatial)]
    y = np.zeros((x.shape[0], f.shape[0], *out))
    for tap in np.ndindex(*f.shape[2:]):
        window = [
            slice(t * dilation, t * dilation + stride * (o - 1) + 1, stride) for t, o in zip(tap, out, strict=True)
        ]
        y += np.einsum("nc...,kc->nk...", x[(..., *window)], f[(..., *tap)])
    return y


def transposed_3x5(i: Inputs) -> dict[str, Any]:
    image = np.pad(i["X"], ((0, 0), (0, 0), (2, 2), (4, 4)))
    return {"Y": conv(image, i["K"].swapaxes(0, 1)[:, :, ::-1, ::-1])}


def grouped(i: Inputs) -> dict[str, Any]:
    groups = i["X"].shape[1] // 2
    parts = [conv(i["X"][:, 2 * g : 2 * g + 2], i["F"][3 * g : 3 * g + 3], pad=1) for g in range(groups)]
    return {"Y": np.concatenate(parts, axis=1)}


def depthwise(i: Inputs) -> dict[str, Any]:
    channels = [conv(i["X"][:, c : c + 1], i["F"][c][None, None], pad=1) for c in range(i["X"].shape[1])]
    return {"Y": np.concatenate(channels, axis=1)}


def channels_last(i: Inputs, stride: int = 1, dilation: int = 1, pad: int = 1) -> dict[str, Any]:
    y = conv(i["X"].transpose(0, 3, 1, 2), i["K"].transpose(0, 3, 1, 2), stride, dilation, pad)
    return {"Y": y.transpose(0, 2, 3, 1)}


def groups_last(i: Inputs) -> dict[str, Any]:
    parts = [channels_last({"X": i["X"][:, :, :, g], "K": k})["Y"] for g, k in enumerate(i["K"])]
    return {"Y": np.stack(parts, axis=3)}
