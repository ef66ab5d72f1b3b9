"""The command ladder: every step of a schedule timed, its prediction beside it."""
