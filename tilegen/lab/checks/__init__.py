"""Is a kernel right? Inputs and sizes for it, and how results are compared."""
