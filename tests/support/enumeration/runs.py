"""A second opinion on legality, by running a tree on small sizes and looking at everything that happens.

It shares nothing with the judge: values are symbolic terms, memory is a dictionary, and every pair of
accesses to one element is looked at. `verdict` gives None or a word for the first thing that is wrong:
"coverage", "values", "uninitialised", "bounds", "scope", "race", "vector", "structure", or "derived" where
what steps have derived from the kernel as written is another one.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from tests.support.enumeration.machine import Run, Wrong, lies_in
from tests.support.enumeration.polynomials import Polynomials
from tests.support.enumeration.structure import structure
from tests.support.enumeration.terms import NOTHING, Terms
from tests.support.stored import drawn
from tilegen.interpreter import reference, run
from tilegen.ir.nodes import INTEGERS, ONLY, Cast, Load, Op
from tilegen.ir.parts.derived import Flattened
from tilegen.ir.written import tree_of

__all__ = ["Wrong", "as_written", "lies_in", "verdict"]

# What is 0 where all operands are.
OF_ZEROS = ("*", "+", "-", "neg", "abs", "min", "max", "tf32", "tf32_rz", "power_of_two")


def verdict(tree, sizes):
    """None if the tree computes its kernel at these sizes and no two parallel iterations collide."""
    if structure(tree):
        return "structure"
    reordered = frozenset(tree.reassociated)
    at = tuple(sizes.items())
    if tree.kernel.origin and not _same_results(tree.kernel, at):
        return "derived"
    try:
        expected, terms = as_written(tree.kernel, at, reordered)
        run = Run(tree, sizes, reordered, terms)
    except Wrong as wrong:
        return str(wrong)
    if sorted(run.instances) != sorted(expected.instances):
        return "coverage"
    if run.made != expected.made:  # of those, too, that no output depends on
        return "values"
    for tensor in tree.kernel.tensors:
        if (
            tensor.role != "input"
            and tensor.name in run.buffers
            and run.contents(tensor.name) != expected.contents(tensor.name)
        ):
            return "values"
    return run.collision() or run.vectors()


@lru_cache(maxsize=32)
def _same_results(kernel, sizes):
    """Whether the outputs, and what has its shape still, are as written: each reduction the bag of its terms, and
    linear steps what they come to. A kernel with dimensions seen as one is run beside the one as written."""
    first = kernel
    while first.origin is not None and not isinstance(first.derived, Flattened):
        first = first.origin
    if first.origin is not None:
        arrays = drawn(first.written_kernel, dict(sizes), partial(np.random.default_rng(1).integers, -3, 4))
        expected = reference(first.origin, dict(sizes), arrays)
        found = run(tree_of(first), dict(sizes), arrays)
        if any(np.any(want.written & (found[name] != want.value)) for name, want in expected.items()):
            return False
    try:
        linear = any(e.reduce == "linear" for e in kernel.equations)
        mine, written = (
            Polynomials(k, dict(sizes), TERMS) if linear else _Together(k, dict(sizes)) for k in (kernel, first)
        )
    except Wrong:
        return False
    made = [t.name for t in first.tensors if t.role == "output" or t.role != "input" and t in kernel.tensors]
    return all(mine.contents(name) == written.contents(name) for name in made)


@lru_cache(maxsize=32)
def as_written(kernel, sizes, reordered):
    """The run of the kernel's own tree, and the terms that it is told in: the same for many trees in turn."""
    terms = Terms()
    return Run(tree_of(kernel), dict(sizes), reordered, terms), terms


TERMS = Terms()


class _Together(Run):
    """A kernel with every reduction as the bag of its terms, those of its parts included; what is zero is so told."""

    def __init__(self, kernel, sizes):
        chain = [kernel]
        while chain[-1].origin:
            chain.append(chain[-1].origin)
        # What is one in the kernel as written, or in one between, is a bag where it is put together of others, too.
        self.reductions = {e.target: e.reduce for k in chain for e in k.equations if e.reduce in NOTHING}
        super().__init__(tree_of(kernel), sizes, set(), TERMS)

    def _value(self, expr, env, path):
        zero = self.terms.of("const", 0)
        match expr:
            case Op(name, args):
                found = [self._value(a, env, path) for a in args]
                # Of integers a product with one zero is zero, too.
                nothing = name in OF_ZEROS and set(found) == {zero}
                nothing |= name == "*" and expr.dtype in INTEGERS and zero in found
                nothing |= name == "select" and set(found[1:]) == {zero}
                return zero if nothing else self.terms.of(name, *found)
            case Cast(arg, dtype):
                found = self._value(arg, env, path)
                return zero if found == zero else self.terms.of(dtype, found)
            case Load(buffer):
                found = super()._value(expr, env, path)
                empty = buffer in self.reductions and self.terms.known[found] == ("bag", None, ())
                return self.terms.of("const", NOTHING[self.reductions[buffer]]) if empty else found
            case _:
                return super()._value(expr, env, path)

    def _stmt(self, stmt, env, path):
        if stmt.name.endswith(".init"):
            self._write(stmt.target, self.terms.of("bag", None, ()), env, path)
            return
        if not stmt.reduce and stmt.name in self.reductions:
            self._write(stmt.target, self._joined(stmt.value, self.reductions[stmt.name], env, path), env, path)
            return
        if stmt.reduce in (None, ONLY):
            super()._stmt(stmt, env, path)
            return
        value = self._value(stmt.value, env, path)
        accesses = [(stmt.best or stmt.target, value)]
        if stmt.best:
            index = self._value(stmt.arg, env, path)
            accesses += [(stmt.target, index if isinstance(stmt.arg, Load) else self.terms.of("at", value, index))]
        for access, term in accesses:
            self._write(access, self.terms.together(stmt.reduce, self._read(access, env, path), term), env, path)

    def _joined(self, expr, reduce, env, path):
        """The terms of results that one operation combines."""
        match expr:
            case Op(name, (one, two)) if name == {"sum": "+", "prod": "*"}.get(reduce, reduce):
                parts = (self._joined(each, reduce, env, path) for each in (one, two))
                return self.terms.together(reduce, *parts)
            case Load():
                return self._read(expr, env, path)
            case _:
                raise Wrong("values")
