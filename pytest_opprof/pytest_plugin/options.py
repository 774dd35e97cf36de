"""Parse and check the command line and ini file, once -> `Settings`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from .. import errors
from ..errors import UsageError
from ..frameworks.live.contract import Timing
from ..frameworks.live.registry import find, learn_names
from ..machine.ranks import Rank, rank_of
from ..measure.plan import Noise, Ranks, Settings
from ..processes.parent import VARIABLE
from ..report.tables import terminal_width
from ..verdict.tolerances import LEAST_ROUNDS, PAIRS, STORED

NUMPY_IS_GONE = "was removed: opprof sees each op of NumPy, on any array. Leave it out"


def change_settings(config: pytest.Config, **changes: Any) -> None:
    """Change settings that the collected tests decide; plans that were read before have the old ones."""
    config.stash[SETTINGS] = replace(settings_of(config), **changes)


def settings_of(config: pytest.Config) -> Settings:
    """Return the settings of *config*. Raises UsageError with the flag for an invalid value."""
    if SETTINGS not in config.stash:
        config.stash[SETTINGS] = _settings(config)
        learn_names()  # for use in marks; a backend that does not load is an error where it is chosen
    return config.stash[SETTINGS]


def _settings(config: pytest.Config) -> Settings:
    if _value(config, "numpy"):
        raise UsageError(f"--opprof-numpy (opprof_numpy in an ini file) {NUMPY_IS_GONE}")
    if config.option.opprof_update and config.option.opprof_update_new:
        raise UsageError("--opprof-update and --opprof-update-new: write one of them")
    rank = rank_of()
    is_update = config.option.opprof_update or config.option.opprof_update_new
    files = {"json": _value(config, "json"), "summary": _summary(config), "html": _html(config)}
    return Settings(
        baselines=_folder(config),
        backends=checked_backends(_value(config, "backend"), "--opprof-backend"),
        timing=checked_timing(_value(config, "timing") or "async", "--opprof-timing"),
        tolerances=(PAIRS if config.option.opprof_against else STORED).with_given(
            {key: _value(config, key) for key in LIMITS}, lambda key: f"--opprof-{key.replace('_', '-')}"
        ),
        threads=checked_threads(_value(config, "threads") or "1", "--opprof-threads"),
        processes=checked_count(_value(config, "processes"), "--opprof-processes", 1)
        if _value(config, "processes")
        else None,
        noise=_noise(_value(config, "noise") or "warn"),
        against=_against(config),
        against_python=_program(config.option.opprof_against_python or "", config.invocation_params.dir),
        serialize=bool(_value(config, "serialize")),
        top=checked_count(_value(config, "top") or "5", "--opprof-top", 0),
        everything=bool(_value(config, "all")),
        strict=bool(_value(config, "strict")),
        report_only=bool(_value(config, "report_only")),
        memory=_yes_or_no(config, "memory"),
        leaks=_yes_or_no(config, "leaks"),
        # An update writes the source lines of ranks, so its one run must record them.
        sites=bool(_value(config, "sites") or (is_update and not rank.is_alone)),
        python=_yes_or_no(config, "python"),
        sites_show=tuple(config.getini("opprof_sites_show")),
        sites_hide=tuple(config.getini("opprof_sites_hide")),
        update="all" if config.option.opprof_update else "new" if config.option.opprof_update_new else "",
        json=_of_rank(files["json"], config, rank),
        summary=_of_rank(files["summary"], config, rank),
        html=_of_rank(files["html"], config, rank),
        together=frozenset(what for what, given in files.items() if given and _RANK not in given and not rank.is_alone),
        traces=_traces(config),
        ranks=checked_ranks(_value(config, "ranks") or "any", "--opprof-ranks"),
        rank=rank,
        aliases=_aliases(config.getini("opprof_aliases")),
        width=config.workerinput.get(WIDTH) if hasattr(config, "workerinput") else terminal_width(),
    )


# Placeholder in a file name for the number of the writing rank.
_RANK = "{rank}"
SETTINGS = pytest.StashKey[Settings]()
WIDTH = "opprof-width"
"""What the controller of pytest-xdist calls the columns of its terminal: a worker has none."""
LIMITS = ("tolerance", "op_tolerance", "work_tolerance", "floor")


def _value(config: pytest.Config, name: str) -> Any:
    # Flags with an ini twin default to None, so that "not given" differs from every value.
    given = getattr(config.option, f"opprof_{name}")
    return (config.getini(f"opprof_{name}") or None) if given is None else given


def _yes_or_no(config: pytest.Config, name: str) -> bool | None:
    """Return the boolean of the flag or the ini file; None if neither is given."""
    given: object = getattr(config.option, f"opprof_{name}")
    given = config.getini(f"opprof_{name}") if given is None else given
    return given if isinstance(given, bool) else None  # not given: pytest before 8.3 says []


def _folder(config: pytest.Config) -> Path:
    folder = config.rootpath / (_value(config, "baselines") or "baselines")
    options = config.option
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--opprof-baselines: {folder} is a file; name a folder")
    named_to_read = options.opprof_baselines and not (options.opprof_update or options.opprof_update_new)
    if named_to_read and not folder.exists():
        raise UsageError(f"--opprof-baselines: there is no folder {folder}; --opprof-update makes it")
    return folder


def checked_backends(value: object, what: str) -> tuple[str, ...] | None:
    """Return the backends in *value*, None for all; *what* names the option in the error. Raises UsageError."""
    if value is None or value == "" or value == "auto":
        return None
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)) or not listed or not all(isinstance(name, str) for name in listed):
        raise UsageError(f"{what} is {value!r}; write a name or several: 'numpy,torch'")
    chosen = tuple(dict.fromkeys(name.strip() for name in listed))
    known = find()
    for name in chosen:
        if name not in known:
            near = errors.suggestion(name, known) or "."
            raise UsageError(f"{what}: there is no backend {name!r}{near} Known: {', '.join(sorted(known))}")
    return chosen


def checked_timing(value: object, what: str) -> Timing:
    """Return *value* if it is a timing mode. Raises UsageError."""
    if value == "async" or value == "sync":
        return value
    raise UsageError(f"{what} is {value!r}; write 'async' or 'sync'")


def checked_ranks(value: object, what: str) -> Ranks:
    """Return *value* if it is a rule for several ranks. Raises UsageError."""
    if value == "any" or value == "equal":
        return value
    raise UsageError(f"{what} is {value!r}; write 'any' or 'equal' (each rank has to make the same calls)")


def check_flags(config: pytest.Config, rank: Rank) -> None:
    """Raise UsageError for flags that start processes, since these would be no ranks."""
    flags = {
        "-n": getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"),
        "--opprof-against": config.option.opprof_against is not None,
        "--opprof-processes": _value(config, "processes"),
    }
    for flag, given in flags.items():
        if given and not rank.is_alone:
            raise UsageError(
                f"{flag} starts processes that are no ranks, and this is {rank} ({rank.launcher}): leave {flag} out"
            )


def _of_rank(given: str, config: pytest.Config, rank: Rank) -> Path | None:
    """Return the file that this rank writes; None if its name has no ``{rank}`` and this is not rank 0."""
    if not given or (rank.rank and _RANK not in given):
        return None
    return Path(config.invocation_params.dir, given.replace(_RANK, str(rank.rank)))


def _summary(config: pytest.Config) -> str:
    given = config.option.opprof_summary
    if given == "":
        raise UsageError(
            "--opprof-summary is empty: is the variable that names the file set? Outside of CI leave the flag out, as"
            " by ${GITHUB_STEP_SUMMARY:+--opprof-summary=$GITHUB_STEP_SUMMARY}"
        )
    return given or ""


def _html(config: pytest.Config) -> str:
    given: str | None = config.option.opprof_html
    if given == "":
        raise UsageError("--opprof-html is empty; write a file, such as --opprof-html=opprof.html")
    return given or ""


def _traces(config: pytest.Config) -> Path | None:
    given = _value(config, "traces")
    if given == "":
        raise UsageError("--opprof-traces is empty; write a folder, such as --opprof-traces=traces")
    if given is None or VARIABLE in os.environ:
        return None  # the run that started this one writes them
    folder = Path(config.invocation_params.dir, given)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--opprof-traces: {folder} is a file; name a folder")
    return folder


def _program(name: str, folder: Path) -> str:
    """Return the name of a program, or its path as seen from all folders: sides run in others than the user."""
    return name if name == Path(name).name or not name else str(folder / name)


def _against(config: pytest.Config) -> str:
    """Return the revision to compare with. Raises UsageError for conflicting flags."""
    options = config.option
    if options.opprof_against == "":
        raise UsageError("--opprof-against is empty; write a git revision, main... or auto")
    if options.opprof_against is None:
        for flag in ("python", "install", "tests"):
            if getattr(options, f"opprof_against_{flag}"):
                raise UsageError(f"--opprof-against-{flag}: needs --opprof-against=REV, the revision that it is for")
        return ""
    if options.opprof_against_tests not in (None, "here", "there"):
        raise UsageError(
            f"--opprof-against-tests is {options.opprof_against_tests!r}; write 'there' (the revision's own tests) or"
            " 'here' (the tests of the working tree, also those that the revision lacks)"
        )
    others = {
        "--opprof-update": options.opprof_update or options.opprof_update_new,
        "--opprof-processes": _value(config, "processes"),
        "--opprof-traces": options.opprof_traces,
        "--opprof-against-python": options.opprof_against_install and options.opprof_against_python,
    }
    for flag, given in others.items():
        if given:
            raise UsageError(f"--opprof-against and {flag} do not go together: leave one out")
    return str(options.opprof_against)


def _noise(value: object) -> Noise:
    if value in ("warn", "fail", "ignore"):
        return value
    raise UsageError(
        f"--opprof-noise is {value!r}; write 'warn' (a test too noisy to judge passes with a warning), 'fail' (it"
        " fails) or 'ignore' (other load on the machine is not checked)"
    )


def checked_threads(value: object, what: str) -> int:
    """Return *value* as a number of threads, 0 for all. Raises UsageError."""
    return 0 if value == "all" else checked_count(value, what, 1, "'all' or ")


def default_warmup(rounds: int) -> int:
    """Return the number of warm-up rounds: 5 before rounds that are judged, else 1."""
    return 5 if rounds >= LEAST_ROUNDS else 1


def checked_count(value: object, what: str, least: int, otherwise: str = "") -> int:
    """Return *value* as an int of at least *least*; *otherwise* names other allowed values. Raises UsageError."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise UsageError(f"{what} is {value!r}; write {otherwise}an int of {least} or more")
    return number


def _aliases(lines: list[str]) -> dict[str, str]:
    aliases = {}
    for line in lines:
        raw, equals, op = (part.strip() for part in line.rpartition("="))
        if not raw or not equals or not op:
            raise UsageError(f"opprof_aliases has {line!r}; write a line RAW_NAME = Op, such as mylib::fused_add = Add")
        aliases[raw] = op
    return aliases


def shown(config: pytest.Config, path: Path) -> str:
    """Return *path* for people: relative to the root directory if it is below it."""
    return str(path.relative_to(config.rootpath) if path.is_relative_to(config.rootpath) else path)
