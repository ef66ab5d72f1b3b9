"""The integers of a printed text, evaluated exactly: none may leave the type that C computes it in.

`overflow(text, launches, sizes)` walks the text at first, last and random values of its coordinates and loops, enters
the branches that are taken there, and gives a sentence about the first operation whose exact result does not fit, or
about the first offset outside of its tensor. `extremes(launches, rng)` draws sizes for it that are as large as the
launches admit. Nothing is taken from the lowering or from the printer but names, shapes and what the head asks for.
"""

from __future__ import annotations

from functools import cache
from math import prod
from operator import add, and_, eq, ge, gt, le, lshift, lt, mul, ne, not_, or_, rshift, sub, xor

from tests.support.reader import c_text
from tests.support.simulator.grid import place_of_tile
from tilegen.lowering import fits
from tilegen.lowering.launch.grid import limits_of_grid

DRAWS = 24
BITS = {"int": 32, "long long": 64, "long": 64}
LIMITS = {kind: 2 ** (bits - 1) for kind, bits in BITS.items()}
INTEGERS = frozenset((*BITS, "bool"))
TESTS = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge, "!": not_}
# What Python computes as C does.
OPERATORS = TESTS | {"+": add, "-": sub, "*": mul, "&": and_, "|": or_, "^": xor, "<<": lshift, ">>": rshift}
LARGEST = 2**40


class Wrong(Exception):
    """An operation that leaves its type, or an offset that leaves its tensor."""


def overflow(text, launches, sizes, rng, draws=DRAWS):
    """Where the text leaves a type at these sizes, in a sentence; None where nothing was found."""
    for kernel, launch in zip(c_text.kernels(text), launches, strict=True):
        if min(n.evaluate(sizes) for n in launch.grid) < 1:  # nothing runs
            continue
        try:
            for _ in range(draws):
                _Walk(launch, sizes, rng).kernel(kernel)
        except Wrong as wrong:
            return f"{launch.name}: {wrong} at {sizes}"
    return None


def extremes(launches, rng):
    """Sizes that the launches admit, one of them as large as it can be then; None where no sizes were found."""
    kernel = launches[0].kernel
    most = LARGEST if launches[0].wide else 2**31
    sizes = dict(_smallest(launches) or {})
    if not sizes and kernel.sizes:
        return None
    for name in rng.sample(kernel.sizes, len(kernel.sizes)):
        wanted = [sizes[name], most] if rng.random() < 0.5 else [sizes[name], rng.choice([3, 100, 70_000, 2**20])]
        low, high = wanted
        while low < high:  # the largest one, if what is admitted has no gaps
            middle = (low + high + 1) // 2
            low, high = (middle, high) if _may(launches, sizes | {name: middle}) else (low, middle - 1)
        for value in range(low, max(1, low - 5000), -1):
            if _is_admitted(launches, sizes | {name: value}):
                sizes[name] = value
                break
    return sizes if _is_admitted(launches, sizes) else None


def _may(launches, sizes):
    grids = [
        n.evaluate(sizes) <= limit
        for x in launches
        for n, limit in zip(x.grid, limits_of_grid(x.dealt > 0), strict=True)
    ]
    bounds = [c.holds(sizes) for c in launches[0].kernel.assumptions if not c.equal]
    return fits(launches, sizes) and all(grids) and all(bounds)


def _is_admitted(launches, sizes):
    asked = (*launches[0].kernel.assumptions, *(c for launch in launches for c in launch.requires))
    shapes = [e.evaluate(sizes) for t in launches[0].kernel.tensors for e in t.shape]
    return _may(launches, sizes) and all(c.holds(sizes) for c in asked) and min(shapes, default=1) > 0


def _smallest(launches):
    names = launches[0].kernel.sizes
    for value in range(1, 5000):
        if _is_admitted(launches, dict.fromkeys(names, value)):
            return dict.fromkeys(names, value)
    return None


class _Walk:
    """One choice of values. A value is (type, number); the number is None where data decides it, the type if it is none
    of the two."""

    def __init__(self, launch, sizes, rng):
        self.launch, self.sizes, self.rng = launch, sizes, rng
        self.grid = [n.evaluate(sizes) for n in launch.grid]
        self.scope = {}
        self.arrays = {}
        self.starts = {}  # of pointers into arrays
        self.rising = {}  # what the head promises of data: their type and the largest

    def kernel(self, kernel):
        beside = [each.name for each in (*self.launch.maps, *self.launch.scalars)]
        names = [*self.launch.tensors, *beside, *self.launch.sizes]
        for (words, name), mine in zip(kernel.parameters, names, strict=True):
            if mine in self.launch.tensors:
                self.arrays[name] = prod(e.evaluate(self.sizes) for e in self.launch.buffers[mine].shape)
                kind = " ".join(word for word in words if word in ("int", "long"))
                if mine in (promised := dict(self.launch.kernel.rising)):
                    most = promised[mine].evaluate(self.sizes)
                    self.rising[name] = (kind, min(most, 2**31 - 1) if kind == "int" else most)
            elif mine in self.sizes:
                self.scope[name] = self.check_fits(" ".join(words), self.sizes[mine], f"the size {mine}")
            else:
                self.scope[name] = (None, None)
        self.scope |= {function.name: (function, {}) for function in kernel.functions}
        self.body(kernel.body)

    def pick(self, count):
        """A number below `count`: the ends first of all."""
        return self.rng.choice([0, count - 1, count - 1, max(0, count - 2), self.rng.randrange(count)])

    def check_fits(self, kind, value, what):
        if value is not None and kind in BITS and not _fits(kind, value):
            raise Wrong(f"{what} is {value}, and has {BITS[kind]} bits")
        return kind, value

    # -- statements

    def body(self, body):
        outer = dict(self.scope)
        for node in body:
            self.node(node)
        self.scope = outer

    def node(self, node):
        match node:
            case c_text.For(kind, name, _, body, _, (_, *_)):
                if (count := self.grid[0]) > 0:
                    self.check_fits(kind, 2 * count - 1, f"the step behind the last {name}")
                    outer = dict(self.scope)
                    self.scope[name] = (kind, self.pick(count))
                    self.body(body)
                    self.scope = outer
            case c_text.For(kind, name, extent, body, start):
                (_, first), (_, count) = self.value(start), self.value(extent)
                self.check_fits(kind, count, f"the extent of {name}")
                if count > first:
                    outer = dict(self.scope)
                    self.scope[name] = (kind, first + self.pick(count - first))
                    for each in filter(None, (node.also, node.next)):
                        self.value(each)
                    self.body(body)
                    self.scope = outer
            case c_text.If(test, body, orelse):
                _, held = self.value(test)
                if held is None or held:
                    self.body(body)
                if not held:
                    self.body(orelse)
            case c_text.Block(body):
                self.body(body)
            case c_text.Declare((*_, "*"), name, _, ("&", ("at", ("name", array), index))) if array in self.arrays:
                _, self.starts[name] = self.value(index)
                self.arrays[name] = self.arrays[array]
                self.rising |= {name: self.rising[array]} if array in self.rising else {}
                if not 0 <= self.starts[name] <= self.arrays[name]:
                    raise Wrong(f"{array} has {self.arrays[name]} elements, and {name} is {self.starts[name]}")
            case c_text.Declare(words, name, _, start):
                kind = " ".join(w for w in words if w != "const")
                value = (None, None) if start is None or start[0] in ("zeros", "members") else self.value(start)
                known = value[1] if kind in (*BITS, "bool") else None
                self.scope[name] = self.check_fits(kind, known, name)
            case c_text.Assign(target, _, value):
                self.value(target), self.value(value)
            case c_text.Function(name):
                self.scope[name] = (node, dict(self.scope))
            case c_text.Call(("call", name, _, args)) if name in self.scope:
                self.call_function(*self.scope[name], args)
            case c_text.Call(call):
                self.value(call)

    def call_function(self, function, scope, args):
        """The body of a function, which sees what is declared in front of it, and its parameters."""
        given = {}
        for (words, name), arg in zip(function.parameters, args, strict=True):
            given[name] = self.check_fits(" ".join(words), self.value(arg)[1], name)
            if arg[0] == "name" and arg[1] in self.arrays:
                self.arrays[name] = self.arrays[arg[1]]
        coordinates = {key: value for key, value in self.scope.items() if isinstance(key, tuple)}
        outer, self.scope = self.scope, scope | coordinates | given
        self.body(function.body)
        self.scope = outer

    # -- expressions

    def value(self, text):
        match text:
            case ("number", number):
                long = isinstance(number, c_text.Long) or isinstance(number, int) and number >= 2**31
                return ("long long" if long else "int" if isinstance(number, int) else None), number
            case ("name", name):
                return self.scope.get(name, (None, None))
            case (sign, left, right) if sign in OPERATORS:
                return self.operation(sign, [self.value(left), self.value(right)], text)
            case ("field", ("name", "blockIdx"), axis):
                return "int", self.once(text, self.grid["xyz".index(axis)])
            case ("field", ("name", "threadIdx"), axis):
                return "int", self.once(text, self.launch.block["xyz".index(axis)])
            case ("call", "get_group_id" | "get_local_id" as word, _, ((_, axis),)):
                return "long", self.once(text, (self.grid if "group" in word else self.launch.block)[axis])
            case ("at", base, index):
                return self.element(base, index)
            case ("field", base, _):
                self.value(base)
                return None, None
            case ("cast", words, value):
                kind, (old, known) = " ".join(words), self.value(value)
                if kind not in BITS or old not in (*BITS, "bool"):
                    return None, None
                return kind, known if BITS[kind] >= BITS.get(old, 1) else _wrap_to_bits(known, BITS[kind])
            case ("choice", test, then, other):
                _, held = self.value(test)
                taken = [self.value(v) for v, runs in ((then, held in (None, True)), (other, not held)) if runs]
                return taken[0] if len(taken) == 1 else (taken[0][0], None)
            case ("call", _, _, args):
                return self.call(text, args)
            case ("&&" | "||" as sign, left, right):
                _, first = self.value(left)
                if first is not None and bool(first) == (sign == "||"):
                    return "bool", bool(first)
                second = self.value(right)[1]
                return "bool", None if first is None or second is None else bool(second)
            case ("*" | "&", inner):
                self.value(inner)
                return None, None
            case (sign, *args):
                return self.operation(sign, [self.value(a) for a in args], text)
        raise TypeError(text)

    def call(self, text, args):
        match text:
            case (_, "hidden", _, (inner,)):
                return self.value(inner)
            case (_, "iteration_at", _, _):
                *_, (kind, count) = map(self.value, args)
                return kind, self.pick(count + 1)
            case (_, word, _, (_, count, place, *_)) if word.startswith("first_") and "above" in word:
                self.value(place)
                kind, count = self.value(count)
                return kind, self.pick(count + 1)
            case (_, "floor_div" | "floor_mod" as word, _, _):
                (kind, left), (_, right) = map(self.value, args)
                if left is None or right is None:
                    return kind, None
                return kind, left // right if word == "floor_div" else left % right
            case (_, "row_of_tile" | "column_of_tile" | "matrix_of_tile" as word, _, (_, ("name", name))):
                counts = [factor.evaluate(self.sizes) for factor in self.launch.grid[0].factors]
                place = place_of_tile(self.scope[name][1], [*counts, 1][: max(2, len(counts))], self.launch.dealt)
                matrix = 0
                for digit, count in zip(place[:-2], counts[:-2], strict=True):
                    matrix = matrix * count + digit
                return "int", (matrix, *place[-2:])[("matrix_of_tile", "row_of_tile", "column_of_tile").index(word)]
            case (_, "copy_async_or_zero", _, (target, ("&", ("at", base, index)), inside)):
                self.value(target)
                held = self.value(inside)[1]
                self.value(index) if held is False else self.element(base, index)
            case _:
                for arg in args:
                    self.value(arg)
        return None, None

    def once(self, text, count):
        """A coordinate is the same wherever it stands."""
        return self.scope.setdefault(("coordinate", text), ("int", self.pick(count)))[1]

    def element(self, base, index):
        _, place = self.value(index)
        place = None if place is None else place + self.starts.get(base[1], 0)
        if base[0] == "name" and base[1] in self.arrays:
            if place is not None and not 0 <= place < self.arrays[base[1]]:
                raise Wrong(f"{base[1]} has {self.arrays[base[1]]} elements, and {place} is read or written")
            if base[1] in self.rising:
                return self.rising[base[1]][0], self.pick(self.rising[base[1]][1] + 1)
        elif base[0] == "at":
            self.value(base)
        return None, None

    def operation(self, sign, args, text):
        kinds, values = zip(*args, strict=True)
        if sign in TESTS:
            return "bool", None if None in values else _apply_operator(sign, *values)
        if None in values or not INTEGERS.issuperset(kinds):
            return (None, None) if None in kinds else (_wider(kinds), None)
        if sign in "&|" and kinds == ("bool", "bool"):
            return "bool", _apply_operator(sign, *values)
        kind, value = _wider(kinds), _apply_operator(sign, *values)
        return (kind, value) if _fits(kind, value) else self.check_fits(kind, value, _show(text))


@cache
def _wider(kinds):
    return max(kinds, key=lambda kind: BITS.get(kind, 0)) if any(kind in BITS for kind in kinds) else "int"


def _apply_operator(sign, left, right=None):
    match sign:
        case "-" if right is None:
            return -left
        case "!":
            return not left
        case "~":
            return ~left
        case "/":
            return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        case "%":
            return abs(left) % abs(right) * (1 if left >= 0 else -1)
        case _ if sign in TESTS:
            return TESTS[sign](left, right)
    return OPERATORS[sign](int(left), int(right))


def _fits(kind, value):
    return -LIMITS[kind] <= value < LIMITS[kind]


def _wrap_to_bits(value, bits):
    return None if value is None else (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def _show(text):
    match text:
        case ("number" | "name", value):
            return str(value)
        case ("field", base, word):
            return f"{_show(base)}.{word}"
        case ("cast", words, value):
            return f"({' '.join(words)}){_show(value)}"
        case ("call", word, _, args):
            return f"{word}({', '.join(map(_show, args))})"
        case (sign, left, right):
            return f"({_show(left)} {sign} {_show(right)})"
    return str(text)
