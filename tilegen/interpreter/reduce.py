"""Reductions on (value, error) pairs, fed with parts of the reduced box in order."""

from __future__ import annotations

from math import prod
from typing import Protocol

import numpy as np

from tilegen.interpreter.dtypes import Array
from tilegen.interpreter.rounding import Pair, gamma
from tilegen.ir.nodes import FLOATS, Equation, init_value

Axes = tuple[int, ...]


class Accumulator(Protocol):
    """A reduction under way."""

    def add(self, value: Array, error: Array, mask: Array | None, axes: Axes, start: int) -> None:
        """Take in a part: reduce `axes` of it where the mask holds; `start` is its first reduced index."""

    def result(self) -> Pair:
        """The reduced value and its error."""

    def best(self) -> Pair:
        """The best value itself and its error; the same as `result` but for argmax and argmin."""


def accumulator(equation: Equation, count: int, shape: tuple[int, ...]) -> Accumulator:
    """A fresh accumulator for `count` terms at each point of `shape`."""
    dtype = equation.value.dtype
    assert equation.reduce is not None
    match equation.reduce:
        case "sum":
            return _Sum(count, dtype, shape)
        case "prod":
            return _Product(count, dtype, shape)
        case "max" | "min":
            return _Extreme(equation.reduce, dtype, shape)
        case "argmax" | "argmin":
            return _Best(equation.reduce, dtype, shape)
        case _:
            raise TypeError(equation.reduce)


def _zeros(dtype: str, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, np.float64 if dtype in FLOATS else np.int64)


class _Sum:
    """Within the terms' own errors and gamma_n times the sum of magnitudes, in any order."""

    def __init__(self, count: int, dtype: str, shape: tuple[int, ...]) -> None:
        self.gamma = gamma(count, dtype)
        self.dtype = dtype
        self.total = _zeros(dtype, shape)
        self.size = np.zeros(shape)
        self.error = np.zeros(shape)

    def add(self, value: Array, error: Array, mask: Array | None, axes: Axes, start: int) -> None:
        if mask is not None:
            value, error = np.where(mask, value, 0), np.where(mask, error, 0.0)
        self.total += value.sum(axis=axes)
        if self.dtype in FLOATS:
            self.size += np.abs(value).sum(axis=axes)
            self.error += error.sum(axis=axes)

    def result(self) -> Pair:
        return self.total, self.error + self.gamma * (self.size + self.error)

    def best(self) -> Pair:
        return self.result()


class _Product:
    """The product of the largest magnitudes that the factors may have bounds what any order can give."""

    def __init__(self, count: int, dtype: str, shape: tuple[int, ...]) -> None:
        self.gamma = gamma(count, dtype)
        self.dtype = dtype
        self.total = _zeros(dtype, shape) + 1
        self.most = np.ones(shape)

    def add(self, value: Array, error: Array, mask: Array | None, axes: Axes, start: int) -> None:
        if mask is not None:
            value, error = np.where(mask, value, 1), np.where(mask, error, 0.0)
        self.total *= value.prod(axis=axes)
        if self.dtype in FLOATS:
            self.most *= (np.abs(value) + error).prod(axis=axes)

    def result(self) -> Pair:
        if self.dtype not in FLOATS:
            return self.total, np.zeros(())
        return self.total, self.most * (1 + self.gamma) - np.abs(self.total)

    def best(self) -> Pair:
        return self.result()


class _Extreme:
    """An extreme value is no less sure than the least sure of the values it is taken from."""

    def __init__(self, word: str, dtype: str, shape: tuple[int, ...]) -> None:
        self.choose = np.fmax if word == "max" else np.fmin
        self.neutral = init_value(word, dtype).value
        self.value = np.full(shape, self.neutral, np.float64 if dtype in FLOATS else np.int64)
        self.error = np.zeros(shape)

    def add(self, value: Array, error: Array, mask: Array | None, axes: Axes, start: int) -> None:
        if mask is not None:
            value, error = np.where(mask, value, self.neutral), np.where(mask, error, 0.0)
        self.value = self.choose(self.value, self.choose.reduce(value, axis=axes, initial=self.neutral))
        self.error = np.maximum(self.error, error.max(axis=axes, initial=0.0))

    def result(self) -> Pair:
        return self.value, self.error

    def best(self) -> Pair:
        return self.result()


class _Best:
    """The place of the first best value, -1 in an empty range; its error is inf where another value may be the best.

    Where no value is better than the start, all of them being nan or as bad as can be, it is the first place.
    """

    def __init__(self, word: str, dtype: str, shape: tuple[int, ...]) -> None:
        self.most = word == "argmax"
        self.neutral = init_value(word, dtype).value
        self.index = np.full(shape, -1, np.int64)
        self.index_error = np.zeros(shape)
        self.value = np.full(shape, self.neutral, np.float64 if dtype in FLOATS else np.int64)
        self.error = np.zeros(shape)

    def add(self, value: Array, error: Array, mask: Array | None, axes: Axes, start: int) -> None:
        """All values at once: called with the whole reduced range, its places counted with the last axis fastest."""
        axis, whole = axes[0], (*value.shape[: axes[0]], prod(value.shape[axes[0] :]))
        value, error = value.reshape(whole), error.reshape(whole)
        mask = None if mask is None else mask.reshape(whole)
        if value.shape[axis] == 0:
            return
        there = np.broadcast_to(True if mask is None else mask, value.shape)
        error = np.where(there, error, 0.0)
        score = np.where(np.isnan(value) | ~there, self.neutral, value)
        place = np.expand_dims(score.argmax(axis=axis) if self.most else score.argmin(axis=axis), axis)
        top = np.take_along_axis(score, place, axis)
        place = np.where(top == self.neutral, np.expand_dims(there.argmax(axis=axis), axis), place)
        self.index = np.where(there.any(axis=axis), place.squeeze(axis) + start, -1)
        slack = np.take_along_axis(error, place, axis)
        behind = score + error - top + slack if self.most else top + slack - score + error
        rivals = (there & ((behind >= 0) | np.isinf(error)) & ((error > 0) | (slack > 0))).sum(axis=axis)
        self.index_error = np.where((rivals > 1) | np.isinf(slack.squeeze(axis)), np.inf, 0.0)
        self.value = top.squeeze(axis)
        self.error = error.max(axis=axis)

    def result(self) -> Pair:
        return self.index, self.index_error

    def best(self) -> Pair:
        return self.value, self.error
