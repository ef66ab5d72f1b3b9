"""Random kernels, steps and expressions, and everything that must hold for each."""
