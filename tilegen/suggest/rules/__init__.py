"""One rule for each pattern of a kernel: the steps that suit it."""
