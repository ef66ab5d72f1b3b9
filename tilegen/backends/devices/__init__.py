"""The devices that run programs: GPUs through cupy, the CPU through OpenCL."""
