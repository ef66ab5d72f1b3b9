"""`python -m tilegen` is the command `tilegen`."""

from tilegen.cli import main

main()
