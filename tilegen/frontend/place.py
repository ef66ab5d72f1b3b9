"""Places in a text, from what lark knows of them."""

from __future__ import annotations

from dataclasses import dataclass

from lark import Token, Tree

from tilegen.errors import Source, Span

Branch = Tree[Token]


@dataclass(frozen=True)
class Place:
    """The source for messages, and the text that the parser saw (the same lines and columns)."""

    source: Source
    text: str

    def of(self, node: Branch | Token) -> Span:
        """The span of a node, or of its first line where it has several."""
        start = node if isinstance(node, Token) else node.meta
        assert start.line is not None
        assert start.column is not None
        assert start.end_column is not None
        if start.end_line == start.line:
            width = start.end_column - start.column
        else:
            width = len(self.source.line(start.line)) - start.column + 1
        return Span(self.source, start.line, start.column, max(1, width))

    def written(self, node: Branch) -> str:
        """The text of a node on one line, without comments."""
        lines = self.text[node.meta.start_pos : node.meta.end_pos].split("\n")
        return " ".join(" ".join(line.split("#")[0] for line in lines).split())

    def doc_above(self, span: Span) -> str:
        """The comment lines directly above a line, without their marks."""
        lines = self.text.split("\n")
        first = span.line - 1
        while first > 0 and lines[first - 1].startswith("#"):
            first -= 1
        return "\n".join(line.lstrip("#").strip() for line in lines[first : span.line - 1])


def rule(tree: Branch) -> str:
    """The name of the grammar rule that made `tree`."""
    return str(tree.data)


def branch(node: Branch | Token | None) -> Branch:
    """`node`, which the grammar makes a branch."""
    assert isinstance(node, Tree)
    return node


def token(node: Branch | Token | None) -> Token:
    """`node`, which the grammar makes a token."""
    assert isinstance(node, Token)
    return node
