"""The equations of a kernel: what their index words run over, what their values are, each with its type."""
