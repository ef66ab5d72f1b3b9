"""What lowering makes: the program of one thread, and what its launch is made for."""
