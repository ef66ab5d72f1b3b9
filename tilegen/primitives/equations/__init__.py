"""How the equations of a kernel change with its tree: reductions in parts, in tiles, recomputed, in other order."""
