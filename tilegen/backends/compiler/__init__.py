"""From CUDA to machine code, without a GPU."""
