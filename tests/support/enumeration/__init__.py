"""A second opinion on legality: trees run on small sizes, every conflict looked at."""
