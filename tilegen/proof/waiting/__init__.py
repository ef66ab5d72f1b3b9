"""Who waits for whom: barriers, asynchronous copies and products, and what happens before what."""
