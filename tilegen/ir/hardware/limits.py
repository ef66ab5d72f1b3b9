"""Limits of GPUs, which the judge, the lowering and the proof ask alike: those of NVIDIA's guides for CUDA."""

from __future__ import annotations

GRID_LIMIT = (2**31 - 1, 65535, 65535)  # blocks of a grid along x, y and z
THREAD_LIMIT, AXIS_LIMIT = 1024, (1024, 1024, 64)  # threads of a block, and along each axis
RESIDENT_THREADS = 2048  # of all blocks on a multiprocessor, where it takes the most
SHARED_LIMIT = 227 * 1024  # bytes of shared memory of a block
CLUSTER_LIMIT = 8  # blocks of a cluster, on any GPU that has clusters
ACCESS_LIMIT = 16  # bytes that a thread loads or stores at once
BOX_DIMENSIONS, BOX_LIMIT = 5, 256  # of a tensor that boxes are copied of; elements of a box in each dimension
BOX_STEP_LIMIT = 8  # elements of a tensor from one of a box to the next
# Of a tensor of so many dimensions: how far off the tensor windows begin, and how far a place in them is from there.
WINDOW_CORNERS = {3: (32768, 65535), 4: (128, 255), 5: (16, 31)}
BOX_PLACE, SWIZZLED_PLACE = 128, 1024  # bytes at whose multiples a box lies in shared memory, and swizzled rows do
DEALT_LIMIT = 2**30  # tiles that blocks share out
