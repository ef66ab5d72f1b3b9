"""Old values of a tensor that is updated in place are read before they are overwritten.

Theorem: no write of an element of `C` comes before a read of that element of `C.old`, which has the same memory. It is
asked of all accesses to that memory, those of copies too; which values copies hold is asked in `copies`, as it is for
any other tensor.
"""

from __future__ import annotations

from tilegen.ir.in_place import is_old, memory_of
from tilegen.poly.execution import ways_before
from tilegen.poly.instances import Placed, Projection, Use
from tilegen.poly.verdict import Refused, counterexample


def check_updates(program: Projection) -> None:
    """Refused where an element is overwritten before its old value is read."""
    for old in filter(is_old, program.buffers):
        writers = [p for p in program.leaves if memory_of(old) in p.leaf.written_buffers]
        readers = [p for p in program.leaves if old in p.leaf.buffers]
        for writer in writers:
            for reader in readers:
                _check_pair(program, old, writer, reader)


def _check_pair(program: Projection, old: str, writer: Placed, reader: Placed) -> None:
    writes = {u.index: u for u in writer.leaf.uses if u.writes and u.buffer == memory_of(old)}
    reads = {u.index: u for u in reader.leaf.uses if u.buffer == old}
    for write in writes.values():
        for read in reads.values():
            _check_uses(program, writer, reader, write, read)


def _check_uses(program: Projection, writer: Placed, reader: Placed, write: Use, read: Use) -> None:
    original, one, two = program.original, writer.leaf, reader.leaf
    for shared, rows in ways_before(writer, reader):
        question, names = original.meeting_rows(one, two, write, read, shared, rows)
        loops = (*one.names, *(names.get(n, n) for n in two.names))
        if words := counterexample(original, question, loops, shared):
            raise Refused(
                f"an element of '{write.buffer}' is overwritten before its old value is read",
                f"{words.instance(one)} writes {words.element(write)}, and {words.instance(two, True)} reads "
                f"{words.element(read, True)} after that{words.sizes}",
                f"keep all reads of '{read.buffer}' before the writes, or give the kernel another tensor to write to",
            )
