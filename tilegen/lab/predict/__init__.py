"""What can be said of a schedule before it runs: occupancy, the roofline, its waste."""
