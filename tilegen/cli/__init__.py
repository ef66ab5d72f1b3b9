"""The command line: what a user types, and how results look on a terminal."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from tilegen.cli.shell.interrupt import INTERRUPTED, closed_pipes_end_well
from tilegen.cli.shell.streams import checked_streams, open_closed
from tilegen.errors import DeviceError, TilegenError
from tilegen.installation import install_extra

if TYPE_CHECKING:
    import click


def main() -> None:
    """The command `tilegen`; ends the process with its exit code."""
    open_closed()
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        # A normal exit would wait for other threads, in which a compiler may run for seconds.
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Runs the command with `arguments`; returns its exit code: 0 fine, 1 the user's input, 2 usage,
    3 an illegal schedule, 4 a wrong result, 5 a device, 6 nothing was compared."""
    try:
        with closed_pipes_end_well(), checked_streams():
            return _run(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED


def load_commands(first: str = "") -> click.Group:
    """The command `tilegen` with all of its commands: the folder is the registry.

    Where a file of the folder is called `first`, that one alone is loaded: others take longer to load than to run one.
    """
    from tilegen.cli import commands
    from tilegen.cli.commands.shared import tilegen

    names = [module.name for module in iter_modules(commands.__path__)]
    for name in [first] if first in names else names:
        import_module(f"{commands.__name__}.{name}")

    return tilegen


def _run(arguments: list[str]) -> int:
    try:
        import click

        from tilegen.cli.shell.arguments import repeat_options

        tilegen = load_commands(*arguments[:1])
    except ImportError as error:
        print(f"error: a part of tilegen does not load: {error}", file=sys.stderr)
        again = install_extra("", "--force-reinstall")
        print(f"  note: {again} installs all of them anew", file=sys.stderr)
        return DeviceError.exit_code

    try:
        code = tilegen.main(repeat_options(arguments), prog_name="tilegen", standalone_mode=False, obj=arguments)
        sys.stdout.flush()
    except TilegenError as error:
        print(error.render(), file=sys.stderr)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        if "unexpected extra argument" in error.message:
            print("  note: a schedule stands behind a colon, gemm:tiled; sizes behind --size, M=64", file=sys.stderr)
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("tilegen."):
            raise
        print(f"error: this needs {error.name}, a part of tilegen that is not installed", file=sys.stderr)
        return DeviceError.exit_code
    except MemoryError as error:  # the errors of numpy and cupy are subclasses
        print(f"error: out of memory: {error}\n  note: --size chooses smaller arrays", file=sys.stderr)
        return DeviceError.exit_code
    return code if isinstance(code, int) else 0
