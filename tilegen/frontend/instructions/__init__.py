"""Declarations of instructions, checked by enumeration."""
