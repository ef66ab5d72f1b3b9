"""How steps change a tree: what several of them share."""
