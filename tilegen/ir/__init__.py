"""The intermediate representation: what a kernel says, and the loop tree that steps rewrite."""
