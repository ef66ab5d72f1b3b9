"""Are the texts of all stock schedules what they were? Every schedule, every version, both languages, to the byte.

    python -m tests.support.devices.all_texts --save before.json        and after a change:
    python -m tests.support.devices.all_texts --against before.json

It also prints how long emission takes from a tree that is not known yet: the median and the longest, CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from hashlib import sha256
from pathlib import Path
from statistics import median
from time import process_time

from tests.support.stock import cases, schedule_stock
from tilegen.backends.text import emit
from tilegen.lowering import lower
from tilegen.proof import prove

VERSIONS = {"vector": {}, "scalar": {"vector": False}, "whole": {"whole": True}, "wide": {"wide": True}}


def texts() -> tuple[dict[str, str], dict[str, float]]:
    """(the hash of each text, the seconds for steps, lowering, proof and CUDA text of each schedule)."""
    hashes, seconds = {}, {}
    for name, schedule in cases():
        start = process_time()
        tree = schedule_stock(name, schedule).tree
        for version, options in VERSIONS.items():
            launches = lower(tree, **options)
            held = any(b.fragment for b in tree.buffers)
            meant = lower(tree, instructions=False, **options) if held else launches
            if version == "vector":
                verdict = prove(tree.kernel, launches, tree.reassociated).verdict
                emit(launches, "cuda")
                seconds[f"{name}.{schedule}"] = process_time() - start
                if verdict != "proved":
                    print(f"{name}.{schedule}: {verdict}")
            for language in ("cuda", "opencl"):
                text = emit(launches if language == "cuda" else meant, language)
                hashes[f"{name}.{schedule} {version} {language}"] = sha256(text.encode()).hexdigest()
    return hashes, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", metavar="F")
    parser.add_argument("--against", metavar="F")
    asked = parser.parse_args()
    found, seconds = texts()
    longest = max(seconds, key=lambda name: seconds[name])
    print(f"{len(found)} texts; emission {median(seconds.values()):.3f} s, most {seconds[longest]:.2f} s ({longest})")
    if asked.save:
        Path(asked.save).write_text(json.dumps(found, indent=0))
    if not asked.against:
        return 0
    before = json.loads(Path(asked.against).read_text())
    other = sorted(name for name in before.keys() | found.keys() if before.get(name) != found.get(name))
    print("\n".join(other) or f"all {len(found)} as they were")
    return bool(other)


if __name__ == "__main__":
    sys.exit(main())
