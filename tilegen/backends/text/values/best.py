"""What argmax and argmin do with a value, as lines of C."""

from __future__ import annotations

from tilegen.backends.text.values.expr import Writer
from tilegen.ir.nodes import SHORT_FLOATS, Load, Stmt


def best_lines(stmt: Stmt, target: str, w: Writer) -> list[str]:
    """A strictly better value replaces the best one, and its index with it.

    Of the best values of parts the lower index wins where they are equal.
    """
    assert stmt.best is not None
    assert stmt.arg is not None
    sign = ">" if stmt.reduce == "argmax" else "<"
    best = w.element(stmt.best.buffer, stmt.best.index)
    dtype = w.buffers[stmt.best.buffer].dtype
    value = w.value(stmt.value)
    if isinstance(stmt.arg, Load):
        first = f"const {w.working_type(stmt.value.dtype)} candidate = {value};"
        second = f"const {w.working_type(stmt.arg.dtype)} index = {w.value(stmt.arg)};"
        old = w.load_value(stmt.best)
        test = f"candidate {sign} {old} || (candidate == {old} && index < {w.load_value(stmt.target)})"
        stored = f"{w.dialect.narrow[dtype]}(candidate)" if dtype in SHORT_FLOATS else "candidate"
        return ["{", first, second, f"if ({test}) {{", f"{best} = {stored};", f"{target} = index;", "}", "}"]
    update = [f"{target} = {w.store_value(stmt.arg, stmt.target)};", "}"]
    if isinstance(stmt.value, Load) and w.buffers[stmt.value.buffer].space == "register":
        stored = w.store_value(stmt.value, stmt.best)
        return [f"if ({value} {sign} {w.load_value(stmt.best)}) {{", f"{best} = {stored};", *update]
    stored = f"{w.dialect.narrow[dtype]}(candidate)" if dtype in SHORT_FLOATS else "candidate"
    inner = [f"if (candidate {sign} {w.load_value(stmt.best)}) {{", f"{best} = {stored};", *update]
    first = f"const {w.working_type(stmt.value.dtype)} candidate = {value};"
    return ["{", first, *inner, "}"]
