"""The C of our kernels, CUDA's or OpenCL's, parsed: enough of the language for what tilegen prints, and no more.

`kernels(text)` gives the entry points. Expressions are tuples: ("number", value), ("name", word),
("at", base, index), ("field", base, word), ("call", word, template arguments, arguments),
("cast", type words, value), ("choice", test, then, other), and (sign, operand...) for operators.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

_TOKEN = re.compile(r"\d+\.\d*(?:e[-+]?\d+)?f?|\d+e[-+]?\d+f?|\d+(?:LL|L|u)?|\w+|&&|\|\||<<|>>|[-+*<>=!|]=|\+\+|\S")
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_WORDS = """
const bool char uchar ushort short int uint long ulong float double half unsigned signed void
__half __nv_bfloat16 __nv_fp8_e4m3 __nv_fp8_e5m2 __global __local __private
"""
_TYPE_WORDS = frozenset(_WORDS.split())
_DECLARES = _TYPE_WORDS | {"__shared__", "__align__", "extern", "Tiles", "Ring"}
VECTOR_TYPE = re.compile(r"(u?char|u?short|u?int|u?long|longlong|float|double)(2|3|4|8|16)$")


class NotOurs(Exception):
    """Text that is none of the forms that tilegen prints."""


class Long(int):
    """A literal that says that it has 64 bits."""


@dataclass(frozen=True)
class For:
    kind: str
    name: str
    extent: tuple
    body: tuple
    first: tuple = ("number", 0)
    step: tuple = ()  # of the loop over tiles
    also: tuple = ()  # what else has to hold
    next: tuple = ()


@dataclass(frozen=True)
class If:
    test: tuple
    body: tuple
    orelse: tuple


@dataclass(frozen=True)
class Block:
    body: tuple


@dataclass(frozen=True)
class Declare:
    """`words name[dims] = start;`; `words` are the type with all that stands before the name, `align` its bytes."""

    words: tuple
    name: str
    dims: tuple
    start: tuple | None
    align: int = 0


@dataclass(frozen=True)
class Assign:
    target: tuple
    sign: str  # "=", "+=", "*="
    value: tuple


@dataclass(frozen=True)
class Call:
    call: tuple


@dataclass(frozen=True)
class Function:
    """A part of a kernel. In CUDA, `const auto name = [&](parameters) { body };` sees all that is declared in front of
    it; in OpenCL, `static inline void name(parameters) { body }` before the kernel sees nothing else.
    """

    name: str
    parameters: tuple  # (words, name); `float (*name)[4][2]` has the words float, *, 4 and 2
    body: tuple


@dataclass(frozen=True)
class Kernel:
    """`threads` are the numbers in the launch bounds, or in the required size of a work-group; `cluster` has blocks."""

    name: str
    threads: tuple
    parameters: tuple  # (words, name)
    body: tuple
    cluster: tuple = ()
    functions: tuple = ()


@lru_cache(maxsize=8)
def kernels(text):
    """The entry points in `text`, in order; a test asks of one text several times."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"^ *#pragma unroll\n", "", text, flags=re.MULTILINE)
    found, functions = [], []
    for match in re.finditer(r'^(extern "C" __global__|__kernel|static inline void) ', text, re.MULTILINE):
        reader = _Reader(_TOKEN.findall(text[match.end() :]))
        if match[1] == "static inline void":
            functions += [Function(reader.take(), reader.parameters(), reader.body())]
        else:
            found += [replace(reader.kernel(), functions=tuple(functions))]
            functions = []
    return tuple(found)


class _Reader:
    def __init__(self, tokens):
        self.tokens, self.place = tokens, 0
        self.constants = {}  # numbers that have names in the whole kernel

    # -- tokens

    def next(self, ahead=0):
        at = self.place + ahead
        return self.tokens[at] if at < len(self.tokens) else ""

    def take(self, *wanted):
        token = self.next()
        if wanted and token not in wanted:
            raise NotOurs(f"{' or '.join(wanted)} expected at {' '.join(self.tokens[self.place - 8 : self.place + 8])}")
        self.place += 1
        return token

    def took(self, token):
        if self.next() != token:
            return False
        self.place += 1
        return True

    # -- kernels and statements

    def kernel(self):
        threads, cluster, name = (), (), None
        while name is None:
            word = self.take()
            if word == "__cluster_dims__":
                self.take("(")
                cluster = self.arguments()
            elif word in ("__launch_bounds__", "reqd_work_group_size"):
                self.take("(")
                threads = self.arguments()
            elif self.next() == "(" and word.isidentifier() and word != "__attribute__":
                name = word
        return Kernel(name, tuple(n for _, n in threads), self.parameters(), self.body(), tuple(n for _, n in cluster))

    def parameters(self):
        self.take("(")
        parameters = []
        if self.took(")"):
            return ()
        while self.next(-1) != ")":
            words = []
            while self.next() != "(" and self.next(1) not in (",", ")"):
                words += [self.take()]
            if self.took("("):
                self.take("*")
                name = self.take()
                self.take(")")
                words += ["*", *self.dimensions()]
            else:
                name = self.take()
            parameters += [(tuple(words), name)]
            self.take(",", ")")
        return tuple(parameters)

    def dimensions(self):
        dims = []
        while self.took("["):
            dims += [self.take()]
            self.take("]")
        return dims

    def body(self):
        """What stands in braces, or one statement without them."""
        if self.next() != "{":
            return (self.statement(),)
        self.take("{")
        items = []
        if self.next() == "constexpr":
            self.name_constants()
        while not self.took("}"):
            items += [self.statement()]
        return tuple(items)

    def name_constants(self):
        """`constexpr int TM = 128, TN = 256;`: from here on these are the numbers."""
        self.take("constexpr"), self.take("int")
        while self.next(-1) != ";":
            name = self.declared(self.take())
            self.take("="), self.constants.update({name: int(self.take())}), self.take(",", ";")

    def declared(self, name):
        if name in self.constants:
            raise NotOurs(f"'{name}' is declared again")
        return name

    def statement(self):
        match self.next():
            case "{":
                return Block(self.body())
            case "for":
                return self.loop()
            case "if":
                return self.test()
            case "const" if self.next(1) == "auto":
                return self.function()
            case word if word in _DECLARES or VECTOR_TYPE.match(word):
                return self.declaration()
        target = self.expression()
        if target[0] in ("call", "++") and self.took(";"):
            return Call(target)
        sign = self.take("=", "+=", "-=", "*=", "|=")
        return self.end_statement(Assign(target, sign, self.expression()))

    def end_statement(self, node):
        self.take(";")
        return node

    def loop(self):
        """`for (kind name = 0; name < extent; ++name)`, or with a first value, a test more, and another step."""
        self.take("for"), self.take("(")
        kind, name, first = "", self.next(1), ()
        if self.next() != ";":  # else it goes on with a variable
            kind = self.take()
            kind += f" {self.take()}" if self.next() == kind == "long" else ""
            name, first = self.declared(self.take()), self.take("=") and self.expression()
        held = (self.declared(self.take()), self.take("=") and self.expression()) if self.took(",") else ()
        self.take(";"), self.take(name), self.take("<")
        extent = self.binary(_LEVELS.index(("+", "-")))
        extent = held[1] if held and extent == ("name", held[0]) else extent  # the end, computed once
        also = self.expression() if self.took("&&") else ()
        sign = "++" if self.take(";") and self.took("++") else ""
        sign = sign if self.take(name) and sign else self.take("=", "+=")
        step = () if sign == "++" else self.expression()
        body = self.take(")") and self.body()
        return For(kind, name, extent, body, first, *((), also, step) if sign == "=" else (step, also))

    def test(self):
        self.take("if"), self.take("(")
        test = self.expression()
        body, orelse = self.take(")") and self.body(), ()
        if self.took("else"):
            orelse = (self.test(),) if self.next() == "if" else self.body()
        return If(test, body, orelse)

    def function(self):
        self.take("const"), self.take("auto")
        name = self.take()
        for token in ("=", "[", "&", "]"):
            self.take(token)
        return self.end_statement(Function(name, self.parameters(), self.body()))

    def declaration(self):
        words, name, align = [], None, 0
        while name is None:
            if self.next() == "(":  # float (*name)[4]
                self.take("("), self.take("*")
                name = self.declared(self.take())
                self.take(")")
            elif self.next(1) in ("[", "=", ";"):
                name = self.declared(self.take())
            else:
                words += [str(self.constants.get(self.next(), self.take()))]
                if words[-1] == "__align__":
                    self.take("(")
                    align = int(self.take())
                    self.take(")")
        dims = []
        while self.took("["):
            dims += [None if self.next() == "]" else self.expression()]
            self.take("]")
        if self.took("__attribute__"):
            words += ["__align__"]
            for token in ("(", "(", "aligned", "(", "16", ")", ")", ")"):
                self.take(token)
            align = 16
        start = None
        if self.took("="):
            start = self.braces() if self.next() == "{" else self.expression()
        return self.end_statement(Declare(tuple(words), name, tuple(dims), start, align))

    def braces(self):
        """`{}`, in OpenCL `{0}`: every element is 0; or the members of a struct."""
        self.take("{")
        members = () if self.next() == "}" else (self.expression(),)
        while self.took(","):
            members += (self.expression(),)
        self.take("}")
        return ("zeros",) if members in ((), (("number", 0),)) else ("members", *members)

    # -- expressions

    def expression(self):
        test = self.binary(0)
        if not self.took("?"):
            return test
        then = self.expression()
        self.take(":")
        return ("choice", test, then, self.expression())

    def binary(self, level):
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.next() in _LEVELS[level]:
            left = (self.take(), left, self.binary(level + 1))
        return left

    def unary(self):
        for sign in ("++", "-", "!", "~", "*", "&"):
            if self.took(sign):
                return (sign, self.unary())
        if self.next() == "(" and self.is_type(1):
            self.take("(")
            words = self.type_until(")")
            value = self.unary()
            # A vector of zeros.
            return value if value == ("number", 0) and VECTOR_TYPE.match(words[-1]) else ("cast", words, value)
        return self.postfix(self.atom())

    def is_type(self, ahead):
        return self.next(ahead) in _TYPE_WORDS or VECTOR_TYPE.match(self.next(ahead)) is not None

    def type_until(self, end):
        """The words of a type, `end` after it taken; parentheses in it are kept."""
        words, depth = [], 0
        while depth or self.next() != end:
            words += [self.take()]
            depth += (words[-1] == "(") - (words[-1] == ")")
        self.take(end)
        return tuple(words)

    def atom(self):
        token = self.take()
        if token == "(":
            inner = self.expression()
            self.take(")")
            return inner
        if VECTOR_TYPE.match(token) and self.took("{"):  # a vector of zeros
            self.take("}")
            return ("number", 0)
        if token == "__ldcs":  # a load, and a hint to the caches
            self.take("(")
            place = self.expression()
            self.take(")")
            return place[1] if place[0] == "&" else ("*", place)
        if token == "reinterpret_cast":
            self.take("<")
            words = self.type_until(">")
            self.take("(")
            value = self.expression()
            self.take(")")
            return ("cast", words, value)
        if token[0].isdigit():
            whole = re.fullmatch(r"(\d+)(LL|L|u)?", token)
            if whole:
                return ("number", (Long if whole[2] else int)(whole[1]))
            return ("number", float(token.removesuffix("f")))
        if token in self.constants:
            return ("number", self.constants[token])
        if not token.isidentifier():
            raise NotOurs(f"{token} at {' '.join(self.tokens[self.place - 8 : self.place + 8])}")
        return ("name", token)

    def postfix(self, value):
        while True:
            if self.took("["):
                value = ("at", value, self.expression())
                self.take("]")
            elif self.took("."):
                value = ("field", value, self.take())
            elif self.took("++"):
                value = ("++", value)
            elif value[0] == "name" and self.next() == "<" and (end := self.end_of_template()):
                self.take("<")
                words = [self.take() for _ in range(end - 1)]
                template = tuple(str(self.constants.get(word, word)) for word in words if word != ",")
                self.take(">"), self.take("(")
                value = ("call", value[1], template, self.arguments())
            elif value[0] in ("name", "field") and self.took("("):  # a struct is the first argument of its functions
                value = ("call", value[-1], (), (*value[1:-1], *self.arguments()))
            else:
                return value

    def end_of_template(self):
        """Where > and ( stand after a number or two, or the one or two words of a type; None if nowhere."""
        places = (2, 3, 4) if self.next(2) == "," else (2, 3)
        return next((n for n in places if self.next(n) == ">" and self.next(n + 1) == "("), None)

    def arguments(self):
        found = []
        while not self.took(")"):
            found += [self.expression()]
            if self.next() != ")":
                self.take(",")
        return tuple(found)
