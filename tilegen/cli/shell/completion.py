"""What TAB completes in a shell: files, kernels, schedules, parameters, sizes, devices, steps.

`eval "$(_TILEGEN_COMPLETE=bash_source tilegen)"` turns it on; for zsh and fish it is zsh_source and fish_source.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete
from click.shell_completion import add_completion_class as register

from tilegen import api
from tilegen.cli.shell.arguments import SEVERAL, is_pair, repeat_options
from tilegen.cli.shell.request import split_target
from tilegen.errors import TilegenError, visible
from tilegen.ir.steps import Schedule

Item = CompletionItem[str]
Complete = Callable[[click.Context, click.Parameter, str], list[Item]]


# -- what there is


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """Stock files, files of the language and folders; after a colon the schedules of the file."""
    name, colon, begun = incomplete.partition(":")
    if colon and (file := _load(name)):
        return _in_list((s.name for s in file.schedules), begun, f"{name}:")
    return [*_items(api.stock_names(), incomplete), *_items(_paths(incomplete), incomplete)]


def schedules(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """Schedules of the files that are given, after a comma too."""
    kernel = _parameters(context).get("kernel")
    found = (s.name for file in _given(context) for s in file.schedules if kernel in (None, s.kernel))
    return _in_list(found, incomplete)


def kernels(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """Kernels of the files that are given."""
    return _items((kernel for file in _given(context) for kernel in file.kernels), incomplete)


def settings(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """Parameters of the schedules, and attributes of the kernels; behind = the candidates of a parameter."""
    name, equals, begun = incomplete.partition("=")
    found = [p for schedule in _chosen(context) for p in schedule.parameters]
    if equals:
        values = {str(v): None for p in found if p.name == name for v in (*p.candidates, p.default)}
        return _in_list(values, begun, f"{name}=")
    attributes = (a for file in _given(context) for kernel in file.kernels.values() for a in kernel.attributes)
    return _items((f"{word}=" for word in (*(p.name for p in found), *attributes)), incomplete)


def sizes(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """The sizes of the kernels."""
    wanted = {s.kernel for s in _chosen(context)}
    declared = [k for file in _given(context) for name, k in file.kernels.items() if not wanted or name in wanted]
    return _items((f"{size}=" for kernel in declared for size in kernel.size_names()), incomplete)


def devices(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """The words for devices."""
    from tilegen.backends.devices.devices import DEVICES

    return _items(DEVICES, incomplete)


def machines(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """The machines that times are predicted for."""
    from tilegen.lab.predict.machine import machine_names

    return _items([*machine_names(), "auto"], incomplete)


def words_of(known: Callable[[], Iterable[str]]) -> Complete:
    """Completes one of the words."""

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
        return _items(known(), incomplete)

    return complete


def _parameters(context: click.Context) -> dict[str, Any]:
    """The arguments of the command so far: click forgets them where an option waits for its value."""
    words: list[str] = context.find_root().obj
    own = words[words.index(str(context.info_name)) + 1 :]
    complete = own[:-1] if own and own[-1].startswith("-") else own
    return context.command.make_context(context.info_name, [*complete], resilient_parsing=True).params


def _targets(context: click.Context) -> list[tuple[str, list[str]]]:
    """The files on the command line, with the schedules after their colons."""
    given = _parameters(context).get("file") or ()
    return [split_target(word) for word in ((given,) if isinstance(given, str) else given)]


def _given(context: click.Context) -> list[api.File]:
    """The files on the command line, those that can be read."""
    return [file for name, _ in _targets(context) if (file := _load(name))]


def _chosen(context: click.Context) -> list[Schedule]:
    """The schedules that are named on the command line; all where none is."""
    listed = (_parameters(context).get("schedule") or "").split(",")
    named = {*listed, *(name for _, own in _targets(context) for name in own)} - {""}
    return [s for file in _given(context) for s in file.schedules if not named or s.name in named]


def _load(name: str) -> api.File | None:
    if name == "-" or (Path(name).exists() and not Path(name).is_file()):  # a pipe is for the command itself
        return None
    try:
        return api.load(name)
    except TilegenError:
        return None


def _paths(incomplete: str) -> Iterator[str]:
    folder, _, _ = incomplete.rpartition("/")
    lead = f"{folder}/" if "/" in incomplete else ""
    try:
        found = sorted(Path(lead or ".").iterdir())
    except (OSError, ValueError):
        return
    for path in found:
        if visible(path.name) != path.name:  # no shell can be given it as a line
            continue
        if os.path.isdir(path) and not path.name.startswith("."):
            yield f"{lead}{path.name}/"
        elif path.name.endswith(".tg"):
            yield f"{lead}{path.name}"


def _items(words: Iterable[str], incomplete: str) -> list[Item]:
    return [CompletionItem(word) for word in dict.fromkeys(words) if word.startswith(incomplete)]


def _in_list(words: Iterable[str], begun: str, lead: str = "") -> list[Item]:
    """The words that may stand next in a list with commas, each with all that stands before it."""
    before, comma, last = begun.rpartition(",")
    used = before.split(",")
    return _items((f"{lead}{before}{comma}{word}" for word in words if word not in used), f"{lead}{begun}")


# -- shells


class _Options(ShellComplete):
    """Knows that several pairs may stand after one option: `--size M=1 N=2`."""

    def get_completions(self, args: list[str], incomplete: str) -> list[Item]:
        open_option = next((w for w in reversed(args) if not is_pair(w)), "")
        args = repeat_options(args)
        self.ctx_args["obj"] = args
        if open_option in SEVERAL and not incomplete.startswith("-"):
            behind = args if args[-1] == open_option else [*args, open_option]
            if found := super().get_completions(behind, incomplete):
                return found
        return super().get_completions(args, incomplete)


@register
class _Bash(_Options, BashComplete):
    """bash takes `gemm:tiled` and `TS=16` for three words each, and completes the last of them."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        joined: list[str] = []
        for word in (*args, incomplete):
            if joined and word and (word in ":=" or joined[-1][-1:] in (":", "=")):
                joined[-1] += word
            else:
                joined.append(word)
        return joined[:-1], joined[-1]

    def complete(self) -> str:
        _, incomplete = self.get_completion_args()
        self._known = max(incomplete.rfind(":"), incomplete.rfind("=")) + 1
        return super().complete()

    def format_completion(self, item: Item) -> str:
        return f"{item.type},{item.value[self._known :]}"


@register
class _Zsh(_Options, ZshComplete):
    pass


@register
class _Fish(_Options, FishComplete):
    pass
