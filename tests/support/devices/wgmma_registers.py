"""Which instructions may touch the registers of `wgmma` and when: the rules of the PTX ISA, held against machine code.

A product runs on while its lanes do. From its issue until a `wait_group` that covers its group nothing but products of
the same shape uses its accumulators, and nothing writes to the registers of its factor A. Whatever else has used a
register, a `fence` stands between that and the next product with it (PTX ISA, "wgmma.fence"; the exception are the
accumulators of products of the same shape, one after the other).

SASS has the same: `WARPGROUP.ARRIVE` is the fence, `gsb0` ends a group, `WARPGROUP.DEPBAR.LE gsb0, n` waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tilegen.backends.compiler import sass

# More groups than any wait leaves under way.
OLD = 9


@dataclass(frozen=True)
class Code:
    """One instruction: `uses` are all registers in it, `writes` those that it writes. A `product` has accumulators,
    registers of A, and its shape; a `wait` says how many groups may be under way; a `certain` one runs always."""

    text: str
    uses: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    accumulators: frozenset[str] = frozenset()
    factors: frozenset[str] = frozenset()
    shape: str = ""
    is_fence: bool = False
    ends_group: bool = False
    wait: int | None = None
    certain: bool = True
    target: str | None = None
    goes_on: bool = True


@dataclass(frozen=True)
class State:
    """`unfenced`: (register, what has used it since the last fence: a shape, or "" for anything else). `running`:
    (register, shape, or "" for one of A, how many groups have ended since)."""

    unfenced: frozenset[tuple[str, str]]
    running: frozenset[tuple[str, str, int]] = frozenset()

    def join(self, other: State) -> State:
        return State(self.unfenced | other.unfenced, self.running | other.running)


def faults(listing: sass.Listing, read: Callable[[sass.SassInstruction], Code]) -> list[str]:
    """What is against the rules in a kernel, each instruction once; `read` is `ptx_code` or `sass_code`."""
    codes, labels = [*map(read, listing.instructions)], listing.labels
    watched = frozenset().union(*(code.accumulators | code.factors for code in codes))
    if not watched:
        return []
    states: dict[int, State] = {0: State(frozenset((register, "") for register in watched))}
    found: dict[int, str] = {}
    waiting = [0]
    while waiting:
        place = waiting.pop()
        code = codes[place]
        wrong, after = _step(code, states[place], watched)
        if wrong:
            found[place] = f"{wrong}: {code.text[:100]}"
        behind = [labels[code.target]] if code.target in labels else []
        behind += [place + 1] if code.goes_on and place + 1 < len(codes) else []
        for each in behind:
            known = states.get(each)
            joined = after if known is None or known is after else known.join(after)
            if known != joined:
                states[each] = joined
                waiting.append(each)
    return [found[place] for place in sorted(found)]


def _step(code: Code, state: State, watched: frozenset[str]) -> tuple[str, State]:
    """(what is wrong with the instruction in this state, the state after it)."""
    if code.shape:
        return _product(code, state)
    running, unfenced, wrong = state.running, state.unfenced, ""
    used = code.uses & watched
    if not (used or code.is_fence or code.ends_group or code.wait is not None):
        return "", state
    if used:
        if any(name in (used if shape else code.writes) for name, shape, _ in running):
            wrong = "uses registers of a product that runs"
        unfenced |= {(name, "") for name in used}
    if code.is_fence and code.certain:
        unfenced = frozenset()
    if code.ends_group:
        running = frozenset((name, shape, min(age + 1, OLD)) for name, shape, age in running)
    if code.wait is not None and code.certain:
        running = frozenset(each for each in running if each[2] <= code.wait)
    return wrong, State(unfenced, running)


def _product(code: Code, state: State) -> tuple[str, State]:
    wrong = ""
    for name, by in state.unfenced:
        if name in code.factors and by != "A" or name in code.accumulators and by != code.shape:
            wrong = f"no fence behind the last use of {name}"
    for name, shape, _ in state.running:
        if name in code.factors and shape or name in code.accumulators and shape != code.shape:
            wrong = f"{name} is of another product that runs"
    mine = code.accumulators | code.factors
    kept = frozenset(each for each in state.unfenced if each[0] not in mine)
    kept |= {(name, code.shape) for name in code.accumulators} | {(name, "A") for name in code.factors}
    running = frozenset((name, shape, age) for name, shape, age in state.running if name not in mine)
    running |= {(name, code.shape, 0) for name in code.accumulators} | {(name, "", 0) for name in code.factors}
    if code.ends_group:
        running = frozenset((name, shape, min(age + 1, OLD)) for name, shape, age in running)
    return wrong, State(kept, running)


# -- PTX


def ptx_code(each: sass.SassInstruction) -> Code:
    text = " ".join(each.text.split())
    guard, word, rest = re.fullmatch(r"(@!?%\w+ )?(\S+)(.*)", text).groups()
    uses = frozenset(re.findall(r"%[a-z]+\d+", rest))
    certain = guard is None
    if word.startswith("wgmma.mma_async"):
        first, second = re.match(r" ?\{(.*?)\}, (\{.*?\}|%\w+)", rest).groups()
        factors = re.findall(r"%\w+", second) if second.startswith("{") else []
        return Code(text, uses, frozenset(), frozenset(re.findall(r"%\w+", first)), frozenset(factors), word)
    if word.startswith("wgmma."):
        wait = int(rest) if "wait_group" in word else None
        return Code(text, is_fence="fence" in word, ends_group="commit" in word, wait=wait, certain=certain)
    goes_on = not certain or not re.match(r"(bra|ret|exit|trap)\b", word)
    written = frozenset() if re.match(r"st|red|bar|bra|cp|mbarrier", word) else _first_operand(rest)
    return Code(text, uses, written, certain=certain, target=each.target, goes_on=goes_on)


def _first_operand(rest: str) -> frozenset[str]:
    return frozenset(re.findall(r"%[a-z]+\d+", re.match(r"\s*(\{.*?\}|[^,]*)", rest)[1]))


# -- SASS


def sass_code(each: sass.SassInstruction) -> Code:
    text, certain = each.text, not each.text.startswith("@")
    if match := re.match(r"(?:@\S+ )?[HIQ]?GMMA\.64x(\d+)x\d+\.(\S+) (R\w+), (?:(R\d+), )?", text):
        size, kind, first, factor = match.groups()
        words = int(size) // (2 if kind.startswith(("F32", "S32")) else 4)
        ends, shape = "gsb0" in text, text.split()[0 if certain else 1]
        return Code(text, accumulators=_range(first, words), factors=_range(factor, 4), shape=shape, ends_group=ends)
    if each.opcode.startswith("WARPGROUP"):
        wait = re.search(r"DEPBAR\.LE gsb0, (0x\d+)", text)
        return Code(text, is_fence="ARRIVE" in text, wait=int(wait[1], 16) if wait else None, certain=certain)
    operands = text.partition(each.opcode)[2]
    first = re.match(r"(?: U?!?U?P\w,?)* (R\d+)", operands)
    stores = re.match(r"ST|RED|BAR|SYNCS|U|BRA|BSSY", each.opcode)
    written = frozenset([first[1]] if first and not stores else [])
    goes_on = not (certain and re.match(r"EXIT|BRA(\.U)? `", text))
    return Code(text, frozenset(re.findall(r"\bR\d+", operands)), written, target=each.target, goes_on=goes_on)


def _range(first: str | None, words: int) -> frozenset[str]:
    """Neighbouring registers; none for RZ, which a group without products has."""
    if first in (None, "RZ"):
        return frozenset()
    return frozenset(f"R{int(first[1:]) + n}" for n in range(words))
