"""Functions of a text, read back where they are called: in CUDA lambdas, in OpenCL functions outside of the kernel."""

from __future__ import annotations

from tests.support.reader.values import Mismatch, Values
from tilegen.ir.nodes import Stmt
from tilegen.ir.walk import walk, writes
from tilegen.lowering.launch import program as p
from tilegen.lowering.launch.timelines import LookBack


def same(mine, wanted, what):
    if mine != wanted:
        raise Mismatch(f"{what}: {mine} in the text, and {wanted} in the program")


class Calls(Values):
    """`functions` are those in front of the kernel's text, `parts` those of the program with what they see."""

    def function(self, node, text):
        """A lambda is read where it is called; here it is kept, with the names that it sees."""
        kinds = [words for words, _ in text.parameters]
        same(kinds, [self.integer] * len(node.parameters), f"parameters of {node.name}")
        self.scope[text.name] = (node, text, dict(self.scope), dict(self.env))

    def call(self, node, call):
        """The body of the function, with the values of its parameters."""
        function, text, scope, env = self.scope.get(call[1]) or (None, None, {}, {})
        same(function and function.name, node.function, "a function that is called")
        values = [argument.evaluate(self.env) for argument in node.arguments]
        same([self.term(argument) for argument in call[3]], values, f"arguments of {node.function}")
        self._run_inside(
            text, scope | dict(zip((name for _, name in text.parameters), values, strict=True)), function, env, values
        )

    def call_outside(self, node, call):
        """In OpenCL a function stands outside of the kernel, and sees nothing but what it is given."""
        if call[1] not in self.functions or node.function not in self.parts:
            raise Mismatch(f"'{call[1]}' is no function")
        text, (function, env) = self.functions[call[1]], self.parts[node.function]
        same(call[1], f"{self.launch.name}_{node.function.replace('.', '_')}", "a function that is called")
        same(len(call[3]), len(text.parameters), f"arguments of {node.function}")
        scope = {}
        for (words, name), argument in zip(text.parameters, call[3], strict=True):
            if "*" in words:
                scope[name] = self._handed_over(words, argument)
            else:
                scope[name] = self.term(argument)
                same(words, self._type_of(scope[name]), f"type of {name}")
        values = [argument.evaluate(self.env) for argument in node.arguments]
        given = [scope[name] for _, name in text.parameters[len(text.parameters) - len(values) :]]
        same(given, values, f"arguments of {node.function}")
        # What is named between the start of the list and the function is known by now, and not yet there.
        self._run_inside(text, scope, function, self.env | env, values)

    def _type_of(self, value):
        """The words of the type of an integer, or of a scalar argument of the kernel."""
        if isinstance(value, int):
            return self.integer
        kind = next((s.dtype for s in self.launch.scalars if value[1:] == (s.name,)), None)
        if kind is None:
            raise Mismatch(f"{value} is no integer and no scalar")
        return tuple(self._working_type(kind).split())

    def _run_inside(self, text, scope, function, env, values):
        outer = self.scope, self.env
        self.scope, self.env = scope, env | dict(zip(function.parameters, values, strict=True))
        self.body(function.body, text.body)
        self.scope, self.env = outer

    def _handed_over(self, words, argument):
        """The memory that a pointer stands for, whose type and lengths have to be its own."""
        memory = self._find_memory(argument[1]) if argument[0] == "name" else None
        buffer = memory and self.launch.buffers[memory.name]
        same(memory is not None and memory.dims == len(words) - words.index("*"), True, f"a pointer {words}")
        space = {"global": ["__global"], "shared": ["__local"], "register": []}[buffer.space]
        written = {name for v in walk(self.launch.body) for name in written_by(v)}
        const = ["const"] * (buffer.space == "global" and memory.name not in written)
        kind = self.dialect.types[buffer.dtype].split()
        same(list(words[: words.index("*")]), space + const + kind, f"type of {buffer.name}")
        lengths = [e.const for e in buffer.shape] if buffer.space == "register" else []
        if buffer.space == "shared":
            lengths = [buffer.shape[d].const for d in buffer.order] or [1]
            lengths[-1] += buffer.pad
        same([int(n) for n in words[words.index("*") + 1 :]], lengths[1:], f"lengths of {buffer.name}")
        return memory


def memory_between(name):
    """What the local memory is called through which lanes exchange this; a name that was taken has a `_` more."""
    return f"{name.rstrip('_')}_of"


def written_by(value):
    """The buffers that a node writes."""
    match value:
        case Stmt():
            return [name for name, _ in writes(value)]
        case p.VectorStore(target=target) | p.VectorCopy(target=target):
            return [target.buffer]
        case LookBack():
            return [value.states]
        case p.Perform():
            return [value.operands[-1].buffer]
    return []
