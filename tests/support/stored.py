"""Arrays as tests make them, floats that numpy has no type of as their bits, and as calls of programs take them."""

import numpy as np

from tilegen.backends.calls.arrays import number_type
from tilegen.interpreter.dtypes import from_values
from tilegen.ir.in_place import memory_of


def drawn(kernel, sizes, draw):
    """The inputs of a kernel in their storage orders, and its scalars: what `draw` makes of each shape."""

    def array(tensor):
        values = draw([tensor.shape[d].evaluate(sizes) for d in tensor.order])
        return from_values(np.asarray(values), tensor.dtype).transpose(np.argsort(tensor.order))

    numbers = {s.name: from_values(np.asarray(draw([1])), s.dtype)[0] for s in kernel.scalars}
    arrays = {memory_of(t.name): array(t) for t in kernel.tensors if t.role == "input"}
    return rising(kernel, sizes, arrays) | numbers


def rising(kernel, sizes, arrays):
    """The arrays, with rows of any length, and empty ones, where the kernel is promised that they rise."""
    for name, end in kernel.rising:
        last, ends = end.evaluate(sizes), arrays[name].astype(np.int64).cumsum() % (end.evaluate(sizes) + 1)
        arrays[name] = np.sort(np.array([0, *ends[1:-1], last])).astype(arrays[name].dtype)
    return arrays


def as_called(kernel, arrays):
    """The arrays, of numpy or cupy, and the scalars by name, as a call takes them."""
    dtypes = {memory_of(tensor.name): tensor.dtype for tensor in kernel.tensors}
    found = dict(arrays)
    for name in dtypes.keys() & arrays.keys():
        found[name] = arrays[name].view(number_type(dtypes[name], cupy=not isinstance(arrays[name], np.ndarray)))
    return found
