"""What this machine has, and what is kept on it: GPUs, folders, stored programs, processes."""
