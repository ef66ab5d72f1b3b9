"""What the proof says of faults that are put into a program."""

from tests.support.written import tree_from
from tilegen.lowering import lower
from tilegen.proof import prove


def find_missed(fault, text, least=1):
    """The launches with a fault of a kind that the proof takes for right; there are so many with it at least."""
    tree = tree_from(text)
    (launch,) = lower(tree)
    faulty = list(fault(launch))
    assert len(faulty) >= least
    return [each for each in faulty if prove(tree.kernel, (each,), tree.reassociated).verdict == "proved"]
