"""What nodes hold beside other nodes: ranges, roles, swizzles, lists, and how a kernel was derived."""
