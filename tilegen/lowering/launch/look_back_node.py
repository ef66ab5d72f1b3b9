"""What a block that hands on a value does about the blocks before it."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Expr


@dataclass(frozen=True)
class LookBack:
    """The register `buffer` is what it is at this place of an iteration of the loop `block`, which are blocks.

    It has its start before that, and this block adds `value` to it. The blocks tell each other in `states`.
    """

    buffer: str
    reduce: str
    block: str
    blocks: Affine
    value: Expr
    dtype: str
    states: str
