"""The pytest plugin: flags, marks and the fixture. Imports nothing expensive, since most runs do not measure."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .pytest_plugin.fixture import Opprof

_IDLE_IN_WORKERS = pytest.StashKey[int]()
MARKS = (
    'op_budget(Op=limit, ..., device_time="5 ms", only=[...], top=[...]): the budget of a test. A limit is a number'
    ' of calls (10 or "3..5"), a device time ("100 us"), a share of it ("5%") or bytes moved ("64 MiB"); a mapping'
    " takes raw op names and globs. Enforced by --opprof.",
    "opprof(rounds=1, warmup=None, backend=None, timing=None, tolerance=None, op_tolerance=None,"
    " work_tolerance=None, floor=None, memory=None, leaks=None, python=None, threads=1, baseline=True, ranks=None,"
    " top=None): measure the test with these settings; with rounds its body runs that many times and must be"
    " repeatable. Times are judged from 10 rounds on; 30 are better.",
)
# Variables that launchers set; `machine.ranks` reads them.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_FLAGS = (
    ("baselines", "DIR", "folder of the baselines (default: baselines, in the root directory)"),
    ("backend", "NAME[,NAME]", "backends that record ops; opprof backends lists them (default: auto)"),
    (
        "timing",
        "MODE",
        "on accelerators: async (default: their own times) or sync (from before each launch to after its end)",
    ),
    (
        "tolerance",
        "PERCENT",
        "how much slower a window may be, if it has 10 rounds or more (default: 13%%; against a revision 6%%)",
    ),
    ("op-tolerance", "PERCENT", "how much slower a single op may be (default: 25%%; against a revision 15%%)"),
    (
        "work-tolerance",
        "PERCENT",
        "how many more bytes or FLOPs an op may have than its baseline (default: 1%%, and 1 KiB)",
    ),
    ("floor", "TIME", "the smallest slowdown of a window that counts (default: 2 us)"),
    ("threads", "N", "number of threads for ops if times are judged, or all (default: 1)"),
    (
        "processes",
        "N",
        "number of processes for a new baseline (default: calls 3, times 5), or for judged times (default: 1)",
    ),
    ("noise", "ACTION", "tests too noisy to judge: warn (default), fail, or ignore the noise"),
    ("ranks", "CALLS", "calls of several ranks: any (default), or equal, the same in each"),
    ("top", "K", "number of ops of a failing test to show beside the failing ones (default: 5)"),
    (
        "json",
        "FILE",
        "write all results of this run to FILE, as JSON; rank 0 writes it, or with {rank} in FILE each rank its own",
    ),
    ("traces", "DIR", "write a trace of each failing window: the timeline of its fastest round"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags, and their twins in the ini file."""
    group = parser.getgroup("opprof", "op-level performance")
    # A flag with a twin defaults to None, because False would hide the ini file's value.
    group.addoption(
        "--opprof", action="store_true", default=None, help="measure marked tests; enforce their budgets and baselines"
    )
    group.addoption(
        "--opprof-update", action="store_true", help="measure, and write the baselines of the tests that passed"
    )
    group.addoption(
        "--opprof-update-new", action="store_true", help="like --opprof-update, only for tests without a baseline"
    )
    group.addoption("--opprof-all", action="store_true", default=None, help="measure every test, marked or not")
    group.addoption(
        "--opprof-strict",
        action="store_true",
        default=None,
        help="fail on missing or stale baselines, and on times that are not compared",
    )
    group.addoption(
        "--opprof-report-only",
        action="store_true",
        default=None,
        help="let tests pass that exceed their budget or baseline; list at the end the tests that would fail, and why",
    )
    group.addoption(
        "--opprof-against",
        metavar="REV",
        default=None,
        help="measure, and compare with another git revision by turns: main... is the merge base with"
        " main, as in git diff; auto is the base that CI names, else the merge base with the default branch",
    )
    group.addoption(
        "--opprof-against-install",
        metavar="COMMAND",
        default=None,
        help="install that revision beside today's packages, for one that is compiled: 'pip install --no-deps .'",
    )
    group.addoption(
        "--opprof-cache",
        metavar="DIR",
        default=None,
        help="folder that keeps that revision's results for the next run (default: opprof in pytest's own cache)",
    )
    group.addoption(
        "--opprof-against-tests",
        metavar="WHOSE",
        default=None,
        help="test files to run at that revision: its own (default: there), or the working tree's (here)",
    )
    group.addoption(
        "--opprof-against-python", metavar="EXE", default=None, help="the Python in which that revision is installed"
    )
    group.addoption(
        "--opprof-summary",
        metavar="FILE",
        default=None,
        help="append a summary in Markdown to FILE, as for $GITHUB_STEP_SUMMARY",
    )
    group.addoption(
        "--opprof-html",
        metavar="FILE",
        default=None,
        help="write the run as a page to read in a browser, in one file",
    )
    group.addoption(
        "--opprof-serialize",
        action="store_true",
        default=None,
        help="let workers of pytest-xdist measure one at a time, so that times are judged",
    )
    group.addoption(
        "--opprof-memory",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="record allocations also if times are judged, which slows the tests (default: only below 10 rounds), and"
        " Python's peak memory in one more run of each body (default: only of a marked test without"
        " ops but NumPy's; --no-opprof-memory: neither)",
    )
    group.addoption(
        "--opprof-leaks",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="run each body six more times to find leaks: objects, memory, threads, files (default: only of a marked"
        " test whose body leaves something behind when it runs again; --no-opprof-leaks: never)",
    )
    group.addoption(
        "--opprof-sites",
        action="store_true",
        default=None,
        help="record the source lines of ops (default: only of a failing test, in a re-run)",
    )
    group.addoption(
        "--opprof-python",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="count calls of Python functions, in one more run of each test's body (default: only of a marked test"
        " without ops, or with up to 10,000 of NumPy; --no-opprof-python: never)",
    )
    parser.addini("opprof", "measure, as --opprof does", type="bool", default=False)
    for name in ("all", "strict", "report-only", "serialize", "sites"):
        parser.addini(f"opprof_{name.replace('-', '_')}", f"as --opprof-{name}", type="bool", default=False)
    for name in ("memory", "leaks", "python"):
        text = f"as --opprof-{name}; false: as --no-opprof-{name}"
        parser.addini(f"opprof_{name}", text, type="bool", default=None)
    for name, metavar, text in _FLAGS:
        group.addoption(f"--opprof-{name}", metavar=metavar, default=None, help=text)
        parser.addini(f"opprof_{name.replace('-', '_')}", f"as --opprof-{name}", default="")
    # Kept only to report that it is gone, since opprof now sees each op of NumPy.
    group.addoption("--opprof-numpy", default=None, help=argparse.SUPPRESS)
    parser.addini("opprof_numpy", "removed: opprof sees each op of NumPy", default="")
    parser.addini("opprof_aliases", "lines RAW_NAME = Op: canonical names of your own ops", type="linelist")
    parser.addini("opprof_sites_show", "packages whose lines are shown as if they were yours", type="args")
    parser.addini("opprof_sites_hide", "files or folders of helpers: the lines that call them are shown", type="args")


# The options of pytest that run no test.
_SHOWS = ("collectonly", "help", "markers", "showfixtures", "show_fixtures_per_test")


def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Set the variables that PyTorch, CUDA and torch_npu read at their first import, which a conftest.py may
    trigger.

    A run that compares with a revision runs no test, so it loads no conftest.py: importing a framework may take longer
    than the tests.
    """
    options = early_config.known_args_namespace
    if options.opprof_against:
        from .processes.parent import VARIABLE

        if VARIABLE not in os.environ and not any(getattr(options, each, False) for each in _SHOWS):
            options.noconftest |= _knows_all(early_config, parser, args)
    if _is_active(options, early_config):
        # Without it the C++ kernels that torch.compile makes are not in any profile.
        os.environ.setdefault("TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE", "1")
        if (options.opprof_timing or early_config.getini("opprof_timing")) == "sync":
            # CUDA reads it when it is initialised: each launch then returns when its kernel is done.
            os.environ.setdefault("CUDA_LAUNCH_BLOCKING", "1")
            # torch_npu reads it when it is imported: each op then waits, and none is queued.
            os.environ.setdefault("ASCEND_LAUNCH_BLOCKING", "1")


def _knows_all(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> bool:
    """Return True if no conftest.py is needed to understand the command line and the ini file."""
    if parser.parse_known_and_unknown_args(args, argparse.Namespace())[1]:
        return False
    # pytest 9 deprecates the public name, and has no other way to list the keys.
    given = early_config._inicfg if hasattr(early_config, "_inicfg") else early_config.inicfg
    try:
        for name in given:
            early_config.getini(name)
    except (ValueError, TypeError, KeyError):
        return False
    return True


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Use the workers of pytest-xdist for the two sides of --opprof-against; pytest-xdist has counted them by now."""
    options = config.option
    if options.opprof_against is not None and getattr(options, "dist", "no") != "no":
        options.opprof_against_workers = len(options.tx) or 1
        options.dist, options.tx, options.numprocesses = "no", [], 0


# In a rank after pytest has set up its terminal, which ranks other than 0 replace.
@pytest.hookimpl(trylast=any(name in os.environ for name in _RANKS))
def pytest_configure(config: pytest.Config) -> None:
    """Register the marks; in a run that measures, also its hooks."""
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    if not _is_active(config.option, config):
        idle = [
            flag
            for flag in (
                "strict report-only json summary html memory leaks sites python traces serialize"
                " against-python against-install against-tests"
            ).split()
            if getattr(config.option, f"opprof_{flag.replace('-', '_')}")
            # Of addopts in the ini file a run without --opprof is no mistake.
            and any(str(each).partition("=")[0] == f"--opprof-{flag}" for each in config.invocation_params.args)
        ]
        if idle and not any(getattr(config.option, each, False) for each in _SHOWS):
            needs = "--opprof-against=REV" if idle[0].startswith("against") else "--opprof"
            raise pytest.UsageError(f"--opprof-{idle[0]} does nothing without {needs}")
        return
    from .errors import OpprofError
    from .pytest_plugin.hooks import register

    try:
        register(config)
    except OpprofError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> str | None:
    """Print the number of budgets that are not enforced."""
    return _not_enforced(_idle_budgets(config, items))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the number to the controller of pytest-xdist, which collects nothing itself."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["opprof-idle"] = _idle_budgets(session.config, getattr(session, "items", []))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Read the count from an xdist worker; every worker has the full count."""
    if idle := getattr(node, "workeroutput", {}).get("opprof-idle"):
        node.config.stash[_IDLE_IN_WORKERS] = idle


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the not-enforced line at the end of an xdist run."""
    if line := _not_enforced(config.stash.get(_IDLE_IN_WORKERS, 0)):
        terminalreporter.write_line(line)


def _idle_budgets(config: pytest.Config, items: Sequence[pytest.Item]) -> int:
    if _is_active(config.option, config):
        return 0
    marked = [item for item in items if item.get_closest_marker("op_budget")]
    return sum(1 for item in marked if getattr(item.get_closest_marker("opprof"), "args", ()) != (False,))


def _not_enforced(budgets: int) -> str | None:
    return f"opprof: {budgets} op budget{'s' if budgets > 1 else ''} not enforced (no --opprof)" if budgets else None


@pytest.fixture(name="opprof")
def _opprof(request: pytest.FixtureRequest) -> Iterator[Opprof]:
    """Measure parts of the test, with or without --opprof.

    with opprof("prefill") as prefill: ...; for _ in opprof.rounds(20, warmup=3): ...
    """
    from .errors import OpprofError
    from .pytest_plugin.fixture import Opprof, measurement_of
    from .pytest_plugin.test_run import TestRun

    reason, test = "", TestRun.of(request.node)
    try:
        measurement = measurement_of(test)
    except OpprofError as error:
        reason = str(error)
    if reason:
        pytest.fail(reason, pytrace=False)
    yield Opprof(measurement)
    measurement.recorder.abandon()
    test.measurement = None


def _is_active(options: Any, config: pytest.Config) -> bool:
    flags = (options.opprof, options.opprof_all, options.opprof_update, options.opprof_update_new)
    return (
        any(flags) or options.opprof_against is not None or (options.opprof is None and bool(config.getini("opprof")))
    )
