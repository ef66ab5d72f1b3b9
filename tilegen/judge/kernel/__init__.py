"""The kernel by itself, before any step: does each equation read what is defined, and define each element once?"""
