"""A call of a program: its arguments, the version that serves them, its launches."""
