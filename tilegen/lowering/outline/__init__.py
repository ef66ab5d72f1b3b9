"""Blocks that stand several times become functions."""
