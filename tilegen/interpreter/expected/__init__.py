"""What a kernel has to compute, from its equations alone: values, with bounds for the error of any right program."""
