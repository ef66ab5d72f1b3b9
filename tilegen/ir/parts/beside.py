"""What a kernel stands beside: an expression in which a library computes the same.

It is read as Python reads one, and never run as Python: names, numbers, operators, and calls of a list. What these
come to is found out by `lab/measure/beside.py`.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilegen.errors import Span, did_you_mean

OPTIONS = ("allow_tf32",)
LIBRARIES: Mapping[str, str] = {"torch": "torch", "torch.compile": "torch", "cupy": "cupy"}  # what each is called in


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


CALLS: Mapping[str, frozenset[str]] = {
    "torch": _words(
        "mm bmm addmm baddbmm matmul einsum _int_mm _grouped_mm _scaled_mm _addmm_activation cudnn_convolution_relu",
        "relu tanh exp log sqrt rsqrt abs sum cumsum cumprod amax amin argmax argmin mean var softmax where ones zeros",
        "conv1d conv2d conv3d nn.functional.gelu nn.functional.silu nn.functional.layer_norm nn.functional.rms_norm",
        "nn.functional.scaled_dot_product_attention nn.functional.embedding_bag segment_reduce sparse_csr_tensor",
        "sparse_bsr_tensor",
    ),
    "cupy": _words(
        "matmul einsum tanh exp log sqrt abs sum cumsum cumprod amax amin argmax argmin mean var maximum minimum where"
    ),
}
WORDS: Mapping[str, frozenset[str]] = {
    "torch": _words(
        "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int8 int32 int64 channels_last channels_last_3d"
    ),
    "cupy": _words("float64 float32 float16 int8 int32 int64"),
}
METHODS = _words(
    "to contiguous float half permute transpose reshape flatten unflatten unsqueeze squeeze expand sum amax amin",
    "argmax argmin mean var square abs sqrt rsqrt relu tanh exp clamp",
)
ATTRIBUTES = _words("T mT device dtype shape")
OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.MatMult: operator.matmul,
    ast.Pow: operator.pow,
}
_LONGEST = 1000
_MOST_POWER = 8


@dataclass(frozen=True)
class Beside:
    """`beside library "text" with option`; `values` are those of the kernel's attributes and fixed sizes.

    The text has as many values as the kernel has outputs, in their order and dimensions.
    """

    library: str
    text: str
    options: tuple[str, ...] = ()
    values: tuple[tuple[str, int], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return ", ".join([f"{self.library}: {self.text}", *self.options])

    @property
    def expression(self) -> ast.expr:
        return parse(self.text)


class NotListed(Exception):
    """An expression has what none may have. Attributes: message, the place in the text, notes."""

    def __init__(self, message: str, place: int = 0, notes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message, self.place, self.notes = message, place, notes


def parse(text: str) -> ast.expr:
    """The expression of a text. Raises NotListed where it is none."""
    if len(text) > _LONGEST:
        raise NotListed(f"the expression has {len(text)} characters; {_LONGEST} is the limit")
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise NotListed(f"this is no expression: {error.msg}", max(0, (error.offset or 1) - 1)) from None
    except (RecursionError, MemoryError, ValueError):
        raise NotListed("this is no expression") from None


def check(text: str, library: str, names: Iterable[str], values: int) -> None:
    """Raises NotListed where the text has a name that is none of `names`, or what no such expression may have.

    Args:
        values: how many it is to have.
    """
    expression = parse(text)
    _check(expression, LIBRARIES[library], set(names))
    found = len(expression.elts) if isinstance(expression, ast.Tuple) else 1
    if found != values:
        raise NotListed(f"the expression has {found} values, and the kernel has {values} to give")


def _check(node: ast.expr, library: str, known: set[str]) -> None:
    """`known` gets the names that the expression gives to its parts."""
    parts: list[ast.expr | None] = []
    match node:
        case ast.Constant(bool() | int() | float() | str() | None):
            pass
        case ast.Name(name):
            _require_listed(name, known, node)
        case ast.Attribute(value, name):
            if word := path(node, library):
                _require_listed(word, WORDS[library], node, f"{library}.")
            else:
                _require_listed(name, ATTRIBUTES, node, ".")
                parts = [value]
        case ast.Call(ast.Attribute(value, name) as function, arguments, keywords):
            if word := path(function, library):
                _require_listed(word, CALLS[library], node, f"{library}.")
            else:
                _require_listed(name, METHODS, node, ".")
                parts = [value]
            _require(all(each.arg for each in keywords), node, "** cannot stand here")
            parts += [*arguments, *(each.value for each in keywords)]
        case ast.BinOp(left, sign, right):
            _require(type(sign) in OPERATORS, node, "this operator cannot stand here")
            least = isinstance(right, ast.Constant) and isinstance(right.value, int) and abs(right.value) <= _MOST_POWER
            _require(least or not isinstance(sign, ast.Pow), node, f"a power is a number up to {_MOST_POWER}")
            numbers = not any(isinstance(each, ast.Tuple | ast.List) or _is_text(each) for each in (left, right))
            _require(numbers, node, "an operator is between numbers and arrays")
            parts = [left, right]
        case ast.UnaryOp(ast.USub(), operand):
            parts = [operand]
        case ast.Tuple(items) | ast.List(items):
            parts = [*items]
        case ast.Subscript(value, index):
            parts = [value, index]
        case ast.Slice(low, high, step):
            parts = [low, high, step]
        case ast.NamedExpr(ast.Name(name), value):
            _check(value, library, known)
            known.add(name)
        case _:
            raise NotListed("this cannot stand in an expression of a library", node.col_offset)
    for part in parts:
        if part is not None:
            _check(part, library, known)


def path(node: ast.expr, library: str) -> str | None:
    """`nn.functional.gelu` for torch.nn.functional.gelu, and so on; None for anything but names of the library."""
    match node:
        case ast.Attribute(ast.Name(root), name) if root == library:
            return name
        case ast.Attribute(ast.Attribute() as before, name):
            above = path(before, library)
            return f"{above}.{name}" if above else None
        case _:
            return None


def _require(holds: bool, node: ast.expr, message: str) -> None:
    if not holds:
        raise NotListed(message, node.col_offset)


def _require_listed(word: str, known: Collection[str], node: ast.expr, lead: str = "") -> None:
    if word not in known:
        notes = did_you_mean(word, known) or (f"the list has {', '.join(f'{lead}{w}' for w in sorted(known))}",)
        raise NotListed(f"{lead}{word} is not on the list of what such an expression may have", node.col_offset, notes)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
