"""Kernels checked and timed side by side, and when a time is to be trusted."""
