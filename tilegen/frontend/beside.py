"""What a kernel's text sets beside it: `beside torch "A @ B"`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tilegen.errors import SourceError, Span, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.ir.affine import Affine
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Scalar, Tensor
from tilegen.ir.parts.beside import LIBRARIES, OPTIONS, Beside, NotListed, check


def beside_of(
    lines: Iterable[s.BesideLine], declared: Collection[Tensor | Scalar], index: Mapping[str, Affine]
) -> Iterator[Beside]:
    """What the lines of a kernel set beside it.

    Args:
        index: the sizes and the attributes, as far as they are fixed as numbers.

    Raises:
        SourceError: an unknown library or option, or an expression that none may have.
    """
    inputs = [memory_of(d.name) for d in declared if isinstance(d, Scalar) or d.role == "input"]
    outputs = sum(isinstance(d, Tensor) and d.role == "output" for d in declared)
    values = tuple((name, value.const) for name, value in index.items() if value.is_const)
    for line in lines:
        for option in line.options:
            _require_known(option, OPTIONS, "option")
        text = "".join(part.text[1:-1] for part in line.texts)
        for library in line.libraries:
            _require_known(library, LIBRARIES, "library")
            try:
                check(text, library.text, [*inputs, *index], outputs)
            except NotListed as error:
                raise SourceError(error.message, _place_in(line.texts, error.place), notes=error.notes) from None
            yield Beside(library.text, text, tuple(option.text for option in line.options), values, line.span)


def _place_in(texts: Sequence[s.Name], place: int) -> Span:
    """The place in the text that the texts are together."""
    for part in texts[:-1]:
        if place < len(part.text) - 2:
            texts = [part]
            break
        place -= len(part.text) - 2
    span = texts[-1].span
    return Span(span.source, span.line, span.column + 1 + place)


def _require_known(word: s.Name, known: Iterable[str], what: str) -> None:
    if word.text not in known:
        notes = did_you_mean(word.text, known, "there are")
        raise SourceError(f"there is no {what} '{word.text}' for `beside`", word.span, notes=notes)
