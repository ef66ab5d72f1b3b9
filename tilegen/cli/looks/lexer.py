"""Colours for the language, for whatever uses Pygments: terminals, notebooks, documents, editors."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, REDUCTIONS, THREAD_KINDS

_KEYWORDS = (
    "for", "where", "in", "if", "else", "and", "or", "not", "var", "pass", "extends", "without", "before", "after",
    "instead of", "by", "since", "as", "row_major", "col_major",
)  # fmt: skip
# What means something in an instruction; elsewhere a loop may be called `lane`.
_OF_INSTRUCTIONS = (
    r"\b(in lane|in shared at lane|in shared by descriptor|rows along|waits by|accumulates exactly|ptx)\b"
)


class TilegenLexer(RegexLexer):  # type: ignore[misc]
    """The language of kernels and schedules."""

    name = "tilegen"
    aliases = ("tilegen", "tg")
    filenames = ("*.tg",)

    tokens = {
        "root": [
            (r"\s+", Whitespace),
            (r"#[^\n]*", Comment.Single),
            (r'"[^"\n]*"', String),
            (r"\b(kernel|instruction)(\s+)(\w+)", bygroups(Keyword.Declaration, Whitespace, Name.Class)),
            (r"\b(schedule|define|def)(\s+)(\w+)", bygroups(Keyword.Declaration, Whitespace, Name.Function)),
            (r"\b(extends)(\s+)([\w.]+)", bygroups(Keyword, Whitespace, Name.Function)),
            (_OF_INSTRUCTIONS, Keyword),
            (r"\bbeside\b(?= +\w)|\bwith\b", Keyword),
            (r"(,)(\s*)(register|element)\b(?! *[,)\]])", bygroups(Punctuation, Whitespace, Keyword)),
            (r"\baccumulates\b[^\n#]*", Keyword),
            (words(_KEYWORDS, r"\b", r"\b(?![(.])"), Keyword),
            (words(tuple(DTYPE_BYTES), r"\b", r"\b"), Keyword.Type),
            (words((*BLOCK_KINDS, *THREAD_KINDS), r"\b", r"\b"), Name.Constant),
            (words(REDUCTIONS, r"\b", r"(?=\s*[\[(])"), Name.Builtin),
            (r"[A-Za-z_]\w*(?=\()", Name.Function),
            (r"[A-Za-z_]\w*(\.[A-Za-z_0-9]+)*", Name),
            (r"(\d+(\.(?!\.)\d*)?|\.\d+)([eE][+-]?\d+)?", Number),
            (r"->|\.\.\.?|<<|>>|[<>=!]=|\*\*|//|[-+*/%<>=&|^~]", Operator),
            (r"[()\[\]{},:]", Punctuation),
        ],
    }
