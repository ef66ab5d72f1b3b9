"""Trying kernels out: right or wrong, and how fast."""
