"""Who waits for whom: barriers, asynchronous copies and products, producers and consumers."""
