"""A kernel's text for kernels.py: an own parser, which shares nothing with tilegen.

Expressions are parsed by Python's `ast`, after two changes that make them Python: `a..b` is written `a < b`, and the
fallback of a read, `X[i] else 0`, as the choice `X[i] if OUTSIDE else 0`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import lru_cache

TOKEN = re.compile(r"\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?|\w+|\.\.|[<>=!]=|\S|\s+")


@dataclass
class Tensor:
    dtype: str
    shape: list
    role: str


@dataclass
class Equation:
    target: str
    index: list
    value: ast.AST
    reduce: str | None
    within: dict  # reduced word -> its bounds, None where the text gives none
    brackets: list  # [(comparison, left, right)] in the reduction's brackets
    comparisons: list  # all of them
    row: tuple = ()  # (word of the left side, its range, which data tell)


@dataclass
class Kernel:
    tensors: dict = field(default_factory=dict)
    attributes: dict = field(default_factory=dict)
    facts: list = field(default_factory=list)
    equations: list = field(default_factory=list)
    functions: dict = field(default_factory=dict)


def expression(text):
    """The ast of an expression of the language."""
    made, choices = [], [0]
    for token in TOKEN.findall(text.replace("\n", " ")):
        match token:
            case "(" | "[":
                choices += [0]
            case ")" | "]":
                choices.pop()
            case ",":
                choices[-1] = 0
            case "if":
                choices[-1] += 1
            case "..":
                token = " < "
            case "else" if choices[-1]:
                choices[-1] -= 1
            case "else":
                token = " if OUTSIDE else "
        made += [token]
    return ast.parse("".join(made).strip(), mode="eval").body


def split(text, mark=","):
    """The parts of `text` between marks that stand in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == mark and not depth:
            parts += [""]
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def logical_lines(text):
    """The lines without comments; those that go on in the next one, because of a bracket or `->`, joined."""
    found = []
    for line in (raw.split("#")[0].rstrip() for raw in text.splitlines()):
        opened = found and sum(found[-1].count(o) - found[-1].count(c) for o, c in ("()", "[]", "{}"))
        if opened or re.match(r"\s*(->|where\b)", line):
            found[-1] += " " + line.strip()
        elif line:
            found += [line]
    return found


@lru_cache(maxsize=256)
def parse_kernel(text, name):
    """The kernel `name` of a text."""
    kernel, inside = Kernel(), False
    for line in logical_lines(text):
        if line[0] != " ":
            head = re.match(r"kernel (\w+)\s*\((.*)\)\s*->\s*(.*):$", line)
            inside = bool(head) and head[1] == name
            if inside:
                outputs, _, facts = head[3].partition(" where ")
                _declare(kernel, head[2], "input")
                _declare(kernel, outputs, "output")
                kernel.facts = [expression(fact) for fact in split(facts)]
            if function := re.match(r"def (\w+)\((.*?)\)\s*=\s*(.*)", line):
                kernel.functions[function[1]] = (split(function[2]), expression(function[3]))
        elif inside and line.split()[0] == "var":
            _declare(kernel, line.strip()[3:], "intermediate")
        elif inside and not re.match(r'\s*(beside\b|")', line) and " approximates " not in line:  # these define nothing
            kernel.equations += [_equation(kernel, line.strip())]
    return kernel


def _declare(kernel, text, role):
    for param in split(text):
        name, dtype, shape, default = re.match(r"(\w+)\s*:\s*(\w+)\s*(?:\[(.*?)\])?[^=]*(?:=\s*(.*))?$", param).groups()
        if dtype in ("int", "float"):
            kernel.attributes[name] = {"int": int, "float": float}[dtype](default) if default else None
        else:
            role = "updated" if role == "output" and name in kernel.tensors else role
            kernel.tensors[name] = Tensor(dtype, [expression(e) for e in split(shape or "")], role)


def _equation(kernel, line):
    target, index, right = re.match(r"(\w+)\[(.*?)\]\s*=\s*(.*)", line).groups()
    value, _, condition = right.partition(" for ")
    body, reduce, items = expression(value), None, []
    if isinstance(body, ast.Call) and isinstance(body.func, ast.Subscript):
        reduce, items, body = body.func.value.id, items_of(body.func), body.args[0]
    index = [expression(i) for i in split(index)]
    within, brackets = ranges_of(items, {name for i in index for name in names(i)} | sizes_of(kernel).keys())
    parts = [expression(part) for part in split(condition)]
    rows = [(v.left.id, *v.comparators) for v in parts if isinstance(v, ast.Compare) and isinstance(v.ops[0], ast.In)]
    comparisons = brackets + [fact for part in parts[len(rows) :] for fact in facts_of(part)]
    return Equation(target, index, body, reduce, within, brackets, comparisons, *rows)


def ranges_of(items, known):
    """(reduced word -> its bounds or None, the comparisons) of a reduction's brackets; `known` are the other words."""
    within, brackets = {}, []
    for item in items:
        match item:
            case ast.Name(word):
                within[word] = None
            case ast.Compare(ast.Name(word), [ast.In(), ast.Lt()], [low, high]):
                within[word] = low, high
            case _:
                new = [name for name in names(item) if name not in known]
                within.setdefault(next((name for name in new if name not in within), new[0]), None)
                brackets += facts_of(item)
    return within, brackets


def items_of(subscript):
    return subscript.slice.elts if isinstance(subscript.slice, ast.Tuple) else [subscript.slice]


def names(node):
    """The names in an expression, in their order, functions and tensors included."""
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def sizes_of(kernel):
    """The sizes and attributes in their order."""
    shapes = [name for tensor in kernel.tensors.values() for extent in tensor.shape for name in names(extent)]
    return dict.fromkeys([*shapes, *kernel.attributes])


def facts_of(node):
    """[(comparison, left, right)] of those that are joined by `and` or stand in a chain."""
    if isinstance(node, ast.BoolOp):
        return [fact for value in node.values for fact in facts_of(value)]
    sides = [node.left, *node.comparators]
    return [(type(op), *pair) for op, pair in zip(node.ops, zip(sides, sides[1:], strict=False), strict=True)]


def outside_of_reductions(node):
    """The node and what is in it, but for the reductions inside of it."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
        yield node
        for part in ast.iter_child_nodes(node):
            yield from outside_of_reductions(part)


def places(equation):
    """[(tensor, index, without a fallback)] of the left side, then of the reads, those with a fallback last."""
    every = list(outside_of_reductions(equation.value))
    unsure = {id(n.body) for n in every if isinstance(n, ast.IfExp) and names(n.test) == ["OUTSIDE"]}
    reads = [n for n in every if isinstance(n, ast.Subscript)]
    reads.sort(key=lambda n: (id(n) in unsure, n.lineno, n.col_offset))
    return [
        *([(equation.target, equation.index, True)] if equation.index else []),
        *((n.value.id, items_of(n), id(n) not in unsure) for n in reads),
    ]


def circle(kernel, target):
    """The tensors that `target` is made of and that are made of it. Old values do not count."""
    made = {e.target: {*names(e.value)} for e in kernel.equations if kernel.tensors[e.target].role != "updated"}
    for middle in made:
        for reads in made.values():
            reads |= made[middle] if middle in reads else set()
    return {name for name in made if name in made.get(target, ()) and target in made[name]}


class Erroneous(Exception):
    """The kernel has no meaning at these sizes: `kind` is "outside", "undefined", "two values" or "in place"."""

    def __init__(self, kind, what):
        super().__init__(f"{kind}: {what}")
        self.kind = kind
