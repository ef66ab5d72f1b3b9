"""tilegen from Python: load a text, schedule a kernel, look at it, compile it, call it with arrays."""

from __future__ import annotations

from pathlib import Path

from tilegen.api.files import File, Kernel, from_text
from tilegen.api.scheduled import Scheduled
from tilegen.errors import UsageError, did_you_mean
from tilegen.frontend.files import read_file, shorten
from tilegen.frontend.parsing.scan import MOST_CHARACTERS
from tilegen.frontend.stock import stock, stock_names


def load(path_or_text: str | Path, *, cache: bool = True) -> File:
    """The kernels and schedules of a text, a file, or a stock file by its name ("gemm").

    A stock file's name never means another file: that one is called by its path, "gemm.tg" or "./gemm". A kernel
    without schedules in its file gets the stock schedules for its name, if it has the loops and tensors of the stock
    kernel; a schedule whose kernel is not in its file is for the stock kernel of that name.

    Args:
        cache: False judges, lowers and proves in this process whatever is called, though an earlier one has done so.

    Raises:
        UsageError: no such file.
        SourceError: a text that is not well formed, or a schedule for a kernel that is nowhere.
    """
    name = str(path_or_text)
    if "\n" in name:
        return from_text(name, cache=cache)
    if name in stock_names() and not (isinstance(path_or_text, Path) and path_or_text.is_file()):
        return File(stock(name), _remark_on_namesake(name), cache=cache)
    text = read_file(name, MOST_CHARACTERS * 4)
    if text is not None:
        return from_text(text, name, cache=cache)
    notes = did_you_mean(name.partition(":")[0] or name, stock_names(), "the stock files are")
    raise UsageError(f"there is no file '{shorten(name)}', and no stock file of that name", notes=notes)


def _remark_on_namesake(name: str) -> str:
    """What tells the stock file `name` from a file of that name in the current folder; empty where there is none."""
    for path, other in ((f"{name}.tg", f"{name}.tg"), (name, f"./{name}")):
        if Path(path).is_file():
            return f"{name} is the stock file; for the file {path} of this folder say {other}"
    return ""


__all__ = ["File", "Kernel", "Scheduled", "from_text", "load", "stock_names"]
