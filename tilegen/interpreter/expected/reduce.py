"""Reductions on (value, error) pairs, fed with parts of the reduced box in order."""

from __future__ import annotations

from math import prod
from typing import Protocol

import numpy as np

from tilegen.interpreter.dtypes import Array
from tilegen.interpreter.expected.rounding import are_integers, error_with_overflow, gamma, holds_integers, tiny
from tilegen.interpreter.expected.uncertain import Pair
from tilegen.ir.nodes import FLOATS, Equation
from tilegen.ir.reductions.initial import init_value

Axes = tuple[int, ...]


class Accumulator(Protocol):
    """A reduction under way."""

    def add(self, value: Array, error: Array, mask: Array | None, axes: Axes, start: int) -> None:
        """Take in a part: reduce `axes` of it where the mask holds; `start` is its first reduced index."""

    def accumulate(self, axis: int, forward: bool) -> None:
        """Let each place along an axis have what all up to it have, or all from it on."""
        raise TypeError(self)

    def result(self) -> Pair:
        """The reduced value and its error."""

    def best(self) -> Pair:
        """The best value itself and its error; the same as `result` but for argmax and argmin."""
        return self.result()


def accumulator(equation: Equation, count: int, shape: tuple[int, ...], share: float = 0.0) -> Accumulator:
    """A fresh accumulator for `count` terms at each point of `shape`; an instruction may lose `share` of a sum."""
    dtype = equation.value.dtype
    assert equation.reduce is not None
    match equation.reduce:
        case "sum" | "only":
            return TermSum(dtype, shape, share)
        case "prod":
            return _Product(count, dtype, shape)
        case "max" | "min":
            return _Extreme(equation.reduce, dtype, shape)
        case "argmax" | "argmin":
            return _Best(equation.reduce, dtype, shape)
        case _:
            raise TypeError(equation.reduce)


def _accumulated(operation: np.ufunc, array: Array, axis: int, forward: bool) -> Array:
    found: Array = operation.accumulate(array if forward else np.flip(array, axis), axis)
    return found if forward else np.flip(found, axis)


def _zeros(dtype: str, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, np.float64 if dtype in FLOATS else np.int64)


class TermSum(Accumulator):
    """Within the terms' own errors and gamma_n times the sum of magnitudes, in any order, for n terms that are not 0.

    Infinities and nan among the terms decide it; nothing is known of it where some order may overflow. An instruction
    may lose `share` of what `add_magnitudes` is given.
    """

    def __init__(self, dtype: str, shape: tuple[int, ...], share: float = 0.0) -> None:
        self.dtype = dtype
        self.share = share
        self.count = np.zeros(shape)
        self.integers = True
        self.magnitudes = np.zeros(shape)
        self.total = _zeros(dtype, shape)
        self.special = np.zeros(shape)
        self.size = np.zeros(shape)
        self.error = np.zeros(shape)

    def add(self, value: Array, error: Array, mask: Array | None, axes: Axes, start: int) -> None:
        if mask is not None:
            value, error = np.where(mask, value, 0), np.where(mask, error, 0.0)
        if self.dtype in FLOATS:
            finite = np.isfinite(value)
            if not finite.all():
                self.special += np.where(finite, 0.0, value).sum(axis=axes)
                value = np.where(finite, value, 0.0)
            self.size += np.abs(value).sum(axis=axes)
            self.count += ((value != 0) | (error != 0)).sum(axis=axes)
            self.integers = self.integers and are_integers(value, error)
        self.total += value.sum(axis=axes)
        self.error += error.sum(axis=axes)

    def add_at(self, index: tuple[Array, ...], value: Array, error: Array) -> None:
        """Take in a list of terms, each at a place of its own."""
        if self.dtype in FLOATS:
            finite = np.isfinite(value)
            np.add.at(self.special, index, np.where(finite, 0.0, value))
            value = np.where(finite, value, 0.0)
            np.add.at(self.size, index, np.abs(value))
            np.add.at(self.count, index, (value != 0) | (error != 0))
            self.integers = self.integers and are_integers(value, error)
        np.add.at(self.total, index, value)
        np.add.at(self.error, index, error)

    def add_magnitudes(self, magnitudes: Array, mask: Array | None, axes: Axes) -> None:
        """Take in what each term of a part counts for an instruction."""
        self.magnitudes += (magnitudes if mask is None else np.where(mask, magnitudes, 0.0)).sum(axis=axes)

    def accumulate(self, axis: int, forward: bool) -> None:
        for name in ("count", "total", "special", "size", "error"):
            setattr(self, name, _accumulated(np.add, getattr(self, name), axis, forward))

    def result(self) -> Pair:
        if self.dtype not in FLOATS:
            return _wrap_result(self.total, self.error)
        size = self.size + self.error
        sure, least = self.integers & holds_integers(size, self.dtype), self.count * tiny(self.dtype)
        rounded, lost = (np.where(sure, 0.0, each) for each in (gamma(self.count, self.dtype) * size, least))
        rounded = np.maximum(rounded, self.share * self.magnitudes)
        error = error_with_overflow(size, self.error + rounded + lost, self.dtype)
        return np.where(self.special == 0, self.total, self.special), error


class _Product(Accumulator):
    """The product of the largest magnitudes that the factors may have bounds what any order can give.

    Nothing is known of it where the factors that are not less than 1 together may be too large, or one is infinite.
    """

    def __init__(self, count: int, dtype: str, shape: tuple[int, ...]) -> None:
        self.count = count
        self.dtype = dtype
        self.total = _zeros(dtype, shape) + 1
        self.most = np.ones(shape)
        self.large = np.ones(shape)
        self.error = np.zeros(shape)

    def add(self, value: Array, error: Array, mask: Array | None, axes: Axes, start: int) -> None:
        if mask is not None:
            value, error = np.where(mask, value, 1), np.where(mask, error, 0.0)
        self.total *= value.prod(axis=axes)
        self.error += error.sum(axis=axes)
        if self.dtype in FLOATS:
            size = np.abs(value) + error
            self.most *= size.prod(axis=axes)
            self.large *= np.maximum(size, 1.0).prod(axis=axes)

    def accumulate(self, axis: int, forward: bool) -> None:
        for name in ("total", "most", "large"):
            setattr(self, name, _accumulated(np.multiply, getattr(self, name), axis, forward))
        self.error = _accumulated(np.add, self.error, axis, forward)

    def result(self) -> Pair:
        if self.dtype not in FLOATS:
            return _wrap_result(self.total, self.error)
        gone = np.where(self.most > 0, self.count * tiny(self.dtype) * self.large, 0.0)
        most = np.where(self.most > 0, self.most * (1 + gamma(self.count, self.dtype)), 0.0)
        error = most - np.abs(self.total) + gone
        error = np.where(np.isfinite(error_with_overflow(self.large, self.large, self.dtype)), error, np.inf)
        nan = np.isnan(self.total) & np.isfinite(self.error) & np.isnan(self.large)
        return self.total, np.where(nan, 0.0, np.where(np.isfinite(error) & np.isfinite(self.error), error, np.inf))


def _wrap_result(total: Array, error: Array) -> Pair:
    """A result of integers, of which nothing is known where some were not sure: it may have wrapped."""
    return total, np.where(error > 0, np.inf, 0.0)


class _Extreme(Accumulator):
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

    def accumulate(self, axis: int, forward: bool) -> None:
        self.value = _accumulated(self.choose, self.value, axis, forward)
        self.error = _accumulated(np.maximum, self.error, axis, forward)

    def result(self) -> Pair:
        return self.value, self.error


class _Best(Accumulator):
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
