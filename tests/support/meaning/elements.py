"""The elements of a kernel, one by one.

The ranges. `k in a..b` is exactly a, ..., b - 1, of which data leave only what is in the dimension of k, and `k < 3` in
a reduction's brackets exactly 0, 1, 2, or what other comparisons in the brackets say of where it begins. Otherwise an
index runs over the dimension in which it stands alone: on the left side, or else in the first read without a fallback.
An index that stands alone in none has the values that comparisons allow, from 0 on if none of them says where it
begins; and if none says where it ends, it runs over the dimension of the first read with a fallback in which it stands
alone. All comparisons restrict that: those in the brackets, or of a reduced index, leave out terms, and the others
elements.
"""

from __future__ import annotations

import ast
import math
from contextlib import contextmanager
from functools import partial
from itertools import product

from tests.support.meaning.numbers import (
    ARITHMETIC,
    BITS,
    COMPARE,
    FLOATS,
    MATHS,
    UNARY,
    common,
    extremes,
    is_affine,
    wrap,
)
from tests.support.meaning.text import (
    Equation,
    Erroneous,
    circle,
    facts_of,
    items_of,
    names,
    places,
    ranges_of,
)

FAR = 48  # beyond every index at the sizes that are tried


class Run:
    def __init__(self, kernel, sizes, arrays, attributes, strict=False):
        self.kernel, self.arrays, self.memory, self.strict = kernel, arrays, {}, strict
        self.points = {}  # of what is made of itself, by tensor: the elements, and what defines them
        self.done = {}  # the elements that have been begun, with their values once these are known
        self.defines = None  # the element that is being computed
        self.place = None  # the type of the element
        self.unwanted = False  # in the arm of a choice that is not taken whatever the data
        self.known = {**sizes, **kernel.attributes, **attributes}
        self.shapes = {n: [self.index(e, self.known) for e in t.shape] for n, t in kernel.tensors.items()}

    def outputs(self):
        for equation in self.kernel.equations:
            if equation.target not in self.memory:
                found = circle(self.kernel, equation.target)
                self.points = {e.target: self._places(e) for e in self.kernel.equations if e.target in found}
                made = self.points or {equation.target: self._places(equation)}
                found = {name: self._elements(name, points) for name, points in made.items()}
                self.points, self.memory = {}, {**self.memory, **found}
        made = {n for n, tensor in self.kernel.tensors.items() if tensor.role in ("output", "updated")}
        return {name: self.memory[name] for name in self.kernel.tensors if name in made}

    def _places(self, equation):
        """{place: what defines the element there}."""
        found = {}
        words = [w for w in dict.fromkeys(n for i in equation.index for n in names(i)) if w not in self.known]
        outside = [fact for fact in equation.comparisons if fact not in equation.brackets]
        left = [fact for fact in outside if not {*names(fact[1]), *names(fact[2])} & {*equation.within}]
        inner = [fact for fact in equation.comparisons if fact not in left]
        for env in self._points(equation, words, left, self.known):
            place = tuple(self.index(i, env) for i in equation.index)
            if not self._inside(equation.target, place):
                raise Erroneous("outside", f"{equation.target}{place} is defined")
            if place in found:
                raise Erroneous("two values", f"{equation.target}{place}")
            found[place] = equation, inner, env
        return found

    def _elements(self, name, points):
        """The elements at these places; what an update leaves out stays as it was."""
        found = {place: self._define(name, place, points) for place in points}
        if self.kernel.tensors[name].role == "updated":
            every = product(*map(range, self.shapes[name]))
            found = {place: self._read(name, place)[0] for place in every} | found
        return found

    def _define(self, name, place, points):
        """An element, and those that it is made of before. Raises Erroneous where it is made of itself."""
        if self.done.get((name, place)) == "begun":
            raise Erroneous("circular", f"{name}{place} is made of itself")
        if (name, place) not in self.done:
            before = self.defines, self.place, self.unwanted
            self.defines, self.unwanted, self.done[name, place] = (name, place), False, "begun"
            self.done[name, place] = self._element(*points[place])
            self.defines, self.place, self.unwanted = before
        return self.done[name, place]

    def _element(self, equation, comparisons, env):
        dtype = self.place = self.kernel.tensors[equation.target].dtype
        env = self._in_row(*equation.row, env) if equation.row else env
        if equation.reduce is None:
            return wrap(self.value(equation.value, env)[0], dtype)
        of_all = [fact for fact in comparisons if not {*names(fact[1]), *names(fact[2])} & {*equation.within}]
        some = all(self.holds(fact, env) for fact in of_all)
        points = list(self._points(equation, [*equation.within], comparisons, env)) if some else []
        typed = [self.value(equation.value, point) for point in points]
        values = [value for value, _ in typed]
        match equation.reduce:
            case "sum" | "prod":
                return wrap(sum(values) if equation.reduce == "sum" else math.prod(values), dtype)
            case "max" | "min":
                least, most = extremes(dtype)
                return max([*values, least]) if equation.reduce == "max" else min([*values, most])
            case "argmax" | "argmin":
                best = (max if equation.reduce == "argmax" else min)(values, default=None)
                if best is None or best == extremes(typed[0][1])[equation.reduce == "argmin"]:
                    return self._first(equation, comparisons, env)
                return self._place_of(points[values.index(best)], equation)

    def _in_row(self, word, low, high, env):
        """With the number of the one row whose range has the word."""
        (row,) = names(items_of(low)[0])
        every = ({**env, row: n} for n in range(self.shapes[low.value.id][0] - 1))
        (found,) = (e for e in every if self.index(low, e) <= env[word] < self.index(high, e))
        return found

    def _first(self, equation, comparisons, env):
        """What an arg reduction starts with: the lower end of the range, or a greater one that a comparison sets."""
        if len(equation.within) > 1:
            return 0
        (word,) = equation.within
        ends = [self._ends(equation, word, env)[0]]
        for fact in comparisons:
            if fact[0] is ast.Eq or self._grows(fact, word, env) > 0:
                ends += [v for v in range(-FAR, FAR) if self.holds(fact, {**env, word: v})][:1]
        return max(ends)

    def _place_of(self, point, equation):
        """The value of the only reduced index; of several, the place in the box of their ranges."""
        if len(equation.within) == 1:
            return point[next(iter(equation.within))]
        place = 0
        for word in equation.within:
            low, high = self._ends(equation, word, self.known)
            place = place * (high - min(0, low)) + point[word] - min(0, low)
        return wrap(place, self.kernel.tensors[equation.target].dtype)

    # -- ranges

    def _ends(self, equation, word, env):
        """(first, last + 1) of a reduced index."""
        if bounds := equation.within.get(word):
            return tuple(self.index(end, env) for end in bounds)
        facts = [(fact, {*names(fact[1]), *names(fact[2])} - self.known.keys()) for fact in equation.brackets]
        _, values = self._range(equation, word, facts) or (None, partial(self._free, word, facts))
        found = values(env)
        if found.stop == FAR + 1:  # what comparisons with nothing else allow
            alone = [fact for fact, needs in facts if needs == {word}]
            found = [value for value in found if all(self.holds(fact, {**env, word: value}) for fact in alone)]
        return (found[0], found[-1] + 1) if found else (0, 0)

    def _points(self, equation, words, comparisons, env):
        """What the words may be together: `env` with a value for each of them, the first word slowest."""
        facts = [(fact, {*names(fact[1]), *names(fact[2])} - self.known.keys()) for fact in comparisons]
        ranges = {word: self._range(equation, word, facts) for word in words}
        order = []
        while len(order) < len(words):
            waiting = [word for word in words if word not in order]
            ready = [w for w in waiting if ranges[w] and not ranges[w][0] & {*waiting}]
            order += (ready or waiting)[:1]  # those without a range of their own come last
        found = list(self._choices([(word, ranges[word]) for word in order], facts, env))
        return found if order == words else sorted(found, key=lambda point: [point[word] for word in words])

    def _choices(self, ranges, facts, env):
        if not ranges:
            yield env
            return
        (word, given), *rest = ranges
        mine = [(fact, needs) for fact, needs in facts if word in needs]
        values = given[1](env) if given else self._free(word, facts, env)
        for value in values:
            point = {**env, word: value}
            if all(self.holds(fact, point) for fact, needs in mine if needs <= point.keys()):
                assert abs(value) < FAR or values.stop != FAR + 1, f"nothing bounds {word}"
                yield from self._choices(rest, facts, point)

    def _range(self, equation, word, facts):
        """(the words that its range depends on, a function from their values to its own); None without a range."""
        if bounds := equation.within.get(word):
            low, high = bounds
            inside = (
                self._alone(equation, word) if {*names(low), *names(high)} & self.shapes.keys() else [range(-FAR, FAR)]
            )
            return {*names(low), *names(high)}, lambda env: range(
                max(inside[0].start, self.index(low, env)), min(inside[0].stop, self.index(high, env))
            )
        inside = [(fact, needs) for fact, needs in facts if fact in equation.brackets]
        if any(needs == {word} and self._grows(fact, word, needs) < 0 for fact, needs in inside):
            return set(), partial(self._free, word, inside)
        ends = any(word in needs and self._grows(fact, word, needs) < 0 for fact, needs in facts)
        for name, index, sure in places(equation):
            for item, extent in zip(index, self.shapes[name], strict=True):
                if isinstance(item, ast.Name) and item.id == word and (sure or not ends):
                    return set(), partial(self._dimension, extent)
        return None

    def _alone(self, equation, word):
        """The dimensions in which a word stands alone: data that tell its range leave out what is in none."""
        return [
            range(extent)
            for name, index, _ in places(equation)
            for item, extent in zip(index, self.shapes[name], strict=True)
            if isinstance(item, ast.Name) and item.id == word
        ]

    def _dimension(self, extent, env):
        return range(extent)

    def _free(self, word, facts, env):
        """All integers that comparisons might allow; from 0 on, if none of these says where they begin."""
        mine = [(fact, needs) for fact, needs in facts if word in needs]
        begins = any(fact[0] is ast.Eq or self._grows(fact, word, needs) > 0 for fact, needs in mine)
        return range(-FAR if begins else 0, FAR + 1)

    def _grows(self, fact, word, needs):
        """Positive if the comparison is true of large values of the word, negative if of small ones."""
        rest = {**dict.fromkeys(needs, 0), **self.known}
        return self._slack(fact, {**rest, word: FAR}) - self._slack(fact, {**rest, word: -FAR})

    def _slack(self, fact, env):
        """How far the comparison is from being false."""
        op, left, right = fact
        less, more = (left, right) if op in (ast.Lt, ast.LtE) else (right, left)
        return self.index(more, env) - self.index(less, env)

    def holds(self, fact, env):
        op, left, right = fact
        return COMPARE[op](self.index(left, env), self.index(right, env))

    # -- expressions

    def index(self, node, env):
        """The value of an index, a size or a bound: exact."""
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(word):
                return env[word]
            case ast.UnaryOp(ast.USub(), operand):
                return -self.index(operand, env)
            case ast.BinOp(left, op, right):
                one, two = self.index(left, env), self.index(right, env)
                return ARITHMETIC[ast.FloorDiv if isinstance(op, ast.Div) else type(op)](one, two)
            case ast.Subscript() | ast.Call() | ast.IfExp():
                return self.value(node, env)[0]
            case _:
                raise TypeError(ast.dump(node))

    def value(self, node, env):
        """(value, type) of an expression on data; a literal has no type yet, and takes that of what it meets."""
        match node:
            case ast.Constant(value):
                return value, None
            case ast.Name(word):
                return self._name(word, env)
            case ast.Subscript(ast.Name(name)):
                return self._read(name, tuple(self.index(i, env) for i in items_of(node)))
            case ast.IfExp(ast.Name("OUTSIDE"), ast.Subscript(ast.Name(name)) as read, other):
                place = tuple(self.index(i, env) for i in items_of(read))
                if not self._inside(name, place):
                    return self.value(other, env)[0], self._dtype(name)
                with self._mark_unwanted(True):
                    self.value(other, env)
                return self._read(name, place)
            case ast.IfExp(test, body, other):
                return self._choice(test, body, other, env)
            case ast.UnaryOp(op, operand):
                value, dtype = self.value(operand, env)
                if dtype == "index" and not isinstance(op, ast.USub | ast.UAdd):
                    value, dtype = wrap(value, self.place), self.place
                return wrap(UNARY[type(op)](value), dtype), dtype
            case ast.BinOp(left, op, right):
                return self._binary(type(op), self.value(left, env), self.value(right, env))
            case ast.BoolOp(op, values):
                return self._join(isinstance(op, ast.Or), values, env), "bool"
            case ast.Compare():
                found = [(op, self.value(one, env)[0], self.value(two, env)[0]) for op, one, two in facts_of(node)]
                return all(COMPARE[op](one, two) for op, one, two in found), "bool"
            case ast.Call(ast.Subscript(ast.Name(word)) as head, [body]):
                return self._reduction(word, items_of(head), body, env)
            case ast.Call(ast.Name(word), args):
                return self._call(word, [self.value(arg, env) for arg in args])
            case _:
                raise TypeError(ast.dump(node))

    def _reduction(self, word, items, body, env):
        """A reduction inside of an expression, of the type of the element."""
        within, brackets = ranges_of(items, env.keys())
        equation = Equation(self.defines[0], [], body, word, within, brackets, brackets)
        return self._element(equation, brackets, env), self.place

    def _name(self, word, env):
        if word in env and isinstance(env[word], tuple):  # a parameter of a function
            return env[word]
        if word in env:
            return env[word], None if word in self.kernel.attributes else "index"
        if word in self.kernel.tensors:  # a scalar argument
            return self._read(word, ())
        return {"inf": math.inf, "pi": math.pi}[word], None

    def _dtype(self, name):
        return self.kernel.tensors[name].dtype

    def _inside(self, name, place):
        return all(0 <= p < extent for p, extent in zip(place, self.shapes[name], strict=True))

    def _read(self, name, place):
        tensor = self.kernel.tensors[name]
        if not self._inside(name, place):
            if self.unwanted:
                return 0, tensor.dtype
            raise Erroneous("outside", f"{name}{place} is read")
        if place in self.points.get(name, ()) and (self.strict or not self.unwanted):
            return self._define(name, place, self.points[name]), tensor.dtype
        if name in self.memory or name in self.points:
            if place not in self.memory.get(name, ()):
                if self.unwanted and not self.strict:
                    return 0, tensor.dtype
                raise Erroneous("undefined", f"{name}{place}")
            return self.memory[name][place], tensor.dtype
        if self.defines and name == self.defines[0] and place != self.defines[1]:
            raise Erroneous("in place", f"{name}{place} is read for {name}{self.defines[1]}")
        value = 1 if self.arrays is None else self.arrays[name][place]
        return (int(value) if tensor.dtype in BITS else float(value)), tensor.dtype

    def _choice(self, test, body, other, env):
        """One of two values. A test guards the reads of both as far as it compares indices, but defines no elements."""
        chosen, _ = self.value(test, env)
        possible = self._possible(test, env)
        arms = []
        for arm, which in ((body, True), (other, False)):
            with self._mark_unwanted(which not in possible):
                arms += [self.value(arm, env)]
        return self._select(chosen, *arms)

    @contextmanager
    def _mark_unwanted(self, more):
        """If `more`, what is evaluated is not wanted: it may read outside and, if not `strict`, what is undefined."""
        before, self.unwanted = self.unwanted, self.unwanted or more
        try:
            yield
        finally:
            self.unwanted = before

    def _join(self, decides, values, env):
        """The values joined by `or`, whose True decides, or by `and`: what stands after that guards nothing."""
        found, decided = [], False
        for value in values:
            with self._mark_unwanted(decided):
                found += [self.value(value, env)[0]]
                decided = decided or self._possible(value, env) == {decides}
        return decides if decides in found else not decides

    def _possible(self, test, env):
        """What a test may be, whatever the data: {True}, {False} or both."""
        match test:
            case ast.BoolOp(op, values):
                every = [self._possible(v, env) for v in values]
                decides = isinstance(op, ast.Or)
                some, rest = any(decides in p for p in every), all({not decides} <= p for p in every)
                return {what for what, may in ((decides, some), (not decides, rest)) if may}
            case ast.UnaryOp(ast.Not(), operand):
                return {not p for p in self._possible(operand, env)}
            case _ if any(name in self.kernel.tensors for name in names(test)):
                return {True, False}
            case _:
                return {self.value(test, env)[0]}

    def _select(self, chosen, one, two):
        dtype = common(one[1], two[1])
        dtype = self.place if dtype == "index" else dtype
        return wrap((one if chosen else two)[0], dtype), dtype

    def _binary(self, op, one, two):
        (left, first), (right, second) = one, two
        dtype = common(first, second)
        if dtype in FLOATS or dtype is None:
            even = dtype is None and isinstance(left, int) and isinstance(right, int) and right and left % right == 0
            return (left // right if even and op is ast.Div else ARITHMETIC[op](left, right)), dtype
        if dtype == "index" and not is_affine(op, first, second, right):  # indices take the type of their place
            dtype = self.place
        if dtype in BITS:
            left, right = wrap(left, dtype), wrap(right, dtype)
        if op in (ast.LShift, ast.RShift):  # by what is left over from the type's bits
            right %= BITS.get(dtype, 64)
        if op is ast.Pow and right < 0:
            raise TypeError("a negative power of an integer")
        return wrap(ARITHMETIC[op](left, right), dtype), dtype

    def _call(self, word, args):
        values = [value for value, _ in args]
        if word in self.kernel.functions:
            parameters, body = self.kernel.functions[word]
            return self.value(body, dict(zip(parameters, args, strict=True)))
        if word in BITS:
            return wrap(int(values[0]), word), word
        if word in FLOATS:
            return float(values[0]), word
        if word == "select":
            return self._select(values[0], *args[1:])
        dtype = args[0][1]
        for _, other in args[1:]:
            dtype = common(dtype, other)
        dtype = self.place if dtype == "index" else dtype
        values = [wrap(value, dtype) for value in values]
        found = MATHS[word](*values)
        return wrap(found, dtype), dtype
