"""What the user chose: command line and ini file -> Settings; marks -> Plan. Everything is checked here, once."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from . import names
from .backends import Options, Timing, Watched, find
from .budgets import Budget
from .errors import UsageError
from .judge import LEAST_ROUNDS, PAIRS, STORED, Limits

Update = Literal["", "all", "new"]
Noise = Literal["warn", "fail", "ignore"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The flags of one run, the ini file's values where no flag was given."""

    baselines: Path
    backends: tuple[str, ...] | None
    """None: chosen by what the process uses."""
    timing: Timing
    numpy: Watched
    limits: Limits
    threads: int
    """How many an op may use where times are judged; 0: as many as it likes."""
    processes: int | None
    """In how many to measure what is timed; None: `BASE_PROCESSES` for a baseline, else 1."""
    noise: Noise
    against: str
    """The revision to compare with, empty for the stored baselines."""
    against_python: str
    serialize: bool
    """Whether workers of pytest-xdist measure one at a time."""
    top: int
    everything: bool
    strict: bool
    update: Update
    json: Path | None
    aliases: Mapping[str, str]

    @classmethod
    def of(cls, config: pytest.Config) -> Settings:
        """Read *config*. Raises UsageError, naming the flag, for a value that means nothing."""
        if config.option.opprof_update and config.option.opprof_update_new:
            raise UsageError("--opprof-update and --opprof-update-new: write one of them")
        return cls(
            baselines=_folder(config),
            backends=_backends(_value(config, "backend"), "--opprof-backend"),
            timing=_timing(_value(config, "timing") or "async", "--opprof-timing"),
            numpy=_watched(_value(config, "numpy") or "watched", "--opprof-numpy"),
            limits=(PAIRS if config.option.opprof_against else STORED).with_given(
                {key: _value(config, key) for key in _LIMITS}, lambda key: f"--opprof-{key.replace('_', '-')}"
            ),
            threads=_threads(_value(config, "threads") or "1", "--opprof-threads"),
            processes=_count(_value(config, "processes"), "--opprof-processes", 1)
            if _value(config, "processes")
            else None,
            noise=_noise(_value(config, "noise") or "warn"),
            against=_against(config),
            against_python=config.option.opprof_against_python or "",
            serialize=bool(_value(config, "serialize")),
            top=_count(_value(config, "top") or "5", "--opprof-top", 0),
            everything=bool(_value(config, "all")),
            strict=bool(_value(config, "strict")),
            update="all" if config.option.opprof_update else "new" if config.option.opprof_update_new else "",
            json=Path(config.invocation_params.dir, _value(config, "json")) if _value(config, "json") else None,
            aliases=_aliases(config.getini("opprof_aliases")),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """How one test is to be measured and judged: its marks over the settings."""

    budget: Budget
    marked: bool
    measured: bool
    """Whether the body is measured; windows of the fixture always are."""
    rounds: int
    warmup: int
    backends: tuple[str, ...] | None
    options: Options
    limits: Limits
    threads: int
    top: int
    baseline: bool

    @classmethod
    def of(cls, item: pytest.Item, settings: Settings) -> Plan:
        """Read the marks of *item*. Raises UsageError, naming file and line, for one that means nothing."""
        try:
            budget = Budget()
            for mark in _marks(item, "op_budget"):
                if not mark.args and not mark.kwargs:
                    raise UsageError("op_budget() has no limit; write one, such as op_budget(Cast=10)")
                budget = budget.over(Budget.parse(mark.args, mark.kwargs))
            return cls._with_marks(item, settings, budget)
        except UsageError as error:
            path, line, _ = item.location
            raise UsageError(f"{path}:{(line or 0) + 1}: {item.name}: {error}") from error

    @classmethod
    def _with_marks(cls, item: pytest.Item, settings: Settings, budget: Budget) -> Plan:
        given: dict[str, Any] = {}
        marks = _marks(item, "opprof")
        for mark in marks:
            if mark.args not in ((), (False,)):
                raise UsageError(
                    f"opprof({', '.join(map(repr, mark.args))}): write keywords, such as opprof(rounds=20), or"
                    " opprof(False) to leave a test out"
                )
            given = {**mark.kwargs, **given}
        given = {key: value for key, value in given.items() if value is not None}
        for key in given:
            if key not in _OPPROF_KEYS:
                raise names.unknown(key, _OPPROF_KEYS, "keyword of opprof()", _OPPROF_KEYS)
        rounds = _count(given.get("rounds", 1), "opprof(rounds=)", 1)
        baseline = given.get("baseline", True)
        if not isinstance(baseline, bool):
            raise UsageError(f"opprof(baseline={baseline!r}): write True or False")
        if rounds > 1 and issubclass(getattr(item, "cls", None) or object, unittest.IsolatedAsyncioTestCase):
            raise UsageError("opprof(rounds=) cannot run an IsolatedAsyncioTestCase again; use opprof.rounds() inside")
        timing = _timing(given.get("timing", settings.timing), "opprof(timing=)")
        left_out = bool(marks and marks[0].args)
        marked = (bool(budget) or bool(marks)) and not left_out
        return cls(
            budget=Budget() if left_out else budget,
            marked=marked,
            measured=marked or (settings.everything and not left_out),
            rounds=rounds,
            warmup=_count(given.get("warmup", default_warmup(rounds) if rounds > 1 else 0), "opprof(warmup=)", 0),
            backends=_backends(given.get("backend", settings.backends), "opprof(backend=)"),
            options=Options(
                timing,
                flops=budget.needs_flops,
                memory=budget.needs_memory,
                numpy=_watched(given.get("numpy", settings.numpy), "opprof(numpy=)"),
            ),
            limits=settings.limits.with_given(given, lambda key: f"opprof({key}=)"),
            threads=_threads(given["threads"], "opprof(threads=)") if "threads" in given else settings.threads,
            top=_count(given.get("top", settings.top), "opprof(top=)", 0),
            baseline=baseline and not left_out,
        )


def _marks(item: pytest.Item, name: str) -> list[pytest.Mark]:
    """Return the marks called *name*, the nearest first: those of a parameter before those of its function."""
    marks = list(item.iter_markers(name))
    of_parameter = getattr(getattr(item, "callspec", None), "marks", [])
    return sorted(marks, key=lambda mark: not any(mark is other for other in of_parameter))


_LIMITS = ("tolerance", "op_tolerance", "floor")
_OPPROF_KEYS = ("rounds", "warmup", "backend", "timing", "numpy", *_LIMITS, "threads", "baseline", "top")


def _value(config: pytest.Config, name: str) -> Any:
    # Flags with an ini twin default to None, so that "not given" can be told from a value.
    given = getattr(config.option, f"opprof_{name}")
    return (config.getini(f"opprof_{name}") or None) if given is None else given


def _folder(config: pytest.Config) -> Path:
    folder = config.rootpath / (_value(config, "baselines") or "baselines")
    options = config.option
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--opprof-baselines: {folder} is a file; name a folder")
    named_to_read = options.opprof_baselines and not (options.opprof_update or options.opprof_update_new)
    if named_to_read and not folder.exists():
        raise UsageError(f"--opprof-baselines: there is no folder {folder}; --opprof-update makes it")
    return folder


def _backends(value: object, what: str) -> tuple[str, ...] | None:
    if value is None or value == "" or value == "auto":
        return None
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)) or not listed or not all(isinstance(name, str) for name in listed):
        raise UsageError(f"{what} is {value!r}; write a name or several: 'numpy,torch'")
    chosen = tuple(dict.fromkeys(name.strip() for name in listed))
    known = find()
    for name in chosen:
        if name not in known:
            near = names.suggestion(name, known) or "."
            raise UsageError(f"{what}: there is no backend {name!r}{near} Known: {', '.join(sorted(known))}")
    return chosen


def _timing(value: object, what: str) -> Timing:
    if value == "async" or value == "sync":
        return value
    raise UsageError(f"{what} is {value!r}; write 'async' or 'sync'")


def _watched(value: object, what: str) -> Watched:
    if value == "watched" or value == "all":
        return value
    raise UsageError(
        f"{what} is {value!r}; write 'watched' (arrays of opprof.array() and what comes of them) or 'all' (also arrays"
        " that are made in the window)"
    )


def _against(config: pytest.Config) -> str:
    """Return the revision to compare with. Raises UsageError for flags that do not go with it."""
    options = config.option
    if options.opprof_against == "":
        raise UsageError("--opprof-against is empty; write a git revision, such as --opprof-against=main")
    if options.opprof_against is None:
        if options.opprof_against_python:
            raise UsageError("--opprof-against-python: needs --opprof-against=REV, the revision that it is for")
        return ""
    others = {
        "--opprof-update": options.opprof_update or options.opprof_update_new,
        "-n": getattr(options, "numprocesses", None) or hasattr(config, "workerinput"),
        "--opprof-processes": _value(config, "processes"),
    }
    for flag, given in others.items():
        if given:
            raise UsageError(f"--opprof-against and {flag} do not go together: leave one out")
    return str(options.opprof_against)


def _noise(value: object) -> Noise:
    if value in ("warn", "fail", "ignore"):
        return value
    raise UsageError(
        f"--opprof-noise is {value!r}; write 'warn' (what is too noisy to judge passes with a warning), 'fail' (it"
        " fails) or 'ignore' (no look at who else uses the machine)"
    )


def _threads(value: object, what: str) -> int:
    return 0 if value == "all" else _count(value, what, 1, "'all' or ")


def default_warmup(rounds: int) -> int:
    """Return how many rounds come before so many that are measured: 5 before those that are judged."""
    return 5 if rounds >= LEAST_ROUNDS else 1


def _count(value: object, what: str, least: int, otherwise: str = "") -> int:
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
