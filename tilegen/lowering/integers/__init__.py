"""How wide the integers of a text have to be."""
