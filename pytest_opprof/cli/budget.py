"""``opprof budget``: limits from the numbers of a profile, or of the tests of a run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..questions import query
from ..report.escaping import terminal
from ..report.tables import document as as_json
from ..units import parse_share
from .inputs import reading
from .inputs.opened import Opened, Profiles, RunFile, opened
from .inputs.reading import Asked
from .inputs.remote import location

if TYPE_CHECKING:
    from ..profile.saved import SavedProfile
    from ..results.run_result import RunResult
    from ..verdict.proposal import Limits

_WHAT = "write a budget from measured numbers: calls exactly, device time and memory with a margin"


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "budget", help="write a budget from the numbers of a profile or a run", description=_WHAT
    )
    parser.add_argument("file", type=location, help="a profile, or the JSON of pytest --opprof-json=FILE")
    reading.add_source(parser)
    parser.add_argument("--margin", default="20%", metavar="PERCENT", help="added to times and memory (default: 20%%)")
    parser.add_argument("-t", "--top", type=int, default=5, metavar="K", help="the K most expensive ops (0 is all)")
    parser.add_argument("--test", metavar="ID", help="only this test of a run")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    """Print the budgets."""
    margin = parse_share(arguments.margin, "--margin")
    if arguments.top < 0:
        raise UsageError(f"--top {arguments.top}: write a number of ops; 0 is all")
    kinds: tuple[type[Opened], ...] = (Profiles, RunFile)
    given = opened(arguments.file, Asked.of(arguments), *kinds)
    if isinstance(given, RunFile):
        found = list(_of_run(arguments, given.run, margin))
    elif arguments.test is not None:
        raise UsageError(f"--test {arguments.test}: is for runs; {arguments.file} is a profile")
    elif isinstance(given, Profiles):
        found = [_of_profile(arguments, given.one("budget")[1], margin)]
    if arguments.format == "json":
        print(as_json({"budgets": found}))
        return False
    for budget in found:
        lines = [*([f"# {budget['test']}"] if budget["test"] else []), budget["mark"], *filter(None, [budget["check"]])]
        print("\n".join(map(terminal, lines)))
    return False


def _of_profile(arguments: argparse.Namespace, saved: SavedProfile, margin: float) -> dict[str, Any]:
    # Imported here, with NumPy behind it.
    from ..verdict.proposal import as_check, proposed

    profile = saved.profile()
    limits = proposed(
        profile.ops,
        profile.total.device_ns,
        profile.peak_memory,
        arguments.top,
        margin,
        lambda op: not query.is_untold(saved, op),
    )
    asked = {"source": arguments.source, "rank": arguments.rank, "steps": arguments.steps, "stage": arguments.stage}
    options = [word for flag, value in asked.items() if value is not None for word in (f"--{flag}", value)]
    options += ["--partial"] if arguments.partial else []
    options += ["--allow-inferred"] if saved.inferred_types else []
    return _plain("", limits, as_check(str(arguments.file), limits, options))


def _of_run(arguments: argparse.Namespace, run: RunResult, margin: float) -> Iterator[dict[str, Any]]:
    from ..results.window_result import titled
    from ..verdict.proposal import proposed

    tests = [test for test in run.tests if arguments.test in (None, test.id) and test.windows]
    if not tests:
        which = "measured no test" if arguments.test is None else f"has no test {arguments.test} that was measured"
        raise UsageError(f"{arguments.file}: {which}{reading.listed_below([test.id for test in run.tests])}")
    for test in tests:
        for window in test.windows:
            ns, peak = window.total.device_ns, window.facts.get("peak_memory")
            limits = proposed(window.stats, ns, peak, arguments.top, margin)
            yield _plain(titled(test.id, window.name), limits, None)


def _plain(test: str, limits: Limits, check: str | None) -> dict[str, Any]:
    from ..verdict.proposal import as_mark

    return {"test": test or None, "mark": as_mark(limits), "check": check, "limits": dict(limits)}
