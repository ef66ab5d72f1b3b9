"""Vectors in a text, read back: their variables, loads, stores and copies."""

from __future__ import annotations

from dataclasses import replace

from tests.support.reader import c_text
from tests.support.reader.calls import same
from tests.support.reader.values import Memory, Mismatch, Values, vector_bytes
from tilegen.ir.nodes import DTYPE_BYTES
from tilegen.lowering.launch import program as p


class Vectors(Values):
    def vector(self, node, texts):
        match node:
            case p.VectorStore(where=where) | p.VectorCopy(where=where) if where:
                text = self._take(texts, c_text.If)
                same(self.term(text.test), self._value(where), "where a vector is stored")
                self.vector(replace(node, where=None), list(text.body))
            case p.VectorCopy(asynchronous=True) if self.cuda:
                call = self._take(texts, c_text.Call).call
                places = [self.place(arg[1]) if arg[0] == "&" else None for arg in call[3][:2]]
                word = "copy_async_or_zero" if node.inside else "copy_async"
                same((call[1], call[2]), (word, (str(node.bytes),)), "an asynchronous copy")
                same(places, [self.place_of(node.target), self.place_of(node.source)], "places of a copy")
                wanted = [self._value(node.inside)] if node.inside else []
                same([self.term(arg) for arg in call[3][2:]], wanted, "where a copy reads")
            case p.VectorCopy(width=1):
                value = self.store_term(node.value(node.source), node.target)
                same(self.effects([texts.pop(0)]), [("write", self.place_of(node.target), value)], "a copy")
            case p.VectorCopy() if "register" in (spaces := self._spaces(node)):
                self._check_move(node, spaces[0] == "register", texts)
            case p.VectorCopy():
                value = (*self.plain(node.source), node.bytes)
                value = ("select", self._value(node.inside), value, 0) if node.inside else value
                wanted = [("write", (*self.place_of(node.target), node.bytes), value)]
                same(self.effects([texts.pop(0)]), wanted, "a copy of vectors")
            case p.VectorStore(name, dtype, width, target, update) if update:
                wanted = [("update", update, f"{dtype}x{width}", self.place_of(target), ("vector", name))]
                same(self.effects([texts.pop(0)]), wanted, f"update with {name}")
            case p.VectorStore(name, dtype, width, target):
                place = (*self.place_of(target), DTYPE_BYTES[dtype] * width)
                same(self.effects([texts.pop(0)]), [("write", place, ("vector", name))], f"store of {name}")
            case _:
                self._vector_variable(node, texts)

    def _vector_variable(self, node, texts):
        text, bytes_ = self._take(texts, c_text.Declare), DTYPE_BYTES[node.dtype] * node.width
        if text.dims:  # CUDA has no such vector: an array that is moved as one integer
            same((text.words[0], [self.term(n) for n in text.dims]), ("__align__", [node.width]), f"array {text.name}")
            same(list(text.words[1:]), self.dialect.types[node.dtype].split(), f"type of {text.name}")
        else:
            same(vector_bytes(text.words), bytes_, f"type of {text.name}")
        self.scope[text.name] = Memory(node.name, -1)
        if isinstance(node, p.VectorDeclare):
            same(text.start, None, f"first value of {text.name}")
            return
        wanted = (*self.plain(node.source), bytes_)
        if not text.dims:
            same(self.term(text.start), wanted, f"load of {text.name}")
            return
        same(self.effects([texts.pop(0)]), [("write", ((node.name, ()), bytes_), wanted)], f"load of {text.name}")

    def _spaces(self, node):
        return [self.launch.buffers[access.buffer].space for access in (node.target, node.source)]

    def _check_move(self, node, loads, texts):
        """Registers from memory or to it: a helper in CUDA, in OpenCL the language's own."""
        registers, memory = (node.target, node.source) if loads else (node.source, node.target)
        text = texts.pop(0)
        match text:
            case c_text.Call(("call", "load_vector" | "store_vector" as word, kind, (to, source))) if self.cuda:
                same((word, vector_bytes(kind)), ("load_vector" if loads else "store_vector", node.bytes), "a vector")
                start, place = (to, source) if loads else (source, to)
                place = (*self.place(place[1]),) if place[0] == "&" else None
            case c_text.Call(("call", word, (), (("*", ("cast", kind, ("&", place))), ("number", 0), start))) if loads:
                same((word, vector_bytes(kind)), (f"vstore{node.width}", node.bytes), "a vector")
                place = self.place(place)
            case c_text.Assign(("*", ("cast", kind, ("&", place))), "=", ("call", word, (), (("number", 0), start))):
                same((loads, word, vector_bytes(kind)), (False, f"vload{node.width}", node.bytes), "a vector")
                place = self.place(place)
            case _:
                raise Mismatch(f"{text} for a copy of {node.source.buffer} to {node.target.buffer}")
        same(place, self.place_of(memory), f"place of a vector in {memory.buffer}")
        start = start[1] if start[0] == "&" else ("at", start, ("number", 0))
        same(self.place(start), self.place_of(registers), f"place of a vector in {registers.buffer}")
