"""Places in a text: a branch of the parse tree has every token that it was made of, and lies where these do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

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
        first, last = (node, node) if isinstance(node, Token) else (_first_token(node), _last_token(node))
        assert first.line is not None
        assert first.column is not None
        assert last.end_column is not None
        if last.end_line == first.line:
            width = last.end_column - first.column
        else:
            width = len(self.source.line(first.line)) - first.column + 1
        return Span(self.source, first.line, first.column, max(1, width))

    def text_of(self, node: Branch) -> str:
        """The text of a node on one line, without comments."""
        text = self.text[_first_token(node).start_pos : _last_token(node).end_pos]
        if "#" in text:
            text = " ".join(line.split("#")[0] for line in text.split("\n"))
        return " ".join(text.split())

    def doc_above(self, span: Span) -> str:
        """The comment lines directly above a line, without their marks."""
        lines = self._lines
        first = span.line - 1
        while first > 0 and lines[first - 1].startswith("#"):
            first -= 1
        return "\n".join(line.lstrip("#").strip() for line in lines[first : span.line - 1])

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")


def _first_token(node: Branch | Token) -> Token:
    """The first token of a branch; what is left out of it is None there."""
    while not isinstance(node, Token):
        children = node.children
        node = children[0] if children[0] is not None else _first_present(children)
    return node


def _last_token(node: Branch | Token) -> Token:
    while not isinstance(node, Token):
        children = node.children
        node = children[-1] if children[-1] is not None else _first_present(children[::-1])
    return node


def _first_present(children: list[Branch | Token]) -> Branch | Token:
    """The first of the children that is there."""
    return next(child for child in children if child is not None)


def rule(tree: Branch) -> str:
    """The name of the grammar rule that made `tree`."""
    return str(tree.data)


def branch(node: Branch | Token | None) -> Branch:
    """`node`, which the grammar makes a branch."""
    assert isinstance(node, Tree)
    return node


def branches(nodes: Iterable[Branch | Token | None]) -> list[Branch]:
    """Those of `nodes` that are branches."""
    return [node for node in nodes if isinstance(node, Tree)]


def token(node: Branch | Token | None) -> Token:
    """`node`, which the grammar makes a token."""
    assert isinstance(node, Token)
    return node
