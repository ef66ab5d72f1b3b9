"""Between the shell and the commands: arguments, completion, interrupts, files that are written."""
