"""How a step is called, from a text and from Python: words, arguments, signatures, composite steps."""
