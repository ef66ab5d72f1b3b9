"""Boxes of windows, as the hardware copies them (TMA's im2col mode).

The hardware sees a tensor of images, whose first dimension counts these and whose last one, the fastest, is that of
channels. A box is of a number of windows, one after another in all images, one place in each, and some channels. It is
given where the first of the windows begins in the tensor, and how far from there the place is, the same for all. After
the last window of a row comes the first of the next one: the map has where these are. What of a place is outside of the
tensor is zero, and so are windows behind the last image.

Theorem: so it copies the box of the windows of X that it is told to, if

- a place in the first dimension of the windows has the digits n, y, x, .., with the last one fastest, one for each
  dimension of X but that of channels; those in between move the windows, `y*step + low`, the others are plain;
- each dimension of the windows in between is of one digit r, which adds `r*inner_step` to one dimension of X;
- the box has one element in each of these, neighbours in the others, and what is read outside of X is zero;
- steps, corners and offsets are numbers that the hardware has room for.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import copysign

from tilegen.ir.affine import const, var
from tilegen.ir.hardware.limits import BOX_STEP_LIMIT, WINDOW_CORNERS
from tilegen.ir.nodes import Buffer
from tilegen.poly.verdict import NoForm


def check_windows(
    view: Buffer, buffers: Mapping[str, Buffer], extents: tuple[int, ...], steps: tuple[int, ...]
) -> None:
    """Refused where `view` shows windows, of which the hardware copies no such box, the fastest dimension first."""
    windows = view.windows
    if windows is None:
        return
    tensor, name = buffers[windows.tensor], view.name
    if any(buffer.order != tuple(range(len(buffer.shape))) for buffer in (view, tensor)):
        raise NoForm(f"'{name}' shows a tensor in another storage order than the hardware takes windows of")
    if len(windows.index) not in WINDOW_CORNERS:
        raise NoForm(f"'{name}' shows a tensor of {len(windows.index)} dimensions, and the hardware takes 3 to 5")
    first, *inner, channel = windows.digits
    moved = windows.moved
    words = str(windows.index[0]), *(each.word for each in moved)
    if tuple(word for word, _ in first) != words:
        way = f"flatten makes one dimension of {', '.join(words)}"
        raise NoForm(f"a place in the first dimension of '{name}' does not tell which window it is of", way=way)
    inside = [each.inner for each in moved if each.inner]
    places = tuple(var(m.word) * m.step + (var(m.inner) * m.inner_step if m.inner else 0) + m.low for m in moved)
    each_one = max(len(group) for group in (*inner, channel)) == 1
    if not each_one or (var(words[0]), *places, var(channel[0][0])) != windows.index:
        raise NoForm(f"'{name}' shows more than images, places in windows, and channels")
    if sorted(word for ((word, _),) in inner) != sorted(inside) or max((*extents[1:-1], *steps)) > 1:
        raise NoForm(f"a bulk copy takes neighbouring windows of '{name}', and one place in them")
    fallback = windows.fallback
    if fallback is not None and (fallback.value != 0 or copysign(1, fallback.value) < 0):
        raise NoForm(f"'{name}' shows {fallback.value} outside of '{tensor.name}', and a bulk copy brings zeros")
    corner, offset = WINDOW_CORNERS[len(windows.index)]
    for each in moved:
        last = windows.extents[each.inner] - 1 if each.inner else const(0)
        far = last.const * each.inner_step if last.is_const else offset + 1
        if not 1 <= each.step <= BOX_STEP_LIMIT or not -corner <= each.low < corner or not 0 <= far <= offset:
            raise NoForm(
                f"windows of '{tensor.name}' are {each.step} apart, from {each.low} on, with places up to {far} from "
                f"there, and the hardware takes {BOX_STEP_LIMIT}, {-corner} and {offset}"
            )
