"""Rows of 16 bytes for ldmatrix that run along several dimensions: windows of pixels with few channels."""

from dataclasses import replace

import pytest

from tilegen.api import load
from tilegen.errors import IllegalStep
from tilegen.ir.affine import const
from tilegen.ir.facts.row_digits import Digit, digits_of_row
from tilegen.ir.nodes import Access, Buffer
from tilegen.ir.walk import rewrite
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Perform
from tilegen.proof import prove


def shared(*shape, **given):
    return Buffer("S", "f16", tuple(map(const, shape)), "shared", tuple(range(len(shape))), **given)


@pytest.mark.parametrize(
    ("buffer", "digits"),
    [
        (shared(5, 64), {1: Digit(1, 8)}),
        (shared(5, 8), {1: Digit(1, 8)}),
        (shared(5, 6, 4), {2: Digit(1, 4), 1: Digit(4, 2)}),
        (shared(3, 2, 2), {2: Digit(1, 2), 1: Digit(2, 2), 0: Digit(4, 2)}),
        (shared(5, 3), {1: Digit(1, 8)}),  # 8 is no multiple of 3: the row would end inside of another
        (shared(5, 6, 4, pad=4), {2: Digit(1, 8)}),
    ],
)
def test_where_the_elements_of_a_row_lie(buffer, digits):
    assert digits_of_row(buffer, 8) == digits
    shape = [e.const for e in buffer.shape]
    if shape != [5, 3] and not buffer.pad:
        step, strides = 1, {}
        for dim in reversed(buffer.order):
            strides[dim], step = step, step * shape[dim]
        for e in range(8):
            assert sum(e // weight % count * strides[d] for d, (weight, count) in digits.items()) == e


# Pixels of four channels are rows of their own, and ldmatrix reads two of them at once.
WINDOWS = """\
kernel hconv_input(X: f16[B, H, W, C], K: f16[F, R, R, C], C: int = 3, R: int = 7, stride: int = 2, pad: int = 3)
        -> Y: f16[B, (H + 2*pad - R)/stride + 1, (W + 2*pad - R)/stride + 1, F] where R <= 8, C <= 4:
    var KP: f16[R, (F + 63)/64*64, 32]
    KP[r, f, k] = K[f, r, k/4, k%4] else 0
    var P: f32[B, (H + 2*pad - R)/stride + 1, (W + 2*pad - R)/stride + 1, F]
    P[n, y, x, f] = sum[r, k](
        f32(X[n, y*stride + r - pad, x*stride + k/4 - pad, k%4] else 0) * f32(KP[r, f, k])) for f < F
    Y[n, y, x, f] = f16(P[n, y, x, f])

define fuse_rounding() -> n, y, x, f:
    fuse(P.n, Y.n) -> n
    fuse(P.y, Y.y) -> y
    fuse(P.x, Y.x) -> x
    fuse(P.f, Y.f) -> f

schedule windows for hconv_input(TY=8, TX=16, WY=2):
    order(KP.f, KP.r, KP.k)
    bind(KP.f, block.x)
    bind(KP.r, thread.y)
    bind(KP.k, thread.x)
    fuse_rounding() -> n, y, x, f
    tile(y, TY) -> by, ty
    tile(x, TX) -> bx, tx
    tile(f, 64) -> bf, tf
    tile(ty, WY) -> wi, fy
    tile(tx, 16) -> fx, i16
    tile(tf, 16) -> fj, jn
    tile(jn, 8) -> nj, j8
    tile(P.k, 16) -> fk, k16
    order(n, by, bf, bx, wi, P.r, fk, fy, fx, fj, nj, i16, j8, k16)
    grid(n, by, bf)
    bind(wi, thread.z)
    cache_register(P, at=bx) -> Pf
    cache_register(Y, at=bx, vector=2) -> Yf
    cache_shared(Y, at=bx, vector=8) -> Ys
    swizzle(Ys, 8)
    cache_shared(KP, at=bf, vector=8) -> Ks
    swizzle(Ks, 8, 4, 2)
    cache_shared(X, at=bx) -> Xs
    cache_register(Xs, at=fk, repeated=1) -> Xf
    cache_register(Ks, at=fk) -> Kf
    tensorize(i16, j8, k16, by=mma_m16n8k16_f16)
    tensorize(i16, k16, by=ldmatrix_a_f16)
    tensorize(k16, nj, j8, by=ldmatrix_b_f16)
    unroll(fk)
"""


@pytest.mark.parametrize(("stride", "channels"), [(2, 3), (4, 1)])
def test_windows_are_read_where_they_lie(stride, channels):
    tree = load(WINDOWS).schedule("windows", {"stride": stride, "C": channels, "R": 5, "pad": 1}).tree
    assert prove(tree.kernel, lower(tree), tree.reassociated).verdict == "proved"


def test_windows_at_every_pixel_begin_inside_of_16_bytes():
    with pytest.raises(IllegalStep) as caught:
        load(WINDOWS).schedule("windows", {"stride": 1, "R": 8})
    message = str(caught.value)
    assert "the rows of 'Xs' do not begin at multiples of 16 bytes, as 'ldmatrix_a_f16' needs them" in message
    assert "they have 92 elements" in message
    assert "the rows of 4 elements go on in the next ones: a multiple of 2 of them keeps them there" in message


def test_a_row_moved_by_one_pixel_is_no_row():
    """The proof looks for itself: a lane that gives the address of the next pixel gives no multiple of 16 bytes."""
    tree = load(WINDOWS).schedule("windows").tree
    launches = lower(tree)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    moved = tuple(replace(each, body=_moved(each.body)) for each in launches)
    proof = prove(tree.kernel, moved, tree.reassociated)
    refused = {each.name: each.violation for each in proof.obligations if each.violation is not None}
    assert "a row of 'Xs' is not at a multiple of 16 bytes" in str(refused["vectors"])


def _moved(body):
    def change(value):
        if not isinstance(value, Perform) or value.instruction.name != "ldmatrix_a_f16":
            return value

        def next_pixel(access):
            if not isinstance(access, Access) or access.buffer != "Xs":
                return access
            *outer, pixel, channel = access.index
            return replace(access, index=(*outer, pixel + 1, channel))

        return replace(value, operands=tuple(map(next_pixel, value.operands)))

    return rewrite(body, change)
