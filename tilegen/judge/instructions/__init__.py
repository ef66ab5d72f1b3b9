"""What the hardware does as one: instructions on matrices, and accesses of whole vectors."""
