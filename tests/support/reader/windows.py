"""Elements that windows show, as terms: a choice between that of their tensor and what is outside."""

from tests.support.enumeration.machine import shown_by
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access


def shown(reader, access, windows):
    """The term of an element, whether it is inside of the tensor being known."""
    tensor, place = shown_by(windows, [i.evaluate(reader.env) for i in access.index], reader.env)
    extents = [e.evaluate(reader.env) for e in reader.launch.buffers[tensor].shape]
    moved = [i != var(str(i)) for i in windows.index]
    inside = all(0 <= p < e for p, e, tested in zip(place, extents, moved, strict=True) if tested)
    found = ("load", *reader.place_of(Access(tensor, tuple(map(const, place)))))
    return ("select", inside, found, reader.store_term(windows.fallback, access)) if windows.fallback else found


def is_shown(term, launch):
    """True for a load from a tensor beyond which windows show something."""
    seen = {b.windows.tensor for b in launch.buffers.values() if b.windows and b.windows.fallback}
    return isinstance(term, tuple) and term[0] == "load" and term[1][0] in seen


def holds(test):
    """True if a test of numbers is met."""
    match test:
        case ("and", one, two):
            return holds(one) and holds(two)
        case (sign, one, two):
            return {"<": one < two, "<=": one <= two, ">": one > two, ">=": one >= two}[sign]
