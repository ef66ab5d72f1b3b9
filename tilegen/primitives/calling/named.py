"""Which numbers of loops parameters of the schedule gave, for who prints them."""

from __future__ import annotations

from tilegen.ir.parts.named import Named
from tilegen.ir.steps import Number, StepCall
from tilegen.primitives import Primitive
from tilegen.primitives.calling.call import fields_by_place
from tilegen.primitives.pipeline import Pipeline
from tilegen.primitives.tile import Tile


def named_after(before: tuple[Named, ...], step: Primitive, call: StepCall) -> tuple[Named, ...]:
    """What is named of the loops of a tree after a step."""
    names = [f.name for f in fields_by_place(type(step))[0]]
    given = dict(zip(names, call.arguments, strict=False)) | {k.name: k.value for k in call.keywords}
    numbers = {name: each for name, each in given.items() if isinstance(each, Number) and each.name}
    gone, found = {result.text for result in call.results}, []
    match step:
        case Tile(outer=outer, inner=inner):
            if size := numbers.get("size"):
                found += [Named(outer, "stride", size.name, size.value), Named(inner, "extent", size.name, size.value)]
            if parts := numbers.get("parts"):
                found += [Named(outer, "extent", parts.name, parts.value)]
            # The inner loop counts what the one that was cut did, the outer one several of these at once.
            old = [each for each in before if each.loop == step.loop and each.what == "stride"]
            found += [each._replace(loop=inner) for each in old]
            if step.size and not size:
                found += [Named(outer, "stride", n.name, n.value * step.size, n.times * step.size) for n in old]
        case Pipeline(loop=loop) if stages := numbers.get("stages"):
            found += [Named(loop, "stages", stages.name, stages.value)]
    return (*(each for each in before if each.loop not in gone), *found)
