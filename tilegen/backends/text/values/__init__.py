"""Expressions in C: indices, numbers and values, in the words of CUDA C++ or OpenCL C."""
