"""tilegen: a tensor program and a schedule of a few lines each become a readable, proven, fast CUDA kernel.

>>> import tilegen
>>> gemm = tilegen.load("gemm").schedule("registers").compile()
>>> c = gemm(a, b)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilegen.version import __version__

if TYPE_CHECKING:
    from tilegen.api import File, Kernel, Scheduled, load
    from tilegen.errors import TilegenError

__all__ = ["File", "Kernel", "Scheduled", "TilegenError", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """Loads on first use, so that `import tilegen` costs next to nothing."""
    if name == "torch":
        return import_module("tilegen.torch")
    if name not in __all__:
        raise AttributeError(f"module 'tilegen' has no attribute '{name}'")
    if name == "TilegenError":
        from tilegen.errors import TilegenError

        return TilegenError
    from tilegen import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
