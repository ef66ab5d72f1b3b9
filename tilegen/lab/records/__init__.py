"""What results look like in files, and how they are read back."""
