"""Each step of the language as a method. Generated: pytest --update-golden tests/70_cli/test_methods.py writes it."""

import collections.abc
from types import EllipsisType
from typing import Self

class Steps:
    def atomic(self, reduction: str) -> Self:
        """atomic(C)

        Update the result of a reduction atomically: blocks and threads that run at once may add to one element.

        kernel:
            kernel dot(x: f32[K], y: f32[K, N]) -> z: f32[N]:
                z[i] = sum[k](x[k] * y[k, i])
        before:
            for i < N
              z[i] = 0
              for k < K
                z[i] += x[k] * y[k, i]
        steps:
            reassociate(z)
            atomic(z)
        after:
            for z.init.i < N
              z[z.init.i] = 0
            for i < N
              for k < K
                atomic z[i] += x[k] * y[k, i]

        The result starts in a launch of its own, ahead, so that it is there for all that update it. What comes at
        once comes in any order, which reassociate allows. There are atomic sums of f32, f64 and i32, and the max and
        min of i32. Few updates are better than many: rfactor makes parts, each of which one block or thread reduces by
        itself and adds when it is done.
        """

    def bind(self, loop: str, to: str) -> Self:
        """bind(bi, block.y)

        Run the iterations of a loop on the blocks of the grid or the threads of a block.

        kernel:
            kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
                C[i] = A[i] + B[i]
        before:
            for b < (N + 255)/256
              for t < 256
                C[b*256 + t] = A[b*256 + t] + B[b*256 + t]  if b*256 + t < N
        steps:
            tile(i, 256) -> b, t
            bind(t, thread.x)
        after:
            for b < (N + 255)/256
              for t < 256  thread.x
                C[b*256 + t] = A[b*256 + t] + B[b*256 + t]  if b*256 + t < N

        A loop of 2, 4, 8, 16 or 32 iterations around a reduction whose target does not depend on it can be bound to
        thread.x where the terms may be combined in any order: its iterations are lanes of a warp, which exchange
        their terms by shuffles. A target in registers is then there in each lane.
        """

    def bind_warps(self, block: str | int, warp: str | int, lane: str | int) -> Self:
        """bind_warps(block, warp, lane)

        Bind a loop over blocks, one over the warps of a block, and one over the lanes of a warp.

        stands for:
            bind(block, block.x)
            bind(warp, thread.y)
            bind(lane, thread.x)
        """

    def blocks(self, loop: str | int, size: str | int, *, into: tuple[str, str] | list[str]) -> Self:
        """blocks(loop, size) -> block, thread

        Cut a loop into blocks of `size` threads along x, as in most element-wise kernels.

        stands for:
            tile(loop, size) -> block, thread
            bind(block, block.x)
            bind(thread, thread.x)
        """

    def bulk(self, buffer: str) -> Self:
        """bulk(A.shared)

        Fill or store a shared buffer by bulk copies of the tensor memory accelerator (TMA): one thread starts them.

        kernel:
            kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
                Y[j, i] = X[i, j]
        before:
            for bi < (M + 31)/32
              for bj < (N + 31)/32
                for X.shared.i < 32  cooperative
                  for X.shared.j < 32  cooperative
                    X.shared[X.shared.i, X.shared.j] = X[bi*32 + X.shared.i, bj*32 + X.shared.j]  if bi*32 + X.shared.i < M and bj*32 + X.shared.j < N
        steps:
            tile(i, 32) -> bi, ti
            tile(j, 32) -> bj, tj
            order(bi, bj, tj, ti)
            cache_shared(X, at=bj)
            bulk(X.shared)
        after:
            for bi < (M + 31)/32
              for bj < (N + 31)/32
                for X.shared.i < 32  bulk
                  for X.shared.j < 32  bulk
                    X.shared[X.shared.i, X.shared.j] = X[bi*32 + X.shared.i, bj*32 + X.shared.j]  if bi*32 + X.shared.i < M and bj*32 + X.shared.j < N

        The copying loops have to be a box of the tensor whose elements lie one behind another in the buffer, with no swizzle
        or one that the hardware has: 16-byte units, 8 of them in rows of 128 bytes (4 every 2 rows of 64, 2 every 4 of 32).
        Rows of the box are no longer than those; `cache_shared(..., panel=64)` cuts longer ones. What is beyond the tensor
        arrives as zeros. All threads wait for the bytes to arrive, at a barrier in shared memory (mbarrier). The text needs
        sm_90 or later; where the tensor's rows are no multiple of 16 bytes, all threads copy as before.

        A buffer that is written back goes to its tensor in the same boxes: one thread starts them when all have written it,
        and waits until they have been read, before it is overwritten or the block ends. What is beyond the tensor is not
        written. Nothing else in the launch may touch the tensor, for nobody knows when it is written.
        """

    def cache_best(self, place: str | int, value: str | int, at: str | int) -> Self:
        """cache_best(place, value, at)

        Keep what an argmin or argmax has found in registers during one iteration of `at`: the place of the best and its
        value.

        stands for:
            cache_register(place, at=at)
            cache_register(value, at=at)
        """

    def cache_global(self, buffer: str, layout: collections.abc.Sequence[str | collections.abc.Sequence[str]], tiles: collections.abc.Sequence[int] = (), *, into: collections.abc.Sequence[str] = ()) -> Self:
        """cache_global(B, layout=[j, k], tiles=[32, 32])

        Store an input, or an intermediate tensor, in another order in global memory, by a launch of its own.

        kernel:
            kernel gemv(A: f32[M, K], x: f32[K]) -> y: f32[M]:
                y[i] = sum[k](A[i, k] * x[k])
        before:
            for i < M
              y[i] = 0
              for k < K
                y[i] += A[i, k] * x[k]
        steps:
            cache_global(A, layout=[k, i])
        after:
            for A.global.i < M
              for A.global.k < K
                A.global[A.global.i, A.global.k] = A[A.global.i, A.global.k]
            for i < M
              y[i] = 0
              for k < K
                y[i] += A.global[i, k] * x[k]

        The loops of the copy are ordinary loops, to be tiled and bound like any others. Dimensions in brackets of
        their own become one: layout=[[c, r, s], f] stores a matrix, with the rows c*9 + r*3 + s for 3 x 3 filters.
        With `tiles`, a number for each dimension of the layout, each is made as long as so many of them as hold it,
        and what is beyond the tensor is zero: then tiles of the copy are whole, and its rows aligned.
        An intermediate tensor is not copied: it is computed in this order, and for whole tiles, by the nest that it has.
        """

    def cache_operands(self, left: str | int, right: str | int, at: str | int) -> Self:
        """cache_operands(left, right, at)

        Load both operands of a product to registers in each iteration of `at`, as vectors, and unroll that loop.

        stands for:
            cache_register(left, at=at, vector=4)
            cache_register(right, at=at, vector=4)
            unroll(at)
        """

    def cache_partials(self, reduction: str | int, warps: str | int, lanes: str | int, at: str | int, warp: str | int) -> Self:
        """cache_partials(reduction, warps, lanes, at, warp)

        Keep a reduction in two levels on the chip during one iteration of `at`: `lanes`, the partial results of the lanes,
        and `reduction`, the result, in registers; `warps`, those of the warps, in shared memory, where all warps read them.
        `warp` is the loop over warps, in which each has its partial result in a register.

        stands for:
            cache_register(lanes, at=at)
            cache_register(warps, at=warp)
            cache_shared(warps, at=at)
            cache_register(reduction, at=at)
        """

    def cache_register(self, buffer: str, at: str, using: collections.abc.Sequence[str] = (), vector: int = 1, repeated: int = 0, *, into: collections.abc.Sequence[str] = ()) -> Self:
        """cache_register(C, at=bj)

        Keep what a thread uses of a buffer during one iteration of `at` in its registers.

        kernel:
            kernel gemv(A: f32[M, K], x: f32[K]) -> y: f32[M]:
                y[i] = sum[k](A[i, k] * x[k])
        before:
            for b < (M + 255)/256  block.x
              for t < 256  thread.x
                y[b*256 + t] = 0  if b*256 + t < M
                for k < K
                  y[b*256 + t] += A[b*256 + t, k] * x[k]  if b*256 + t < M
        steps:
            tile(i, 256) -> b, t
            bind(b, block.x)
            bind(t, thread.x)
            cache_register(y, at=t)
        after:
            for b < (M + 255)/256  block.x
              for t < 256  thread.x
                y.reg[] = 0  if b*256 + t < M
                for k < K
                  y.reg[] += A[b*256 + t, k] * x[k]  if b*256 + t < M
                y[b*256 + t] = y.reg[]  if b*256 + t < M

        The registers are indexed by the loops inside `at` that the uses depend on, thread loops included:
        each thread has its own. Uses at several places of the buffer (a stencil) share a small box instead, and so do
        iterations that meet in elements (the windows of a convolution), unless `repeated=1` gives each iteration registers
        of its own: the fragments of an instruction hold each window by itself.
        With `using`, only the uses whose index depends on one of these loops are meant; with `vector`, the
        innermost of the copying loops moves that many elements at once. The copy is called `<buffer>.reg`, or as the
        name behind `->` says.
        """

    def cache_shared(self, buffer: str, at: str, layout: collections.abc.Sequence[str] | None = None, vector: int = 1, panel: int = 0, using: collections.abc.Sequence[str] = (), *, into: collections.abc.Sequence[str] = ()) -> Self:
        """cache_shared(A, at=ko, layout=[k, i], vector=4)

        Keep the part of a buffer that one iteration of `at` uses in shared memory.

        kernel:
            kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
                Y[j, i] = X[i, j]
        before:
            for bi < (M + 31)/32
              for bj < (N + 31)/32
                for tj < 32
                  for ti < 32
                    Y[bj*32 + tj, bi*32 + ti] = X[bi*32 + ti, bj*32 + tj]  if bi*32 + ti < M and bj*32 + tj < N
        steps:
            tile(i, 32) -> bi, ti
            tile(j, 32) -> bj, tj
            order(bi, bj, tj, ti)
            cache_shared(X, at=bj)
        after:
            for bi < (M + 31)/32
              for bj < (N + 31)/32
                for X.shared.i < 32  cooperative
                  for X.shared.j < 32  cooperative
                    X.shared[X.shared.i, X.shared.j] = X[bi*32 + X.shared.i, bj*32 + X.shared.j]  if bi*32 + X.shared.i < M and bj*32 + X.shared.j < N
                for tj < 32
                  for ti < 32
                    Y[bj*32 + tj, bi*32 + ti] = X.shared[ti, tj]  if bi*32 + ti < M and bj*32 + tj < N

        All threads of the block share the copying: ahead of the first use, and behind the last where something is written,
        so that registers of C leave through shared memory where `cache_shared(C, ...)` follows `cache_register(C, ...)`.
        `layout` lists the dimensions from the slowest to the fastest in shared memory, by their index words or numbers;
        `vector` elements are copied at once.
        With `panel=64`, rows are stored in panels, 64 elements of each row: the first dimension of the copy counts them.
        With `using`, only the uses whose index depends on one of these loops are meant. The copy is called
        `<buffer>.shared`, or as the name behind `->` says: two copies of one tensor need two names.
        An intermediate that is used nowhere else moves to shared memory and is not copied at all.
        """

    def coarsen(self, loop: str | int, factor: str | int, *, into: tuple[str, str] | list[str]) -> Self:
        """coarsen(loop, factor) -> outer, inner

        Give each thread `factor` iterations, a stride apart: iteration w of thread t is t + w * (threads).
        Neighbouring threads keep touching neighbouring elements.

        stands for:
            tile(loop, parts=factor) -> inner, outer
            order(..., inner)
            unroll(inner)
        """

    def coarsen_blocked(self, loop: str | int, factor: str | int, *, into: tuple[str, str] | list[str]) -> Self:
        """coarsen_blocked(loop, factor) -> outer, inner

        Give each thread `factor` iterations in a row: iteration w of thread t is t * factor + w.

        stands for:
            tile(loop, factor) -> outer, inner
            order(..., inner)
            unroll(inner)
        """

    def collapse(self, outer: str, inner: str, *, into: str) -> Self:
        """collapse(li, lj) -> lane

        Make one loop of two that are directly nested: the inner one's place varies fastest.

        kernel:
            kernel copy(X: f32[M, N]) -> Y: f32[M, N]:
                Y[i, j] = X[i, j]
        before:
            for bi < (M + 3)/4
              for bj < (N + 7)/8
                for li < 4
                  for lj < 8
                    Y[bi*4 + li, bj*8 + lj] = X[bi*4 + li, bj*8 + lj]  if bi*4 + li < M and bj*8 + lj < N
        steps:
            tile(i, 4) -> bi, li
            tile(j, 8) -> bj, lj
            order(bi, bj, li, lj)
            collapse(li, lj) -> lane
        after:
            for bi < (M + 3)/4
              for bj < (N + 7)/8
                for lane < 32
                  Y[bi*4 + lane/8, bj*8 + lane%8] = X[bi*4 + lane/8, bj*8 + lane%8]  if bi*4 + lane/8 < M and bj*8 + lane%8 < N

        The inner one has a constant extent. This is how the 32 lanes of a warp are laid out over two dimensions.
        """

    def compute_at(self, tensor: str, at: str) -> Self:
        """compute_at(P, at=bi)

        Compute an intermediate tensor in each iteration of `at`, as much of it as that iteration reads.

        kernel:
            kernel ends(X: f32[N + 2]) -> Y: f32[N]:
                var d: f32[N + 1]
                d[i] = X[i + 1] - X[i]
                Y[i] = d[i + 1] - d[i]
        before:
            for d.i < N + 1
              d[d.i] = X[d.i + 1] - X[d.i]
            for b < (N + 3)/4
              for t < 4
                Y[b*4 + t] = d[b*4 + t + 1] - d[b*4 + t]  if b*4 + t < N
        steps:
            tile(Y.i, 4) -> b, t
            compute_at(d, at=b)
        after:
            for b < (N + 3)/4
              for d.i < 5
                d[b, d.i] = X[b*4 + d.i + 1] - X[b*4 + d.i]  if b*4 + d.i <= N
              for t < 4
                Y[b*4 + t] = d[b, t + 1] - d[b, t]  if b*4 + t < N

        What several iterations read is computed in each of them. The tensor has a dimension more for `at` and for
        each loop around it, and is used in one iteration of these alone: it can live in shared memory or registers
        now, and be tiled and bound like anything else. The nest that it was made in is gone. Where reads outside of the
        tensor give what stands behind 'else', that is what is computed there.
        """

    def copy_rows(self, row: str | int, column: str | int, *, into: tuple[str, str, str, str] | list[str]) -> Self:
        """copy_rows(row, column) -> rows, r, columns, c

        Copy a matrix by a launch of its own: neighbouring threads copy neighbours, and each has four rows in flight.

        stands for:
            tile(row, 4) -> rows, r
            tile(column, 256) -> columns, c
            order(rows, columns, c, r)
            bind(rows, block.y)
            bind(columns, block.x)
            bind(c, thread.x)
            unroll(r)
        """

    def dependent_launch(self) -> Self:
        """dependent_launch()

        Let each launch begin while the one before it still runs: it waits for that before it touches global memory.

        kernel:
            kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
                C[i] = A[i] + B[i]
        before:
            for i < N
        steps:
            dependent_launch()
        after:
            launches overlap

        A block is launched as soon as there is room for it, starts its barriers and then waits until all launches before
        it on the stream are complete, those of other kernels included. That pays where launches are short. It is the
        programmatic dependent launch of sm_90 and later, and the host has to ask for it: the text says how.
        """

    def fast_math(self, *functions: str) -> Self:
        """fast_math(sin, log)

        Allow these functions to be approximated by the hardware, in f32 and shorter types.

        kernel:
            kernel wave(a: f32[N]) -> b: f32[N]:
                b[i] = sin(a[i]) / sqrt(a[i])
        before:
            for i < N
              b[i] = sin(a[i]) / sqrt(a[i])
        steps:
            fast_math(sin, divide)
        after:
            approximate /, sin
            for i < N
              b[i] = sin(a[i]) / sqrt(a[i])

        The kernel means what it meant, and is checked against the exact functions, within the wider bound that is
        documented for the approximations; outside the range for which one is documented (beyond -pi .. pi for sin
        and cos, at subnormal numbers for most others) a check claims nothing, and says for how many elements.
        CUDA text calls the intrinsics. OpenCL leaves the error of its native functions open, so there the
        accurate ones stay. `divide` is the word for /.
        """

    def fuse(self, *loops: str, into: str) -> Self:
        """fuse(c.i, d.i, out.i) -> i

        Run the bodies of loops that follow one another, of the same extent, in one loop.

        kernel:
            kernel pair(a: f32[N]) -> c: f32[N], d: f32[N]:
                c[i] = sin(a[i])
                d[i] = log(a[i])
        before:
            for c.i < N
              c[c.i] = sin(a[c.i])
            for d.i < N
              d[d.i] = log(a[d.i])
        steps:
            fuse(c.i, d.i) -> i
        after:
            for i < N
              c[i] = sin(a[i])
              d[i] = log(a[i])

        Outermost loops are kernel launches, so fusing them makes one launch of several. What stands between
        the loops goes in front of the fused one.
        """

    def fuse_combination(self, ckp: str | int, ci: str | int, cj: str | int, kp: str | int, i: str | int, j: str | int, k: str | int) -> Self:
        """fuse_combination(ckp, ci, cj, kp, i, j, k)

        Combine the parts of a matrix in the loops that compute them: each part is added as soon as its sum over `k` is done.
        `kp`, `i`, `j` are the loops of the parts, `ckp`, `ci`, `cj` those of the combination.

        stands for:
            order(ckp, ci, cj)
            order(kp, i, j, k)
            fuse(kp, ckp) -> kp
            fuse(i, ci) -> i
            fuse(j, cj) -> j
        """

    def grid(self, z: str | int, y: str | int, x: str | int) -> Self:
        """grid(z, y, x)

        Bind three loops to the blocks of a grid.

        stands for:
            bind(z, block.z)
            bind(y, block.y)
            bind(x, block.x)
        """

    def grouped_blocks(self, rows: str | int, columns: str | int, size: str | int, *, into: tuple[str, str] | list[str]) -> Self:
        """grouped_blocks(rows, columns, size) -> group, row

        Run the tiles of a matrix as blocks, `size` rows of tiles at a time, column by column: blocks that run at the same
        time read few different rows and columns, and the L2 cache has most of them. (The fp32 product of 8192 on an H200
        waits for its arithmetic: it takes the same time in groups of 2, 8 and 32.)

        stands for:
            tile(rows, size) -> group, row
            order(group, columns, row, ...)
            bind(group, block.z)
            bind(columns, block.y)
            bind(row, block.x)
        """

    def multicast(self, buffer: str, loop: str) -> Self:
        """multicast(B.shared, ci)

        Let the blocks of a cluster share the bulk copies that are the same for all of them.

        kernel:
            kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
                C[i, j] = sum[k](A[i, k] * B[k, j])
        before:
            for B.shared.k < 8  bulk
        steps:
            tile(i, 16) -> bi, ti
            tile(bi, 2) -> bi, ci
            tile(j, 32) -> bj, tj
            tile(k, 8) -> ko, ki
            order(bi, ci, bj, ko, ti, tj, ki)
            bind(bi, block.y)
            bind(ci, block.y)
            bind(bj, block.x)
            bind(ti, thread.y)
            bind(tj, thread.x)
            cache_shared(B, at=ko)
            bulk(B.shared)
            pipeline(ko, 3)
            specialize(ko)
            multicast(B.shared, ci)
        after:
            for B.shared.k < 8  bulk  multicast to ci

        Blocks that are the iterations of `ci`, at most 8 of them, run at once and reach each other's shared memory: they
        are a cluster. Each copies its share of the buffer from global memory, once, to all of them, when all of them have
        read what lay there before. So what they all read passes the L2 once for all. The loop is the last one of its axis
        of the grid, beside others where its dimension has more blocks. The text needs sm_90 or later; where bulk copies
        cannot be made, each block copies for itself.
        """

    def order(self, *loops: str | EllipsisType) -> Self:
        """order(bi, bj, ko, ti, tj, ki)

        Nest loops in the given order, outermost first; `...` stands for all others, as they are.

        kernel:
            kernel gemv(A: f32[M, K], x: f32[K]) -> y: f32[M]:
                y[i] = sum[k](A[i, k] * x[k])
        before:
            for i < M
              y[i] = 0
              for k < K
                y[i] += A[i, k] * x[k]
        steps:
            order(k, i)
        after:
            for i < M
              y[i] = 0
            for k < K
              for i < M
                y[i] += A[i, k] * x[k]

        A loop that has to go inside a loop which holds other statements too is distributed over them.
        """

    def pad(self, buffer: str, by: int) -> Self:
        """pad(A.shared, 4)

        Lengthen the rows of a shared buffer by `by` unused elements, so that a column meets more banks.

        kernel:
            kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
                Y[j, i] = X[i, j]
        before:
            shared X.shared: f32[32, 32]  copy of X, in bj
        steps:
            tile(i, 32) -> bi, ti
            tile(j, 32) -> bj, tj
            order(bi, bj, ti, tj)
            cache_shared(X, at=bj)
            pad(X.shared, 1)
        after:
            shared X.shared: f32[32, 32] pad 1  copy of X, in bj
        """

    def peel(self, loop: str) -> Self:
        """peel(ko)

        Write the last iteration of a pipelined loop by itself, behind the loop.

        kernel:
            kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
                C[i, j] = sum[k](A[i, k] * B[k, j])
        before:
            for ko < (K + 7)/8  2 stages
        steps:
            tile(i, 16) -> bi, ti
            tile(k, 8) -> ko, ki
            order(bi, j, ko, ti, ki)
            cache_shared(A, at=ko)
            pipeline(ko, 2)
            peel(ko)
        after:
            for ko < (K + 7)/8  2 stages  peeled

        The meaning of the loop does not change. A pipelined loop needs no test for a next iteration then, and the compiler
        can leave the loop's results in other registers than those that the stores behind it want.
        """

    def pipeline(self, loop: str, stages: int, across: str | None = None) -> Self:
        """pipeline(ko, 3), pipeline(ki, 2, across=ko)

        Copy ahead of use: `stages` - 1 iterations before, while earlier ones compute.

        kernel:
            kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
                C[i, j] = sum[k](A[i, k] * B[k, j])
        before:
            for ko < (K + 7)/8
        steps:
            tile(i, 16) -> bi, ti
            tile(k, 8) -> ko, ki
            order(bi, j, ko, ti, ki)
            cache_shared(A, at=ko)
            pipeline(ko, 3)
        after:
            for ko < (K + 7)/8  3 stages

        The meaning of the loop does not change. When it is lowered, every buffer that lives in it is there
        `stages` times. Copies from global to shared memory are asynchronous where they can be (cp.async, from
        sm_80 on), and the waits follow from the distance between a copy and its use; copies to registers come
        early enough to hide their latency.

        Copies of what the loop does not write go to its start, also those that stand behind other statements.

        `across` is for registers: pipeline(ki, 2, across=ko) does not begin anew in each iteration of ko. The
        last iteration of ki copies for the first one of the next ko.
        """

    def reassociate(self, reduction: str) -> Self:
        """reassociate(C)

        Allow the terms of a reduction to be combined in any order from here on.

        kernel:
            kernel total(X: f32[N, K, R]) -> y: f32[N]:
                y[i] = sum[k, r](X[i, k, r])
        before:
            for i < N
              y[i] = 0
              for k < K
                for r < R
                  y[i] += X[i, k, r]
        steps:
            reassociate(y)
        after:
            for i < N
              y[i] = 0
              for k < K
                for r < R
                  y[i] += X[i, k, r]

        Floating-point sums then differ in their last bits from the order of the kernel's text, and steps
        that change the order of the terms are accepted. argmax and argmin keep their order, since the first of equals
        wins; what combines parts of them, which rfactor made, does not need it.
        """

    def rename(self, *loops: str, of: str | None = None, into: str) -> Self:
        """rename(a.j, b.j) -> j, rename(j, of=C) -> v

        Give loops of the same extent and kind one name: the steps behind it are taken in all of them at once.

        kernel:
            kernel centre(X: f32[M, 64]) -> Y: f32[M, 64]:
                var m: f32[M]
                m[i] = sum[j](X[i, j] / 64)
                Y[i, j] = X[i, j] - m[i]
        before:
            for i < M
              m[i] = 0
              for m.j < 64
                m[i] += X[i, m.j] / 64.0
              for Y.j < 64
                Y[i, Y.j] = X[i, Y.j] - m[i]
        steps:
            fuse(m.i, Y.i) -> i
            rename(m.j, Y.j) -> j
        after:
            for i < M
              m[i] = 0
              for j < 64
                m[i] += X[i, j] / 64.0
              for j < 64
                Y[i, j] = X[i, j] - m[i]

        A cache sees one index in all of them, so that what one nest has loaded the next one finds in registers.
        The loops stay apart, one after the other, and none may be inside another. With `of`, only those loops get the
        name that hold nothing but statements of that name: what is one loop in several nests becomes two.
        """

    def resident(self, loop: str, blocks: int) -> Self:
        """resident(bx, 2)

        Have at least `blocks` blocks of a launch on a multiprocessor at a time, as far as registers decide that.

        kernel:
            kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
                C[i] = A[i] + B[i]
        before:
            for b < (N + 255)/256  block.x
        steps:
            tile(i, 256) -> b, t
            bind(b, block.x)
            bind(t, thread.x)
            resident(b, 4)
        after:
            for b < (N + 255)/256  block.x  4 resident

        The compiler keeps each thread to the registers that this leaves it. While one block copies or waits, another
        one computes; a thread that has too few registers keeps values in memory instead.
        """

    def rfactor(self, reduction: str, loops: str | collections.abc.Sequence[str], layout: collections.abc.Sequence[str] | None = None, *, into: str) -> Self:
        """rfactor(C, ko) -> P

        Reduce in parts: each iteration of the loops has a result of its own, and a new nest combines them.

        kernel:
            kernel dot(x: f32[K], y: f32[K, N]) -> z: f32[N]:
                z[i] = sum[k](x[k] * y[k, i])
        before:
            for i < N
              z[i] = 0
              for kp < (K + 1023)/1024
                for ki < 1024
                  z[i] += x[kp*1024 + ki] * y[kp*1024 + ki, i]  if kp*1024 + ki < K
        steps:
            tile(k, 1024) -> kp, ki
            rfactor(z, kp) -> part
        after:
            for i < N
              for kp < (K + 1023)/1024
                part[kp, i] = 0
                for ki < 1024
                  part[kp, i] += x[kp*1024 + ki] * y[kp*1024 + ki, i]  if kp*1024 + ki < K
            for z.i < N
              z[z.i] = 0
              for z.kp < (K + 1023)/1024
                z[z.i] += part[z.kp, z.i]

        The parts are an intermediate tensor like any other: they can be kept in registers or shared memory, in
        one launch with what combines them, or go through global memory. `layout` is their storage order, with
        the loops' names for the number of the part; several loops are given as a list. The terms are combined
        in another order than the kernel's text has: floating-point sums differ in their last bits. Of equal
        values in argmax and argmin the one with the lowest index still wins.
        """

    def roles(self, *loops: str, align: int = 1, into: str) -> Self:
        """roles(tc, td) -> t

        Put loops that follow one another side by side in one loop: the iterations of the first, then those of the next.

        kernel:
            kernel pair(a: f32[N]) -> c: f32[N], d: f32[N]:
                c[i] = sin(a[i])
                d[i] = log(a[i])
        before:
            for bd < (N + 127)/128
              for tc < 128
                c[bd*128 + tc] = sin(a[bd*128 + tc])  if bd*128 + tc < N
              for td < 128
                d[bd*128 + td] = log(a[bd*128 + td])  if bd*128 + td < N
        steps:
            tile(c.i, 128) -> bc, tc
            tile(d.i, 128) -> bd, td
            fuse(bc, bd) -> bd
            roles(tc, td) -> t
        after:
            for bd < (N + 127)/128
              for t < 256  roles tc, td
                c[bd*128 + t] = sin(a[bd*128 + t])  if bd*128 + t < N and t <= 127
                d[bd*128 + t - 128] = log(a[bd*128 + t - 128])  if bd*128 + t <= N + 127 and t >= 128

        Bound to threads, some threads of a block run one body while others run the next (inner-block fusion); bound to
        blocks, so do the blocks of one launch (inter-block fusion, also called horizontal fusion). What stands behind
        the loop has a barrier before it where it needs one; inside a role no thread can wait for another. Extents may
        differ, and `align=32` lets each role of threads begin with a warp of its own. Copies to shared memory of what
        the roles write come before this step, each as large as its loop needs; registers come behind it.
        """

    def round_up(self, loop: str, size: int) -> Self:
        """round_up(k, 16)

        Sum over whole tiles: the terms beyond the range are products of zeros, and no tile needs a test.

        kernel:
            kernel dot(x: f32[K], y: f32[K]) -> z: f32[1]:
                z[i] = sum[k](x[k] * y[k])
        before:
            for i < 1
              z[i] = 0
              for k < K
                z[i] += x[k] * y[k]
        steps:
            round_up(k, 16)
        after:
            for i < 1
              z[i] = 0
              for k < ((K + 15)/16)*16
                z[i] += (x[k] else 0) * (y[k] else 0)

        Reads at an index of the loop give 0 outside of their tensor, so that copies hold zeros there: those on the chip,
        or those that cache_global makes in whole tiles.
        """

    def row_blocks(self, row: str | int, column: str | int, size: str | int, *, into: tuple[str, str] | list[str]) -> Self:
        """row_blocks(row, column, size) -> block, thread

        Run each row of a matrix on blocks of its own: `row` along y, and `column` in blocks of `size` threads along x.

        stands for:
            bind(row, block.y)
            blocks(column, size) -> block, thread
        """

    def serpentine(self, *loops: str) -> Self:
        """serpentine(vi, cj, vj)

        Walk nested loops to and fro: in every second iteration of the first, the others run backwards.

        kernel:
            kernel outer(a: f32[4], b: f32[8]) -> C: f32[4, 8]:
                C[i, j] = a[i] * b[j]
        before:
            for i < 4
              for j < 8
                C[i, j] = a[i] * b[j]
        steps:
            serpentine(i, j)
        after:
            for i < 2
              for j < 8
                C[i*2, j] = a[i*2] * b[j]
              for j < 8
                C[i*2 + 1, -j + 7] = a[i*2 + 1] * b[-j + 7]

        Neighbouring multiply-adds then share an operand also at the turn of a row, which spares the register
        file a read. The first loop, of even constant extent, keeps its name and is half as long.
        """

    def specialize(self, loop: str, overlap: int = 0, registers: int = 0, turns: str | None = None) -> Self:
        """specialize(ko), specialize(ko, overlap=1), specialize(ko, registers=240), specialize(ko, turns=w)

        Let threads that do nothing else start the bulk copies of a pipelined loop (warp specialization).

        kernel:
            kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
                C[i, j] = sum[k](A[i, k] * B[k, j])
        before:
            for ko < (K + 7)/8  3 stages
        steps:
            tile(i, 16) -> bi, ti
            tile(k, 8) -> ko, ki
            bind(bi, block.x)
            bind(ti, thread.x)
            order(bi, j, ko, ti, ki)
            bind(j, block.y)
            cache_shared(A, at=ko)
            bulk(A.shared)
            pipeline(ko, 3)
            specialize(ko)
        after:
            for ko < (K + 7)/8  3 stages  specialized

        The meaning of the loop does not change. The block gets one more row of threads along its last axis, of which one,
        the producer, starts the copies of an iteration when all others have read what lay there before; these, the
        consumers, wait for what has arrived, use it, and say when they have. So nobody waits for the whole block. Where
        loops stand around it, so that a block computes several tiles, the producer goes on with the next one while the
        consumers are still storing the last. Where bulk copies cannot be made, the loop is pipelined without them.

        With `overlap=1`, asynchronous products (wgmma) of one iteration still run when the next one waits for its operands
        and begins its own: the slot that they read is emptied one iteration later. That pays where one warpgroup has the
        tensor cores for itself, or products are short; several warpgroups fill each other's pauses without it.

        With `registers=240`, consumers have so many registers each, a multiple of 8, and more than a launch can give to
        all: the producer gives up its own, for which its row of the block becomes a whole warpgroup, as those of the
        consumers have to be. So large tiles of results are not spilled.

        With `turns=w`, two blocks along the block loop w become one (ping-pong): each is a warpgroup, with registers and
        other shared memory of its own, and they take turns at the slots, tile by tile: while one stores its results, the
        other one multiplies. One producer fills the slots for both. Where bulk copies cannot be made, they stay two blocks.
        """

    def stream(self, buffer: str) -> Self:
        """stream(X)

        Tell the caches that what is loaded of an input is not wanted again: it is the first to go.

        kernel:
            kernel row_sum(X: f32[M, N]) -> y: f32[M]:
                y[i] = sum[j](X[i, j])
        before:
            global X: f32[M, N]  input
        steps:
            stream(X)
        after:
            global X: f32[M, N] streamed  input

        It changes no value, only which lines the caches keep. CUDA text loads such an input by `__ldcs`; copies that are
        asynchronous, and OpenCL, know no such hint and are as before.
        """

    def swizzle(self, buffer: str, unit: int, count: int | None = None, rows: int = 1) -> Self:
        """swizzle(A.shared, 4)

        Let the units of each row of a shared buffer change places, so that a column meets more banks, without a pad.

        Unit u of row r lies at place u ^ (r / rows % count); rows are counted over all dimensions but the fastest. `unit`
        elements stay together: a vector of 4 needs units of 4 or more. Unless told, `count` units are 128 bytes, one word
        of each bank; or what divides a row.

        kernel:
            kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
                Y[j, i] = X[i, j]
        before:
            shared X.shared: f32[32, 32]  copy of X, in bj
        steps:
            tile(i, 32) -> bi, ti
            tile(j, 32) -> bj, tj
            order(bi, bj, ti, tj)
            cache_shared(X, at=bj)
            swizzle(X.shared, 1)
        after:
            shared X.shared: f32[32, 32] swizzle 32 x 1  copy of X, in bj
        """

    def tensorize(self, *loops: str, by: str) -> Self:
        """tensorize(i, j, k, by=mma_m16n8k16_bf16)

        Let an instruction of a warp compute a nest of loops, on operands that the lanes hold together in fragments.

        kernel:
            kernel product(A: bf16[16, K], B: bf16[K, 8]) -> C: f32[16, 8]:
                C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
        before:
            for b < 1  block.x
              for i < 16
                for j < 8
                  C.reg[i, j] = 0
              for ko < (K + 15)/16
                for i < 16
                  for k < 16
                    A.reg[i, k] = (A[b*16 + i, ko*16 + k] else 0)
                for j < 8
                  for k < 16
                    B.reg[j, k] = (B[ko*16 + k, j] else 0)
                for i < 16
                  for j < 8
                    for k < 16
                      C.reg[i, j] += f32(A.reg[i, k]) * f32(B.reg[j, k])
              for i < 16
                for j < 8
                  C[b*16 + i, j] = C.reg[i, j]
        steps:
            round_up(k, 16)
            tile(i, 16) -> b, i
            tile(k, 16) -> ko, k
            bind(b, block.x)
            order(b, ko, i, j, k)
            cache_register(C, at=b)
            cache_register(A, at=ko)
            cache_register(B, at=ko)
            tensorize(i, j, k, by=mma_m16n8k16_bf16)
        after:
            for b < 1  block.x
              for i < 16  matrix
                for j < 8  matrix
                  C.reg[i, j] = 0
              for ko < (K + 15)/16
                for i < 16  matrix
                  for k < 16  matrix
                    A.reg[i, k] = (A[b*16 + i, ko*16 + k] else 0)
                for j < 8  matrix
                  for k < 16  matrix
                    B.reg[j, k] = (B[ko*16 + k, j] else 0)
                for i < 16  matrix  mma_m16n8k16_bf16
                  for j < 8  matrix
                    for k < 16  matrix
                      C.reg[i, j] += f32(A.reg[i, k]) * f32(B.reg[j, k])
              for i < 16  matrix
                for j < 8  matrix
                  C[b*16 + i, j] = C.reg[i, j]

        The loops are the indices of the instruction's equation in their order, those of its left side first; several loops
        can be the digits of one index. The statement has to be the instruction's equation, each operand a register buffer,
        or shared memory where the instruction wants that. Loops that run over the elements of a fragment elsewhere, for
        its start or its store, are dealt out to the 32 lanes of the warp, which are thread.x; warps are thread.y and
        thread.z. Registers that are computed from fragments, element by element, are fragments, too, and so is what
        each lane reduces its own elements to: rfactor gives the lanes that share a row parts of their own. A sum that an
        instruction adds up goes in an order of its own. The text needs a GPU that has it.
        """

    def tile(self, loop: str, size: int | None = None, parts: int | None = None, *, into: tuple[str, str] | list[str]) -> Self:
        """tile(i, 128) -> bi, ti

        Cut a loop into tiles of `size` iterations; or, with `parts`, into that many tiles.

        kernel:
            kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
                C[i] = A[i] + B[i]
        before:
            for i < N
              C[i] = A[i] + B[i]
        steps:
            tile(i, 4) -> io, ii
        after:
            for io < (N + 3)/4
              for ii < 4
                C[io*4 + ii] = A[io*4 + ii] + B[io*4 + ii]  if io*4 + ii < N

        `parts` needs a loop of constant extent that it divides: tile(ti, parts=8) -> wi, ti makes an outer
        loop of 8, which is how strided coarsening is said.
        """

    def tile_rows(self, row: str | int, column: str | int, height: str | int, width: str | int, down: str | int, along: str | int, *, into: tuple[str, str] | list[str]) -> Self:
        """tile_rows(row, column, height, width, down, along) -> tiles, columns

        Cut a matrix into tiles of `height` x `width` for blocks of `down` x `along` warps. A warp takes four rows at a time,
        and eight vectors of four of each.

        stands for:
            tile(row, height) -> tiles, r
            tile(column, width) -> columns, c
            tile(r, down*4) -> r, wr
            tile(wr, 4) -> wr, lr
            warp_tile(c, along, 8) -> wc, c, lc, v
            order(tiles, columns, r, c, wr, wc, lr, lc, v)
            warp_threads(wr, wc, lr, lc) -> l
            vectorize(v)
        """

    def transpose_tiles(self, source: str | int, shared: str | int, row: str | int, column: str | int, *, into: tuple[str, str, str, str, str] | list[str]) -> Self:
        """transpose_tiles(source, shared, row, column) -> rows, r, columns, cw, c

        Transpose a matrix in tiles of 32 x 32, by a launch of its own. `row` and `column` are the loops over the transposed
        copy, so that neighbouring threads write neighbours; `shared` is the tile of `source` in shared memory.

        stands for:
            tile(row, 32) -> rows, r
            tile(column, 32) -> columns, c
            tile(c, 8) -> cw, c
            order(rows, columns, c, r, cw)
            bind(rows, block.y)
            bind(columns, block.x)
            bind(c, thread.y)
            bind(r, thread.x)
            unroll(cw)
            cache_shared(source, at=columns)
            pad(shared, 1)
        """

    def unroll(self, loop: str) -> Self:
        """unroll(ki)

        Write out every iteration of a loop of constant extent.

        kernel:
            kernel blur(X: f32[N + 2]) -> Y: f32[N]:
                Y[i] = sum[r < 3](X[i + r])
        before:
            for i < N
              Y[i] = 0
              for r < 3
                Y[i] += X[i + r]
        steps:
            unroll(r)
        after:
            for i < N
              Y[i] = 0
              for r < 3  unrolled
                Y[i] += X[i + r]

        The loop stays a loop in the tree, and in the text it carries `#pragma unroll`.
        """

    def vectorize(self, loop: str) -> Self:
        """vectorize(v)

        Load and store the iterations of a short loop as one vector; the arithmetic stays scalar.

        kernel:
            kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
                C[i] = A[i] + B[i]
        before:
            for t < (N + 3)/4
              for v < 4
                C[t*4 + v] = A[t*4 + v] + B[t*4 + v]  if t*4 + v < N
        steps:
            tile(i, 4) -> t, v
            vectorize(v)
        after:
            for t < (N + 3)/4
              for v < 4  vector
                C[t*4 + v] = A[t*4 + v] + B[t*4 + v]  if t*4 + v < N
        """

    def vectorize_rows(self, row: str | int, column: str | int, size: str | int, *, into: tuple[str, str, str] | list[str]) -> Self:
        """vectorize_rows(row, column, size) -> block, thread, v

        Run each row of a matrix on blocks of its own, as `row_blocks`, with a vector of four neighbours for each thread.

        stands for:
            tile(column, 4) -> column, v
            order(..., v)
            vectorize(v)
            bind(row, block.y)
            blocks(column, size) -> block, thread
        """

    def walk_columns(self, ci: str | int, vi: str | int, cj: str | int, vj: str | int) -> Self:
        """walk_columns(ci, vi, cj, vj)

        Walk a tile of registers down its columns, to and fro: one operand of the columns (`cj`, `vj`) serves all rows (`ci`,
        `vi`) before the next is read.

        stands for:
            order(cj, vj, ci, vi)
            serpentine(vj, ci, vi)
        """

    def warp_threads(self, wi: str | int, wj: str | int, li: str | int, lj: str | int, *, into: str) -> Self:
        """warp_threads(wi, wj, li, lj) -> lane

        Run warps and the lanes of each as the threads of a block: warps `wi` and `wj` along z and y, and the 32 lanes of
        each, `li` by `lj` of them, along x.

        stands for:
            collapse(li, lj) -> lane
            bind(wi, thread.z)
            bind(wj, thread.y)
            bind(lane, thread.x)
        """

    def warp_tile(self, loop: str | int, warps: str | int, lanes: str | int, *, into: tuple[str, str, str, str] | list[str]) -> Self:
        """warp_tile(loop, warps, lanes) -> warp, chunk, lane, v

        Cut a tile over `warps` warps, and the part of a warp over `lanes` lanes with vectors of four: element v of chunk c
        of lane l of warp w is at ((w * chunks + c) * lanes + l) * 4 + v.

        stands for:
            tile(loop, parts=warps) -> warp, chunk
            tile(chunk, lanes * 4) -> chunk, lane
            tile(lane, 4) -> lane, v
        """
