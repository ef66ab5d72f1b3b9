"""Which iterations run, and which tests they need."""
