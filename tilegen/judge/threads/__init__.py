"""What iterations may do at once: threads, blocks and lanes, and where they have to wait for each other."""
