"""Experiments with kernels: check, compare, ladder, explain."""
