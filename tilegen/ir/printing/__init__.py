"""Trees, tables and words as people read them, and names that compilers accept."""
