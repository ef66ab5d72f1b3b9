"""The printed text read back, and held against the lowered program that it was printed from.

`difference(text, launches, language)` says where they differ, or gives None. Both are walked side by side:
loops, tests, barriers, waits and declarations have to be the same ones in the same order. Each index, extent,
condition and offset has to be the same number, when sizes, coordinates and loops have random values, far from
their bounds where that tells more of them apart; values are compared as terms. Nothing runs, no name is taken
from the printer, and it serves CUDA as well as OpenCL. A new kind of node needs a case in `_node`.
"""

from __future__ import annotations

import random

from tests.support.reader import c_text
from tests.support.reader.bulk import BulkTexts, ReadByBulk
from tests.support.reader.c_text import NotOurs, kernels
from tests.support.reader.calls import Calls, same, written_by
from tests.support.reader.combined import Combined
from tests.support.reader.instructions import Instructions, warp_functions
from tests.support.reader.lists import Lists, conjuncts
from tests.support.reader.ragged import Ragged
from tests.support.reader.scatter import Scatters
from tests.support.reader.values import Memory, Mismatch
from tests.support.reader.vectors import Vectors
from tests.support.simulator.grid import coordinates
from tilegen.ir.hardware.memory import bytes_of
from tilegen.ir.nodes import DTYPE_BYTES, Access, Stmt
from tilegen.ir.walk import walk
from tilegen.lowering.launch import program as p
from tilegen.lowering.launch.lists import by_whole_blocks, taken_together
from tilegen.lowering.launch.timelines import COPIES, Arrive, Await, Barrier, LookBack

DRAWS = 2  # of random values for each launch
SWIZZLED = 12  # where single bits of them tell: each is wrong in half of the draws
AXES = ("x", "y", "z")


def difference(text, launches, language):
    """Where `text` is not what `launches` say, in a sentence; None if nowhere."""
    try:
        found, of_warps = kernels(text), warp_functions(text)
        used = {v.instruction.name for launch in launches for v in launch.nodes if isinstance(v, p.Perform)}
        same(used <= of_warps.keys(), True, "functions of instructions")
        same([k.name for k in found], [launch.name for launch in launches], "entry points")
        for kernel, launch in zip(found, launches, strict=True):
            for number in range(SWIZZLED if any(b.swizzle for b in launch.buffers.values()) else DRAWS):
                _Reading(launch, language, random.Random(number), of_warps).whole(kernel)
    except (Mismatch, NotOurs) as wrong:
        return str(wrong)
    return None


class _Reading(Lists, Calls, Vectors, Instructions, BulkTexts, Scatters, Ragged, Combined):
    """One walk over a launch and its text."""

    def __init__(self, launch, language, rng, of_warps):
        super().__init__(launch, language, rng)
        self.of_warps = of_warps

    # -- the head

    def whole(self, kernel):
        launch, self.functions, self.parts = self.launch, {f.name: f for f in kernel.functions}, {}
        self.flags = {}
        cluster = launch.cluster.dims if launch.cluster else ()
        bounds = launch.bounds
        same((kernel.threads, kernel.cluster), (bounds if self.cuda else launch.block, cluster), "threads")
        written = self.written = {name for v in walk(launch.body) for name in written_by(v)}
        scalars = {scalar.name: scalar.dtype for scalar in launch.scalars}
        maps = [each.name for each in launch.maps]
        names = [*launch.tensors, *maps, *scalars, *launch.sizes]
        same(len(kernel.parameters), len(names), "parameters")
        for (words, name), mine in zip(kernel.parameters, names, strict=True):
            if mine in launch.tensors:
                self.scope[name] = Memory(mine, 1)
                kind = [w for w in words if w not in ("*", "restrict", "__restrict__", "__global")]
                same(kind, ["const"] * (mine not in written) + self._type(mine), f"type of {mine}")
            elif mine in maps:
                same(words, ("const", "__grid_constant__", "TensorMap"), f"type of {mine}")
                self.scope[name] = ("map", mine)
            elif mine in scalars:
                same(list(words), self._working_type(scalars[mine]).split(), f"type of {mine}")
                self.scope[name] = ("scalar", mine)
            else:
                same(words, self.integer, f"type of {mine}")
                self.scope[name] = self.env[mine]
        self._rest(list(kernel.body))

    def _rest(self, body):
        places = {kind: self.rng.randrange(1, 10**4) for _, kind, _ in self.launch.coordinates}
        along = dict(places)
        if self.launch.left_out:  # all threads are launched along x, those along y and z one after another
            x, y, _ = self.launch.block
            number = places["thread.x"] = self.rng.randrange(1, 10**4)
            along |= {"thread.x": number % x, "thread.y": number // x % y, "thread.z": number // (x * y)}
            along |= {"thread.y": number // x} if self.launch.block[2] == 1 else {}
        self.env |= coordinates(self.launch, along, self.env)
        self.env[self.launch.tid] = self.launch.flat.evaluate(self.env)
        self.all_tiles(body)
        while body and not self._is_first_tile(body[0]) and (value := self._coordinate(body[0], places)) is not None:
            same(body[0].words, ("const", *self.integer), f"type of {body[0].name}")
            self.scope[body.pop(0).name] = value
        self.own_names(body)
        self._shared(body)
        self.body(self.launch.body, body)

    def _is_first_tile(self, node):
        """True of the number of a tile that goes on from matrix to matrix, which is no coordinate."""
        return bool(self.launch.ends) and isinstance(node, c_text.Declare) and node.words == ("int",)

    def _coordinate(self, node, places):
        """The value of a coordinate's declaration, or of the flat number of a thread; None for what is neither."""
        value = self._place(getattr(node, "start", None), places)
        if value is not None:
            return value
        first = self.launch.body[0] if self.launch.body else None
        flat = isinstance(node, c_text.Declare) and node.start is not None and node.name == self.launch.tid
        if not flat or isinstance(first, p.Let) and first.name == node.name:
            return None
        same(self.term(node.start), self.env[self.launch.tid], node.name)
        return self.env[self.launch.tid]

    def own_names(self, body):
        """Those that the text has for numbers which sizes decide."""
        sizes = {*self.launch.kernel.sizes}
        while body and isinstance(body[0], c_text.Declare) and body[0].words == ("const", *self.integer):
            if not _names(body[0].start) <= sizes:
                return
            named = body.pop(0)
            self.scope[named.name] = self.term(named.start)

    def pointers(self, texts):
        """Those to the tiles of arrays, in front of the first text that needs them."""
        while texts and isinstance(texts[0], c_text.Declare) and texts[0].words[-1] == "*":
            named = texts.pop(0)
            same(named.start[0], "&", f"start of {named.name}")
            ((array, (start,)),) = self.place(named.start[1])
            kind = ["const"] * (array not in self.written) + self._type(array)
            same(list(named.words), [*kind, "*"], f"type of {named.name}")
            self.scope[named.name] = Memory(array, 1, start)

    def _place(self, start, places):
        """The number along an axis, or a digit of it."""
        match start:
            case ("call", "uniform", (), (inner,)) if self.cuda:
                # All lanes of a warp have it.
                lanes = inner[2][1] if inner[0] == "/" else self.launch.block[0]
                same((lanes % 32, inner[-1] == "x"), (0, False), "a number that is the same for a warp")
                return self._place(inner, places)
            case ("field", ("name", "blockIdx" | "threadIdx" as word), axis) if self.cuda:
                return places.get(f"{word.removesuffix('Idx')}.{axis}")
            case ("call", "uniform", (), (number,)) if self.cuda:
                return self._place(number, places)  # the same in all lanes of a warp
            case ("call", "get_group_id" | "get_local_id" as word, (), (("number", axis),)) if not self.cuda:
                return places.get(f"{'block' if 'group' in word else 'thread'}.{AXES[axis]}")
            case ("/" | "%" as sign, left, right) if (value := self._place(left, places)) is not None:
                return value // self.term(right) if sign == "/" else value % self.term(right)
        return None

    def _type(self, buffer):
        return self.dialect.types[self.launch.buffers[buffer].dtype].split()

    def _shared(self, body):
        """The arrays in shared memory: their types, lengths, places and alignment."""
        vectors = {a.buffer for v in walk(self.launch.body) for a in _wide_accesses(v)}
        arrays = [b for b in self.launch.buffers.values() if b.space in ("shared", "barrier")]
        dynamic, end = body and getattr(body[0], "name", "") == "shared", 0
        if dynamic:
            same(body.pop(0).align, max(b.align for b in arrays), "alignment of shared memory")
        for buffer in arrays:
            node = body.pop(0)
            kind = ["unsigned", "long", "long"] if buffer.space == "barrier" else self._type(buffer.name)
            lengths = [buffer.shape[d].const for d in buffer.order] or [1]
            lengths[-1] += buffer.pad
            if dynamic:
                match node.start:
                    case ("cast", _, ("name", "shared")):
                        start = 0
                    case ("cast", _, ("+", ("name", "shared"), ("number", start))):
                        pass
                    case _:
                        raise Mismatch(f"place of {buffer.name}")
                same(start % buffer.align == 0 and start >= end, True, f"place of {buffer.name} behind the one before")
                end = start + bytes_of(buffer)
                inner = [self.term(n) for n in node.dims] if len(lengths) > 1 else []
                same([*node.words], kind + ["*"] * (len(lengths) == 1), f"type of {buffer.name}")
                same(inner, lengths[1:], f"lengths of {buffer.name}")
            else:
                same([self.term(n) for n in node.dims], lengths, f"lengths of {buffer.name}")
                space = "__shared__" if self.cuda else "__local"
                words = [w for w in node.words if w != "__align__"]
                same(words, [space, *kind], f"type of {buffer.name}")
                aligned = buffer.name in vectors or buffer.align > 16
                same(node.align, buffer.align if aligned else 0, f"alignment of {buffer.name}")
            self.scope[node.name] = Memory(buffer.name, len(lengths))
        same(end <= self.launch.shared_bytes, True, "bytes of shared memory")
        for node in (v for v in walk(self.launch.body) if isinstance(v, p.Combine) and not self.cuda):
            for dtype in (node.dtype, node.arg_dtype) if node.arg else (node.dtype,):
                text = body.pop(0)
                same(list(text.words), ["__local", *self.dialect.types[dtype].split()], f"type of {text.name}")
                same([self.term(n) for n in text.dims], [self.launch.threads], f"lengths of {text.name}")

    # -- the body

    def body(self, nodes, texts):
        """Each node takes the texts that print it from the list."""
        outer, texts = dict(self.scope), list(texts)
        names = [text.name for text in texts if isinstance(text, c_text.Declare | c_text.Function)]
        same(len({*names}), len(names), f"names that a block declares, {', '.join(names)}")
        mine = [node for node in nodes if self._is_printed(node)]
        for node in mine:
            self.pointers(texts)
            if not texts:
                raise Mismatch(f"no text for {type(node).__name__}")
            self._node(node, texts, alone=len(mine) == 1)
        same(len(texts), 0, f"texts too many, after {type(mine[-1]).__name__ if mine else 'nothing'}")
        self.scope = outer

    def _is_printed(self, node):
        match node:
            case Arrive(line) | Await(line) if line.only_cuda:
                return self.cuda
            case p.Function() if not self.cuda:
                self.parts[node.name] = (node, dict(self.env))
                return False
            case p.For(body=body):
                return any(map(self._is_printed, body))
            case p.If():
                return any(map(self._is_printed, (*node.body, *node.orelse)))
        return True

    def _node(self, node, texts, alone):
        if not self.bit[0] and (pair := taken_together(node)):
            whole = self.cuda and id(node) in by_whole_blocks(self.launch)
            self.together(node, *pair, whole, texts)
            return
        match node:
            case p.For():
                kinds = {"scatter": self.scatter, "ragged": self.ragged, "tiles": self.tiles, "handed": self.handed}
                kinds.get(node.kind, self._for)(node, texts, alone)
            case p.If():
                text = self._take(texts, c_text.If)
                self._test(node.test, text.test, node.flag)
                self.role(node.body, text.body)
                self.body(node.orelse, text.orelse)
            case p.Function():
                self.function(node, self._take(texts, c_text.Function))
            case p.Call():
                call = self._take(texts, c_text.Call).call
                self.call(node, call) if self.cuda else self.call_outside(node, call)
            case p.Flag(name, test):
                text = self._take_declaration(texts, ("const", "bool"))
                self._test(test, text.start)
                self.scope[text.name] = ("flag", name)
                self.flags[name] = test
            case p.Let(name, value):
                text = self._take_declaration(texts, ("const", *self.integer))
                self.env[name] = value.evaluate(self.env)
                same(self.term(text.start), self.env[name], name)
                self.scope[text.name] = self.env[name]
            case Barrier():
                self._barrier(node, texts)
            case LookBack():
                self.look_back(node, texts)
            case _ if isinstance(node, ReadByBulk):
                self.bulk(node, texts)
            case p.Combine():
                self.combined(node, texts)
            case p.Perform():
                self.perform(node, texts)
            case p.Declare():
                self._declare(node, texts)
            case p.VectorLoad() | p.VectorDeclare() | p.VectorStore() | p.VectorCopy():
                self.vector(node, texts)
            case Stmt() if node.hits:
                self.list(node, texts)
            case Stmt():
                self._statement(node, [texts.pop(0) for _ in range(max(1, len(texts)) if alone else 1)])
            case _:
                raise TypeError(f"readback.py does not know {node}")

    def _statement(self, node, texts):
        same(self.effects(texts), self.wanted_effects(node), f"statement {node.name}")

    def _take(self, texts, kind):
        if not texts or not isinstance(texts[0], kind):
            raise Mismatch(f"{kind.__name__} expected, and there is {texts[0] if texts else 'nothing'}")
        return texts.pop(0)

    def _take_declaration(self, texts, words):
        text = self._take(texts, c_text.Declare)
        same(text.words, words, f"type of {text.name}")
        return text

    def _for(self, node, texts, _):
        outer = dict(self.scope)
        self.first_windows(node, texts)
        text = self._take(texts, c_text.For)
        same(tuple(text.kind.split()), self.integer, f"type of {text.name}")
        same(self.term(text.extent), node.extent.evaluate(self.env), f"extent of {node.name}")
        same(self.term(text.first), 0, f"the first {node.name}")
        self.env[node.name] = self.scope[text.name] = self.rng.randrange(1, 10**4)
        self.body(node.body, self.numbered(node, text.body, texts))
        self.scope = outer

    def _test(self, test, text, flag=""):
        if text[0] == "call" and text[1] == "hidden":
            (text,) = text[3]
        parts = conjuncts(text)
        if flag:
            same(self.term(parts.pop(0)), ("flag", flag), "the name of a test")
            test = [condition for condition in test if condition not in self.flags[flag]]
        same(len(parts), len(test), f"conditions in {test}")
        for part, condition in zip(parts, test, strict=True):
            value = condition.value.evaluate(self.env)
            same(self.margin(part), (abs(value) if condition.equal else value, condition.equal), f"test {condition}")

    def _barrier(self, node, texts):
        if not self.cuda:
            fences = {"CLK_LOCAL_MEM_FENCE"} | ({"CLK_GLOBAL_MEM_FENCE"} if node.of_global else set())
            call = self._take(texts, c_text.Call).call
            same(call[1], "barrier", "a barrier")
            same({part[1] for part in _parts(call[3][0], "|")}, fences, "fences")
            return
        if node.wait is not None:
            self.said(COPIES.wait, Await(COPIES, left=node.wait), texts)
        if node.fence:
            self.said(node.line.fence, node, texts)
        self.said(node.line.wait, node, texts)

    def _declare(self, node, texts):
        buffer, outer = self.launch.buffers[node.buffer], dict(self.scope)
        while texts and isinstance(texts[0], c_text.Declare) and texts[0].words[0] == "const":
            part = texts.pop(0)  # of the first value, computed once
            self.scope[part.name] = self.term(part.start)
        text = self._take(texts, c_text.Declare)
        shared = buffer.fragment is not None or node.buffer in self._operands()
        packed = self.cuda and DTYPE_BYTES[buffer.dtype] < 4 and shared  # registers hold several elements
        words = ["__align__"] * packed + self._type(node.buffer)
        same((list(text.words), text.align), (words, 4 * packed), f"type of {text.name}")
        same([self.term(n) for n in text.dims], [e.const for e in buffer.shape], f"lengths of {node.buffer}")
        if text.start == ("zeros",):
            same((bool(buffer.shape), node.start and node.start.value), (True, 0), f"first value of {node.buffer}")
            self.scope = {**outer, text.name: Memory(node.buffer, len(buffer.shape))}
            return
        same(node.start is not None and bool(buffer.shape), False, f"first values of {node.buffer}")
        start = None if text.start is None else self.term(text.start)
        wanted = None if node.start is None else self.store_term(node.start, Access(node.buffer, ()))
        same(start, wanted, f"first value of {node.buffer}")
        self.scope = {**outer, text.name: Memory(node.buffer, len(buffer.shape))}

    def _operands(self):
        """The buffers that instructions use, registers and shared memory."""
        return {a.buffer for v in walk(self.launch.body) if isinstance(v, p.Perform) for a in v.operands}


def _parts(text, sign):
    return _parts(text[1], sign) + _parts(text[2], sign) if text[0] == sign else [text]


def _names(text):
    if text[:1] in (("name",), ("number",)):
        return {text[1]} if text[0] == "name" else set()
    return {name for part in text if isinstance(part, tuple) for name in _names(part)}


def _wide_accesses(value):
    match value:
        case p.Perform():
            return value.operands
        case p.VectorCopy():
            return value.target, value.source
        case p.VectorLoad(source=access) | p.VectorStore(target=access):
            return (access,)
    return ()
