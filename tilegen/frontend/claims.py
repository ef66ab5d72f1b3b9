"""What a kernel claims to approximate, as kernels of its own: `C[i, j] approximates ... within ...`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilegen.errors import SourceError, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.ir.nodes import Equation, Gather, Kernel, Load
from tilegen.ir.walk import walk

Build = Callable[[s.KernelDecl], Kernel]


def claims_of(decl: s.KernelDecl, build: Build) -> tuple[Kernel | None, Kernel | None]:
    """(what the kernel is to compute, how much further off its results may be), None where nothing is said.

    Raises:
        SourceError: a claim that is not about an output, a second one about it, or one that has no meaning.
    """
    if not decl.claims:
        return None, None
    claims = _by_output(decl)
    values = {name: s.Assign(claim.target, claim.value, None, claim.span) for name, claim in claims.items()}
    slacks = {n: s.Assign(c.target, c.slack, None, c.span) for n, c in claims.items() if c.slack is not None}
    meant = _without_rest(build(_with_equations(decl, values)))
    if not slacks:
        return meant, None
    allowed = replace(decl, outputs=tuple(p for p in decl.outputs if p.name.text in slacks))
    others = {p.name.text for p in decl.outputs} - set(slacks)
    allowed = replace(allowed, equations=tuple(e for e in decl.equations if e.target.base.text not in others))
    return meant, _without_rest(build(_with_equations(allowed, slacks)))


def _by_output(decl: s.KernelDecl) -> dict[str, s.ClaimDecl]:
    outputs, found = [p.name.text for p in decl.outputs], dict[str, s.ClaimDecl]()
    for claim in decl.claims:
        name = claim.target.base
        if name.text not in outputs:
            notes = did_you_mean(name.text, outputs, "the outputs are")
            raise SourceError(
                f"'{name.text}' is no output, and nothing holds it against a claim", name.span, notes=notes
            )
        if name.text in found:
            notes = (f"the first is on line {found[name.text].span.line}",)
            raise SourceError(f"'{name.text}' has a second claim", name.span, notes=notes)
        found[name.text] = claim
    return found


def _with_equations(decl: s.KernelDecl, changed: dict[str, s.Assign]) -> s.KernelDecl:
    """The kernel with these equations for its outputs, and without claims. SourceError where one reads that output."""
    updated = {p.name.text for p in decl.inputs}
    for name, equation in changed.items():
        for node in walk(equation.value):
            if isinstance(node, s.Subscript) and node.base.text == name and name not in updated:
                notes = ("say it by the tensors that its equation reads",)
                raise SourceError(f"what '{name}' is to be reads '{name}' itself", node.span, notes=notes)
    equations = tuple(changed.get(e.target.base.text, e) for e in decl.equations)
    return replace(decl, equations=equations, claims=())


def _without_rest(kernel: Kernel) -> Kernel:
    """The kernel without the intermediate tensors that its outputs do not depend on."""
    needed = {t.name for t in kernel.tensors if t.role != "intermediate"}
    equations: list[Equation] = []
    for equation in reversed(kernel.equations):
        if equation.target in needed:
            equations.insert(0, equation)
            needed |= {node.buffer for node in walk(equation) if isinstance(node, Load | Gather)}
            needed |= {equation.best} if equation.best else set()
    return replace(kernel, tensors=tuple(t for t in kernel.tensors if t.name in needed), equations=tuple(equations))
