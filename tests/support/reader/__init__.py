"""The printed text, CUDA's or OpenCL's, parsed and held against the lowered program that it was printed from."""
