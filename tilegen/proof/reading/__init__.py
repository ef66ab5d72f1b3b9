"""The lowered program read back: each shape that the lowering makes becomes the statements that it stands for."""
