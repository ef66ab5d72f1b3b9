"""Bulk copies in a text, read back: barriers started, bytes expected, boxes copied, and waits by parity."""

from __future__ import annotations

from tests.support.reader import c_text
from tests.support.reader.calls import same
from tests.support.reader.values import Mismatch, Values
from tilegen.lowering.bulk_nodes import (
    BulkCopies,
    BulkCopy,
    BulkNode,
    BulkStore,
    BulkStores,
    BulkWait,
    MeetCluster,
    NextSlot,
    PassTurn,
    Release,
    SkipSlots,
    StartBarriers,
    StartRing,
    StoreNode,
    StoresRead,
    TakeTurn,
)
from tilegen.lowering.launch_nodes import AwaitLaunches, LaunchNode, LetNextBegin
from tilegen.lowering.register_budgets import RegisterBudget

ReadByBulk = BulkNode | StoreNode | RegisterBudget | LaunchNode


class BulkTexts(Values):
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
                waiting = "wait_for_cluster" if node.cluster else "__syncthreads"
                same(self._take(texts, c_text.Call).call, ("call", waiting, (), ()), "the wait for a start")
            case MeetCluster():
                same(self._call(texts), ("wait_for_cluster", ()), "a meeting of the cluster")
            case BulkCopies(barrier, _, bytes_, body):
                word, (at, count) = self._call(texts)
                same(
                    (word, self._barrier_at(at), self.term(count)), ("expect_bytes", self._at(barrier), bytes_), "bytes"
                )
                self.bulk_body(body, texts)
            case BulkWait(barrier, phase):
                word, (at, parity) = self._call(texts)
                wanted = ("wait_barrier", self._at(barrier), phase.evaluate(self.env) % 2)
                same((word, self._barrier_at(at), self.term(parity)), wanted, "a wait")
            case Release(barrier, _):
                word, (at, *blocks) = self._call(texts)
                wanted = ("release_in_cluster", [node.blocks]) if node.blocks else ("release", [])
                same((word, [self.term(each) for each in blocks]), wanted, "a release")
                same(self._barrier_at(at), self._at(barrier), "what is released")
            case StartRing(at):
                # Read at one place of the ring: no two integers of it are alike there.
                self.env[at.number] = (2 * at.slots + 1) * at.slots + at.slots - 1
                for value in self._in_ring(at):
                    text = self._take_declaration(texts, ("int",))
                    same(self.term(text.start), 0, f"the start of {at.number}")
                    self.scope[text.name] = value
            case NextSlot() | SkipSlots() | TakeTurn() | PassTurn():
                self.turn(node, texts)
            case RegisterBudget(count, more):
                (_, word, kinds, arguments) = self._take(texts, c_text.Call).call
                wanted = ("take_registers" if more else "give_registers", (str(count),), ())
                same((word, kinds, arguments), wanted, "a register budget")
            case LetNextBegin() | AwaitLaunches():
                self._overlap(node, texts)
            case BulkStores() | BulkStore() | StoresRead():
                self.store(node, texts)
            case BulkCopy():
                self.copy(node, texts)

    def _overlap(self, node, texts):
        """A part in overlapping launches; OpenCL's run one after the other."""
        if self.cuda:
            word = "let_next_launch_begin" if isinstance(node, LetNextBegin) else "wait_for_earlier_launches"
            same(self._take(texts, c_text.Call).call, ("call", word, (), ()), "overlapping launches")

    def copy(self, node, texts):
        target, barrier, coordinates = node.target, node.barrier, node.coordinates
        word, (to, box, at, *places) = self._call(texts)
        same(word, f"{'multicast' if node.blocks else 'copy'}_box_{len(coordinates)}d", "a copy of a box")
        if node.blocks:
            blocks, *places = places
            same(self.term(blocks), node.blocks, "the blocks that a box goes to")
        same(self.scope.get(box[1]), ("map", node.map), "a tensor map")
        same(self._barrier_at(at), self._at(barrier), "where a box arrives")
        self._same_coordinates(places, coordinates)
        same(self._start(to, target), self._first(target), f"where a box begins in {target.buffer}")

    def turn(self, node, texts):
        (_, word, kinds, arguments) = self._take(texts, c_text.Call).call
        match node:
            case NextSlot(at):
                same((word, kinds), ("next_slot", (str(at.slots),)), "the next slot")
                same([self.term(each) for each in arguments], self._in_ring(at), "its place")
            case SkipSlots(at, count):
                *place, by = arguments
                same((word, kinds), ("skip_slots", (str(at.slots),)), "slots of others")
                same([self.term(each) for each in place], self._in_ring(at), "their place")
                same(self.term(by), count.evaluate(self.env), "how many slots others have")
            case TakeTurn(group, threads) | PassTurn(group, threads):
                wanted = "take_turn" if isinstance(node, TakeTurn) else "pass_turn"
                same((word, kinds), (wanted, (str(threads),)), "a turn")
                same([self.term(each) for each in arguments], [group.evaluate(self.env)], "whose turn it is")

    def _in_ring(self, at):
        """The slot and the parity of the phase."""
        return [self.env[at.number] % at.slots, self.env[at.number] // at.slots % 2]

    def barrier_call(self, node, texts):
        word = ("wait_for_each_other", (str(node.threads),)) if node.threads else ("__syncthreads", ())
        word = ("wait_for_group", (str(node.threads),)) if node.group else word
        call = self._take(texts, c_text.Call).call
        same(call[:3], ("call", *word), "a barrier")
        same([self.term(each) for each in call[3]], [self.env[node.group]] if node.group else [], "whose barrier")

    def store(self, node, texts):
        match node:
            case BulkStores(body):
                self.bulk_body(body, texts)
                same(self._call(texts), ("end_stores", ()), "the end of a group of stores")
            case StoresRead():
                same(self._call(texts), ("wait_stores_read", ()), "a wait for stores")
            case BulkStore(source, name, coordinates):
                word, (box, start, *places) = self._call(texts)
                same(word, f"store_box_{len(coordinates)}d", "a store of a box")
                same(self.scope.get(box[1]), ("map", name), "a tensor map")
                self._same_coordinates(places, coordinates)
                same(self._start(start, source), self._first(source), f"where a box begins in {source.buffer}")

    def _same_coordinates(self, texts, coordinates):
        wanted = [c.evaluate(self.env) for c in coordinates]
        same([self.term(self._whole(text)) for text in texts], wanted, "the coordinates of a box")

    def bulk_body(self, body, texts):
        """The copies behind an arrival stand in its list."""
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
