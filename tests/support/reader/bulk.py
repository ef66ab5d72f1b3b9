"""Bulk copies in a text, read back: barriers started, bytes expected, boxes copied, and waits by parity."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.support.enumeration.machine import shown_by
from tests.support.reader import c_text
from tests.support.reader.calls import same
from tests.support.reader.dealt import DealtTiles
from tests.support.reader.values import Mismatch, Values
from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Access, Condition
from tilegen.lowering.launch.program import Start, TimelineNode, nodes, rings
from tilegen.lowering.launch.timelines import Arrive, Await, Box, Event, Fence, StartBarriers

ReadByBulk = TimelineNode
# What a function of a ring does: with the barrier of its slot in which array, and the parity or the other one.
OF_RINGS = {
    "wait_filled": ("wait_barrier", "filled", 0),
    "wait_emptied": ("wait_barrier", "emptied", 1),
    "expect": ("expect_bytes", "filled", 0),
    "release": ("arrive_once_a_warp", "emptied", 0),
    "release_previous": ("arrive_once_a_warp", "emptied", 0),
}


class BulkTexts(Values, DealtTiles):
    def bulk(self, node, texts):
        match node:
            case StartBarriers(names):
                for name, arrivals in names:
                    word, (array, count, each) = self._call(texts)
                    same(self.term(each), arrivals, f"how often {name} is arrived at")
                    same(
                        (word, self.place(("at", array, ("number", 0)))), ("start_barriers", ((name, (0,)),)), "a start"
                    )
                    same(self.term(count), self.launch.buffers[name].shape[0].const, f"how many of {name} start")
                self.said(node.line.wait, node, texts)
            case _:
                self.timeline(node, texts)

    # -- what counts the numbers of a ring

    def role(self, body, texts):
        """A role begins to count: the first number is 0, or after the runs of the groups before its own."""
        outer, texts = dict(self.scope), list(texts)
        begun = [(ring, run) for ring, run in rings(body)[:1] if ring.number not in self.env]
        for ring, run in begun:
            # Read at one place of the ring: no two integers of it are alike there.
            self.env[ring.number] = (2 * ring.slots + 1) * ring.slots + ring.slots - 1
            at = [getattr(getattr(node, "line", None), "name", "") for node in body[:1]].count("registers")
            text = self._take_declaration(behind := texts[at:], ("Ring", "<", str(ring.slots), ">"))
            places = [self.place(("at", array, ("number", 0))) for array in text.start[1:]]
            same(places, [((ring.filled, (0,)),), ((ring.emptied, (0,)),)], f"the barriers of {ring.number}")
            self.scope[text.name] = replace(ring, group="")
            if ring.group:
                first = self._take(behind, c_text.If)
                self._test((Condition(var(ring.group) - 1),), first.test)
                same(len(first.body) - len(first.orelse), 1, "what is left out first")
                self._count(first.body[0], "skip", ring, run)
            texts[at:] = behind
        self.body(body, texts)
        for ring, _ in begun:
            del self.env[ring.number]
        self.scope = outer

    def numbered(self, loop, inner, texts):
        """The texts of an iteration, but for the last one, which goes on to the next number; others' are left out."""
        ring = loop.ring
        if not ring:
            return inner
        if ring.group:
            skip = next((text for text in texts if isinstance(text, c_text.Call) and text.call[1] == "skip"), None)
            at = len(texts) if skip is None else texts.index(skip)
            self._count(skip, "skip", ring, loop.extent)
            same([text for text in texts[at + 1 :] if repr(skip.call[3][0]) in repr(text)], [], "after other slots")
            del texts[at]
        *inner, last = inner
        self._count(last, "advance", ring)
        return inner

    def _count(self, text, word, ring, *by):
        (_, found, _, (at, *count)) = self._take([text], c_text.Call).call
        same((found, self.term(at)), (word, replace(ring, group="")), "other slots")
        same([self.term(each) for each in count], [each.evaluate(self.env) for each in by], "how many")

    def timeline(self, node, texts):
        """What is said of an event, or what is started, in the words of its row."""
        line = node.line
        match node:
            case Start():
                if line.opens:
                    self.said(line.opens, node, texts)
                self.bulk_body(node.body, texts)
                if line.arrive:
                    self.said(line.arrive, node, texts)
            case Arrive():
                self.said(line.arrive_at_blocks if node.blocks else line.arrive, node, texts)
            case Await():
                self.said(line.wait, node, texts)
                self.hold(node.buffers if line.in_registers else (), texts)
            case Fence(buffers=()):
                self.said(line.fence, node, texts)
            case Fence(buffers=held):
                self.hold(held, texts)
            case Box():
                words = line.box_of_blocks if node.blocks else line.box
                self.said(words.replace("_box_", "_windows_") if node.windows else words, node, texts)
            case _:
                raise TypeError(f"bulk.py does not know {node}")

    def said(self, words, node, texts):
        """The next statement is the call that these words are, of what the node says."""
        said = {**vars(node), "earlier_": "earlier_" if getattr(node, "left", 0) else ""}
        if isinstance(node, Box):
            coordinates = self._of_windows(node) if node.windows else node.coordinates
            said |= {"rank": len(node.windows.index if node.windows else coordinates), "coordinates": coordinates}
        said |= {"parity": node.number % 2} if isinstance(node, Event) else {}
        wanted, kind, names = re.fullmatch(r"(.+?)(?:<(.*)>)?\((.*)\)", words).groups()
        given = [(name, said[name]) for name in re.findall(r"\w+", names)]
        given = [(name, each) for name, value in given for each in (value if name == "coordinates" else (value,))]
        (_, found, kinds, values) = self._take(texts, c_text.Call).call
        read = []
        if found in OF_RINGS:
            found, values, read = self._at_ring(found, *values)
        same((found, kinds), (wanted.format_map(said), (kind.format_map(said),) if kind else ()), "a call")
        same(len(read) + len(values), len(given), f"arguments of {found}")
        read += [self._read(name, value, text) for (name, value), text in zip(given[len(read) :], values, strict=True)]
        for (name, value), mine in zip(given, read, strict=True):
            same(mine, self._meant(name, value), f"the {name} of {found}")

    def _of_windows(self, box):
        """Where the first of the windows begins, and how far from there the box is, the fastest dimension first."""
        digits, place = box.windows.digits, [c.evaluate(self.env) for c in box.coordinates[::-1]]
        inner = {group[0][0]: at for group, at in zip(digits[1:-1], place[1:-1], strict=True)}
        _, first = shown_by(box.windows, [place[0], *[0] * len(inner), place[-1]], self.env)
        return [*first[::-1], *(inner.get(m.inner, 0) * m.inner_step for m in box.windows.moved[::-1])]

    def first_windows(self, loop, texts):
        """The names, in front of a loop, of where the windows begin that it copies."""
        copies = loop.ring and any(isinstance(node, Box) and node.windows for node in nodes(loop.body))
        while copies and texts and isinstance(texts[0], c_text.Declare):
            named = self._take_declaration(texts, ("const", *self.integer))
            self.scope[named.name] = self.term(named.start)

    def _read(self, name, value, text):
        """An argument in the text: of addresses the place."""
        match name:
            case "place":
                return self._start(text, value)
            case "map":
                return self.scope.get(text[1])
            case "coordinates":
                return self.term(self._whole(text))
        return self._barrier_at(text) if text[0] == "&" else self.term(text)

    def _meant(self, name, value):
        match value:
            case Access():
                return self._first(value) if name == "place" else self._at(value)
            case Affine():
                return value.evaluate(self.env)
        return ("map", value) if name == "map" else value

    def _at_ring(self, word, ring, *values):
        """(the function that does the same with a barrier, its other arguments, the barrier and the parity)."""
        at = self.term(ring)
        slot, parity = self.in_ring(at)
        does, array, turned = OF_RINGS[word]
        slot = (slot - 1) % at.slots if word == "release_previous" else slot
        waits = [parity ^ turned] if does == "wait_barrier" else []
        return does, values, [((getattr(at, array), (slot,)),), *waits]

    def bulk_body(self, body, texts):
        """The copies after an arrival stand in its list."""
        for node in body:
            self._node(node, texts, alone=False)

    def _call(self, texts):
        _, word, _, arguments = self._take(texts, c_text.Call).call
        return word, arguments

    def _at(self, access):
        return ((access.buffer, tuple(i.evaluate(self.env) for i in access.index)),)

    def _barrier_at(self, text):
        same(text[0], "&", "the address of a barrier")
        return self.place(text[1])

    def _whole(self, text):
        """A coordinate: offsets of 64 bits are brought to the 32 that the hardware takes."""
        if not self.launch.wide:
            return text
        if text[:3] != ("call", "static_cast", ("int",)):
            raise Mismatch(f"{text} is no integer of 32 bits")
        return text[3][0]

    def _start(self, text, target):
        """The place of the element whose address the text gives: of an array it is the first one."""
        if text[0] == "&":
            return self.place(text[1])
        inner, count = text, 0
        while inner[0] == "at":
            inner, count = inner[1], count + 1
        for _ in range(len(self.launch.buffers[target.buffer].order) - count):
            text = ("at", text, ("number", 0))
        return self.place(text)

    def _first(self, access):
        """The place of an element, no swizzle applied."""
        index = [i.evaluate(self.env) for i in access.index]
        return ((access.buffer, tuple(index[d] for d in self.launch.buffers[access.buffer].order)),)
