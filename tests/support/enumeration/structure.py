"""What makes a tree no launch at any size, for the second opinion on legality."""

from __future__ import annotations

from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS
from tilegen.ir.walk import leaves, reads, writes


def structure(tree):
    """What no launch can be, whatever the sizes: a sentence, or None."""
    buffers = {b.name: b for b in tree.buffers}
    for launch in tree.body:
        for kind in BLOCK_KINDS:
            chains = {tuple(loop.name for loop in path if loop.kind == kind) for path, _ in leaves((launch,))}
            if len(chains) > 1 and max(map(len, chains)) > 1:
                return f"{kind} is shared, and not by everything in the launch"
    for path, stmt in leaves(tree.body):
        kinds = [loop.kind for loop in path]
        names = [loop.name for loop in path]
        for n, kind in enumerate(kinds):
            if kind in THREAD_KINDS and kind in kinds[:n]:
                return f"{kind} twice"
            if kind in BLOCK_KINDS and any(k not in BLOCK_KINDS for k in kinds[:n]):
                return f"block loop {names[n]} inside another"
            if kind == "vector" and n != len(kinds) - 1:
                return f"vector loop {names[n]} holds loops"
        for name in {b for b, _ in (*reads(stmt), *writes(stmt))}:
            buffer = buffers.get(name)
            if buffer is None or buffer.space == "global":
                continue
            if buffer.scope not in names:
                return f"{name} outside its scope"
            home = names.index(buffer.scope)
            if buffer.space == "register" and "cooperative" in kinds[home + 1 :]:
                return f"{name} is dealt out to threads"
            if buffer.space == "shared" and any(k in BLOCK_KINDS for k in kinds[home + 1 :]):
                return f"{name} for several blocks"
            if buffer.space == "shared" and any(k in THREAD_KINDS for k in kinds[: home + 1]):
                return f"{name} inside a thread"
    return None
