"""The words by which blocks hand on a value, with blocks that run in any order, are late or stop for long.

They are the helpers of the texts, `sum_of_blocks_before` and `linear_of_blocks_before`, written again: each step of a
block is one access to memory that all blocks share, and a search draws who makes the next one. Only so many blocks run
at a time: one begins when another has ended, as on a GPU. What a block writes to two words is seen in any order.
"""

from __future__ import annotations

FAULTS = (
    "total is told as if it were all",
    "flag before the value",
    "order of the grid",
    "further blocks are left out",
    "launches are not told apart",
    "the next launch has the same number",
    "a factor is not waited for",
)


class Stuck(Exception):
    """No block that runs can go on."""


def blocks_hand_on(totals, resident, pick, fault=None, launches=2, factors=None):
    """What each block finds before it, for each of some launches on the same words: the sum of the totals, or what is
    multiplied by each of the `factors` before its total is added. Raises Stuck.
    """
    count = len(totals)
    words, results = {"drawn": (0, 0), **{n: (0, 0, 0) for n in range(count)}}, []
    words |= {("factor", n): (0, 0) for n in range(count)}
    for launch in range(1, launches + 1):  # each adds other numbers
        found = {}
        waiting = list(range(count))
        running = []
        while waiting or running:
            while waiting and len(running) < resident:
                place = waiting.pop(pick(range(len(waiting))))  # the hardware begins blocks in any order
                added = [each * launch for each in totals]
                running.append(
                    _block(place, added, factors and [f + launch for f in factors], words, found, fault, pick)
                )
            moved = _move(running, words, pick)
            if not moved:
                raise Stuck
        results.append([found[n] for n in range(count)])
    return results


def _move(running, words, pick):
    """One step of a block that can make one; a block that polls in vain has made none."""
    order = list(running)
    while order:
        block = order.pop(pick(range(len(order))))
        before = dict(words)
        try:
            progress = next(block)
        except StopIteration:
            running.remove(block)
            return True
        if progress or words != before:
            return True
    return False


def _block(place, totals, factors, words, found, fault, pick):
    """A block, a step at a time: each gives whether it has come further."""
    launch, number = words["drawn"]
    words["drawn"] = launch, number + 1
    if fault == "order of the grid":
        number = place
    if number >= len(totals):
        raise Stuck
    yield True
    if number == len(totals) - 1:
        words["drawn"] = launch + (fault != "the next launch has the same number"), 0
        yield True
    told = 2 if number == 0 or fault == "total is told as if it were all" else 1
    if fault == "flag before the value":
        words[number] = (launch, told, words[number][2])
        yield True
    news = {number: (launch, told, totals[number])}
    if factors:
        news |= {("factor", number): (launch, factors[number])}
    while news:
        key = pick(list(news))
        words[key] = news.pop(key)
        yield True
    before, by, last = 0, 1, number - 1
    while number:
        window = range(last, max(-1, last - 4), -1)  # a warp looks back at 32; here at 4
        same = fault == "launches are not told apart"
        kinds = (int, tuple) if factors and fault != "a factor is not waited for" else (int,)
        read = [key for n in window for key in (n, ("factor", n)) if isinstance(key, kinds)]
        while any(words[key][1] == 0 or (words[key][0] != launch and not same) for key in read):
            yield False
        seen = [words[n] for n in window]
        yield True
        complete = next((n for n, (_, known, _) in enumerate(seen) if known == 2), None)
        if fault == "further blocks are left out":
            complete = 0 if complete is None else complete
        for n, (_, _, value) in list(zip(window, seen, strict=True))[: None if complete is None else complete + 1]:
            before, by = by * value + before, by * words["factor", n][1] if factors else 1
        if complete is not None:
            break
        last -= 4
    if number:
        words[number] = (launch, 2, (factors[number] if factors else 1) * before + totals[number])
        yield True
    found[number] = before
    yield True
