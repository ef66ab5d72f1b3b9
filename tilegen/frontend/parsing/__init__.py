"""From a parse tree to declarations: heads, steps, expressions and places, with complaints in plain words."""
