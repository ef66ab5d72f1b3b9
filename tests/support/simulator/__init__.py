"""Lowered programs run thread by thread on symbolic values, with warps, barriers and copies as the PTX ISA has them."""
