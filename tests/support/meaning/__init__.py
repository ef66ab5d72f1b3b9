"""What kernels mean, worked out without tilegen: from their text by brute force, and by hand in numpy."""
