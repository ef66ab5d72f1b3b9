"""The steps of a schedule in the names of another kernel, which computes the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations

from tilegen.errors import Source, Span, StepError
from tilegen.ir.comparison.form import Names, find_names
from tilegen.ir.nodes import LOOP_KINDS, Kernel
from tilegen.ir.parameter_facts import Fact, Operation
from tilegen.ir.reductions.flattened import flatten
from tilegen.ir.steps import (
    Argument,
    Arithmetic,
    Define,
    Items,
    Parameter,
    StepCall,
    Word,
    tensor_of_type,
    text_of_call,
)


def names_of(kernel: Kernel) -> set[str]:
    """What means something in a kernel as written: its loops, tensors, scalars and sizes."""
    loops = (r.name for e in kernel.equations for r in (*e.loops, *e.reduced))
    return {*loops, *(t.name for t in kernel.tensors), *(s.name for s in kernel.scalars), *kernel.sizes}


@dataclass(frozen=True)
class Form:
    """How a kernel computes what another one does: the names of that one in `kernel`, which `steps` make of it."""

    names: Names
    kernel: Kernel
    steps: tuple[StepCall, ...] = ()


def find_form(one: Kernel, other: Kernel) -> Form | str:
    """How `other` computes what `one` does, perhaps with dimensions seen as one; a sentence where it does not."""
    names = find_names(one, other)
    if not isinstance(names, str):
        return Form(names, other)
    for flat, step in _flat_kernels(other):
        found = find_names(one, flat)
        if not isinstance(found, str):
            return Form(found, flat, (step,))
    return names


@lru_cache(maxsize=16)
def _flat_kernels(kernel: Kernel) -> tuple[tuple[Kernel, StepCall], ...]:
    """The kernel with two or more loops of an equation, those along most dimensions first, as one; and that step."""
    found = []
    for equation in kernel.equations:
        runs = combinations(range(len(equation.loops) + 1), 2)
        for start, end in sorted(runs, key=lambda run: run[0] - run[1]):
            ranges = equation.loops[start:end]
            name = "".join(r.index for r in ranges)  # nyx for n, y, x
            name += "_" * (name in names_of(kernel))
            with suppress(StepError):
                flat = flatten(kernel, tuple(r.name for r in ranges), name)
                step = StepCall("flatten", tuple(Word(r.name) for r in ranges), (), (Word(name),))
                found.append((flat, replace(step, text=text_of_call(step))))
    return tuple(found)


def renaming(
    names: Names,
    kernel: Kernel,
    steps: Sequence[StepCall],
    parameters: Iterable[Parameter],
    defines: Mapping[str, Define],
) -> Renaming:
    """What makes these steps those of `kernel`.

    A loop that steps call by an index word, as of all `m.i` and `Y.i` together, gets that of the other kernel. What is
    taken already gets a number.
    """
    made = {parameter.name: {*kernel.sizes} for parameter in parameters}  # which may be called like a size
    for step in steps:
        instead_of = {names.loops.get(a.text, "") for a in step.arguments if isinstance(a, Word)}
        made |= {result.text: instead_of for result in step.results if result.text not in made}
    taken, own = names_of(kernel), dict[str, str]()
    used = {*taken, *made}
    for word, instead_of in made.items():
        wanted = names.words[""].get(word, word)
        if word not in names.loops and (wanted != word or word in taken - instead_of):
            numbered = (wanted if n == 1 else f"{wanted}{n}" for n in range(1, 1000))
            own[word] = next(new for new in numbered if new not in used or new in instead_of)
            used.add(own[word])
    return Renaming(names, own, defines, kernel, {*made})


@dataclass(frozen=True)
class Renaming:
    """Names of one kernel for those of another.

    Attributes:
        own: new names for some of what steps make and of the parameters, which are `made`.
        defines: the composite steps that may speak of a kernel's names.
        inside: the composite steps whose steps these are, and `local` the names that mean something else there.
    """

    names: Names
    own: Mapping[str, str]
    defines: Mapping[str, Define]
    kernel: Kernel
    made: Collection[str]
    inside: tuple[str, ...] = ()
    local: Mapping[str, str] = field(default_factory=dict)

    def call(self, call: StepCall) -> StepCall:
        """A step in the other names."""
        arguments = tuple(self._argument(a) for a in call.arguments)
        of = (
            str(call.arguments[0].text).partition(".")[0]
            if call.arguments and isinstance(call.arguments[0], Word)
            else ""
        )
        layouts = {k.name: of for k in call.keywords if k.name == "layout"}  # they have dimensions, by their words
        keywords = tuple(replace(k, value=self._argument(k.value, layouts.get(k.name))) for k in call.keywords)
        results = tuple(replace(r, text=self._word(r.text)) for r in call.results)
        define = self._define(call.word)
        word = define.word if define else call.word
        renamed = replace(call, word=word, arguments=arguments, keywords=keywords, results=results)
        return call if renamed == call else replace(renamed, text=text_of_call(renamed))

    def parameter(self, parameter: Parameter) -> Parameter:
        default, tensor = parameter.default, tensor_of_type(parameter.default)
        if tensor:
            default = f"{self.names.tensors.get(tensor, tensor)}.type"
        name, computed = self.own.get(parameter.name, parameter.name), parameter.computed
        return replace(parameter, name=name, default=default, computed=computed and self._argument(computed))

    def fact(self, fact: Fact) -> Fact:
        text = re.sub(r"[A-Za-z_]\w*", lambda word: self.own.get(word[0], word[0]), fact.text)
        return replace(fact, text=text, formula=_in_names(fact.formula, self.own))

    def composites(self) -> Iterator[Define]:
        """The composite steps in the other names, each under a word of its own."""
        return filter(None, map(self._define, self.defines))

    def _define(self, word: str) -> Define | None:
        """A composite step in the other names; None where it has none of the kernel's."""
        define = self.defines.get(word)
        if define is None or word in self.inside:
            return None
        made = (r.text for step in define.steps for r in step.results)
        taken = names_of(self.kernel)
        local = {n: f"{n}_" if n in taken else n for n in (*define.parameters, *define.results, *made)}
        inner = replace(self, inside=(*self.inside, word), local=local)
        steps = tuple(map(inner.call, define.steps))
        if steps == define.steps:
            return None
        new = f"{word}_for_{self.kernel.name}"
        parameters, results = ([local[n] for n in names] for names in (define.parameters, define.results))
        head = f"define {new}({', '.join(parameters)})" + (f" -> {', '.join(results)}" if results else "")
        text = "\n".join((f"{head}:", *(f"    {step.text}" for step in steps)))
        return Define(new, tuple(parameters), tuple(results), steps, define.doc, Span(Source(f"<{new}>", text), 1, 1))

    def _argument(self, argument: Argument, of: str | None = None) -> Argument:
        """An argument; of a layout, a dimension of the tensor `of`."""
        words = self.names.words.get(of, self.names.words[""]) if of is not None else {}
        match argument:
            case Word(text) if text in words and text not in self.local:
                return replace(argument, text=words[text])
            case Word(text):
                return replace(argument, text=self._word(text))
            case Items(items):
                return replace(argument, items=tuple(self._argument(i, of) for i in items))
            case Arithmetic(_, left, right):
                return replace(argument, left=self._argument(left), right=self._argument(right))
            case _:
                return argument

    def _word(self, text: str) -> str:
        """A name, as of a loop, or what is called after one: A.shared, y.i, y.io, y.i2."""
        if text in self.local:
            return self.local[text]
        if text in LOOP_KINDS:
            return text
        if text in self.names.loops:
            return self.names.loops[text]
        first, *rest = text.split(".")
        new = self.local.get(first) or self.names.tensors.get(first) or self.own.get(first, first)
        new = re.sub(r"\{(\w+)\}", lambda word: f"{{{self.own.get(word[1], word[1])}}}", new)
        return ".".join([new, *(self._part(first, new, word) for word in rest)])

    def _part(self, of: str, new_of: str, word: str) -> str:
        """What follows a dot: an index word, with the letters of parts or the number that steps put after it.

        The number counts from the loop of the equation on, which has a dot where the word is one of several equations.
        """
        words = self.names.words.get(of, self.names.words[""])
        if word not in words and word in {*self.made, *self.local}:
            return self.own.get(word, word)
        longest = sorted(words.items(), key=lambda pair: -len(pair[0]))
        # In front of an index stands k for the loop over its terms that split_scan makes; but ki is a part of a loop k.
        for before in ("", "k") if word not in ("ki", "ko") else ("",):
            for old, new in longest:
                if found := re.fullmatch(rf"{before}{old}([oi]*)(\d*)", word):
                    there = (f"{of}.{old}" in self.names.loops, f"{new_of}.{new}" in self.names.loops.values())
                    number = int(found[2] or 1) + (0 if found[1] or before else there[1] - there[0])
                    return f"{before}{new}{found[1]}{number if number > 1 else ''}"
        return word


def _in_names(formula: Operation, own: Mapping[str, str]) -> Operation:
    def new(arg: str | int | Operation) -> str | int | Operation:
        return _in_names(arg, own) if isinstance(arg, Operation) else own.get(arg, arg) if isinstance(arg, str) else arg

    return replace(formula, args=tuple(map(new, formula.args)))
