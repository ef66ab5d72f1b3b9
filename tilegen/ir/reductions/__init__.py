"""Forms of reductions that have a meaning of their own: running, ragged, scattered, ranked, rounded up, split."""
