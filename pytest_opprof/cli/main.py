"""The ``opprof`` command: its parser, and its exit code for each error."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from .. import __version__
from ..errors import OpprofError
from ..report.escaping import terminal
from . import (
    backends,
    baselines,
    bisect,
    budget,
    check,
    convert,
    formats,
    history,
    ops,
    report,
    selfcheck,
    summary,
    viewer,
)
from .diff import command as diff
from .inputs.remote import copied
from .show import command as show

OK, FINDING, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 for a finding, 2 for bad usage or input, and of a step of git bisect its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names are in any script, terminals are not
    commands = parser()
    if not (sys.argv[1:] if argv is None else argv):
        commands.print_help(sys.stderr)
        return BAD_INPUT
    arguments = commands.parse_args(argv)
    if sys.stdout is None:
        print("opprof: there is no standard output to write to", file=sys.stderr)
        return BAD_INPUT
    code = _run(arguments)
    if argv is None and {"cupy", "torch"} <= sys.modules.keys():
        # In 4 of 6 runs of selfcheck on an H200 (PyTorch 2.11) cuBLAS, which CuPy had loaded, released its context
        # after the end of PyTorch's profiler, whose callback of CUPTI then freed memory twice: exit code 134.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run(arguments: argparse.Namespace) -> int:
    try:
        with copied(arguments):
            code = int(arguments.run(arguments))  # True is a finding; a step of git bisect has codes of its own
        sys.stdout.flush()
    except OpprofError as error:
        print("\n".join(map(terminal, f"opprof: {error}".splitlines())), file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # The reader (head, a pager) has seen enough. The rest of the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        print(terminal(f"opprof: {error.filename or 'the output'}: {error.strerror or error}"), file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BAD_INPUT
    except KeyboardInterrupt:
        print("opprof: interrupted", file=sys.stderr)
        return INTERRUPTED
    return code


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command, with all sub-commands."""
    found = argparse.ArgumentParser(prog="opprof", description="Op-level performance regression testing.")
    found.add_argument("--version", action="version", version=f"opprof {__version__}")
    commands = found.add_subparsers(metavar="COMMAND", required=True)

    on_profiles = (show, diff, check, budget, convert, viewer, formats)
    for command in (ops, backends, selfcheck, *on_profiles, baselines, history, bisect, summary, report):
        command.add(commands)
    return found
