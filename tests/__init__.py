"""The tests, and what they are made of."""

import os

# Where each core runs a test, products of matrices on several threads each would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
