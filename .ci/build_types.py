"""A step of the build: writes the types of the steps as methods, for editors and type checkers, into the package."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WriteTypes(BuildHookInterface):  # type: ignore[type-arg]
    """For a wheel and for an editable install; git ignores the file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        sys.dont_write_bytecode = True  # the package is copied into the wheel as it lies there
        from tilegen.frontend.stock import standard_steps
        from tilegen.primitives.calling.signature import stub

        path = Path("tilegen", "primitives", "calling", "methods.pyi")
        Path(self.root, path).write_text(stub(standard_steps()), encoding="utf-8")
        build_data["artifacts"].append(path.as_posix())
