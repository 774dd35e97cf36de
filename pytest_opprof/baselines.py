"""What each test did when it was last accepted: JSON files in the repository, made to be reviewed.

``baselines/torch-2.13.0-cpu-x86_64/tests/test_model.py.json`` holds the tests of one module in one environment. Keys
are sorted, one op a line; calls stand by themselves, so that a changed count is a changed line. Times are kept by
machine below them, since calls agree between CPU models and times do not: the raw rounds of several processes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from .environment import Environment
from .errors import BaselineError
from .judge import LEAST_ROUNDS, STORED_RULE
from .samples import Run

if TYPE_CHECKING:
    from .model import OpProfile

SCHEMA = 2
MAX_BYTES = 64 * 2**20
"""Larger files are refused: 64 MiB is some 10,000 tests."""
_PARENT = "_parent_"
_CONFLICT = re.compile(r"^(?:<{7} |={7}$|>{7} |\|{7} )", re.MULTILINE)
OUTSIDE = "(outside ops)"
"""In place of an op: what a round takes on a CPU beside its ops."""
_CONDITIONS = {"wait_us": "wait_ns", "yardstick_us": "yardstick_ns"}
"""What the file tells of how the rounds were measured, where it is known: the key, and the field of Run."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls in one round: the fewest and the most of all rounds."""

    least: int
    most: int
    varies: bool = False
    """Whether they differed from process to process: then the range is only what was seen of it."""

    @property
    def lowest(self) -> int:
        """The fewest calls in the worst round that are no change."""
        return max(2 * self.least - self.most, 0) if self.varies else self.most

    @property
    def highest(self) -> int:
        """The most calls that are no change: of calls that vary, as far beyond what was seen as that is wide.

        A fourth draw is above three others in 25 of 100 cases, and so far above them in 6 (of a normal distribution).
        """
        return 2 * self.most - self.least if self.varies else self.most

    def __str__(self) -> str:
        return f"{self.most}" if self.least == self.most else f"{self.least}..{self.most}"


def in_all(processes: Sequence[Mapping[str, Calls]]) -> dict[str, Calls]:
    """Return the calls of each op in all *processes*; they vary where the most of a round is not the same in each."""
    found = {}
    for op in dict.fromkeys(op for calls in processes for op in calls):
        calls = [each.get(op, Calls(0, 0)) for each in processes]
        varies = len({each.most for each in calls}) > 1
        found[op] = Calls(min(each.least for each in calls), max(each.most for each in calls), varies)
    return found


@dataclass(frozen=True, slots=True)
class Entry:
    """One window of one test."""

    calls: Mapping[str, Calls]
    times: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    """By machine: what each process timed."""

    @classmethod
    def of(cls, profile: OpProfile, machine: str, threads: int = 0) -> Entry:
        """Return what a baseline keeps of *profile*, measured in one process on *machine*."""
        run = run_of(profile, threads)
        return cls(calls_of(profile), {machine: (run,)} if run else {})

    @property
    def runs(self) -> list[Run]:
        """What each process timed, of all machines."""
        return [run for runs in self.times.values() for run in runs]

    def allows(self, now: Mapping[str, Calls]) -> bool:
        """Tell whether calls of *now* are no change."""
        seen = {op: now[op].most if op in now else 0 for op in self.calls}
        return now.keys() <= seen.keys() and all(
            calls.lowest <= seen[op] <= calls.highest for op, calls in self.calls.items()
        )

    def updated(self, now: Entry, machine: str, times_changed: bool) -> Entry:
        """Return the entry to keep after a run that did *now*, accepted.

        Where the calls are the same, times of other machines stay, and those of this one unless they are missing, too
        few, of other rounds or threads, or *times_changed*: an update writes only what it has something to say about.
        """
        if not self.allows(now.calls):
            return now
        fresh = machine in now.times and (times_changed or self._is_unlike(now, machine))
        return replace(self, times={**self.times, **now.times}) if fresh else self

    def _is_unlike(self, now: Entry, machine: str) -> bool:
        before, after = self.times.get(machine, ()), now.times[machine]
        few = after[0].rounds >= LEAST_ROUNDS and len(before) < STORED_RULE.least_base_processes
        return few or {(run.rounds, run.threads) for run in before} != {(run.rounds, run.threads) for run in after}


def calls_of(profile: OpProfile) -> dict[str, Calls]:
    """Return the calls of each op."""
    return {stats.op: Calls(stats.fewest_calls, stats.most_calls) for stats in profile.ops}


def run_of(profile: OpProfile, threads: int = 0, wall: bool = True) -> Run | None:
    """Return what *profile* timed; None where it has no times.

    On a CPU the whole (if *wall*) is the wall time of a round, and what ops do not take of it is `OUTSIDE`;
    on an accelerator, which works while the host goes on, it is the time of its ops, and how busy the host was says
    nothing about it.
    """
    ops = {stats.op: stats.device_ns for stats in profile.ops if stats.device_ns is not None}
    total = profile.total.device_ns  # also of an op some of whose calls have no time
    if total is None or not profile.ops:
        return None
    if wall and profile.environment.device == "cpu" and min(profile.host_ns) >= 0:
        ops[OUTSIDE] = tuple(max(wall - inside, 0) for wall, inside in zip(profile.host_ns, total))
        total = profile.host_ns
    if not works_on_host(profile.environment):
        return Run(total, ops, threads=threads, disturbed=profile.disturbed)
    return Run(total, ops, profile.wait_ns, profile.yardstick_ns, threads)


def works_on_host(environment: Environment) -> bool:
    """Tell whether times depend on what else the host does: not those of an accelerator."""
    return environment.device == "cpu"


@dataclass(frozen=True, slots=True)
class Baselines:
    """The baselines of one test module in one environment: entries by test id, then by window."""

    environment: Environment
    tests: Mapping[str, Mapping[str, Entry]] = field(default_factory=dict)


def path_of(root: Path, environment: Environment, module: str) -> Path:
    """Return the file for the tests of *module* (the part of a node id before ``::``)."""
    # A module outside the root directory must not lead out of the folder.
    parts = [_PARENT if part == ".." else part for part in PurePosixPath(module).parts if part != "/"]
    return root.joinpath(environment.folder, *parts[:-1], f"{parts[-1]}.json")


def module_of(root: Path, path: Path) -> str:
    """Return the module whose baselines *path* holds: the inverse of `path_of`."""
    parts = path.relative_to(root).parts[1:]
    return "/".join(".." if part == _PARENT else part for part in parts).removesuffix(".json")


def files(root: Path) -> Iterator[Path]:
    """Yield every baseline file below *root*, sorted."""
    yield from sorted(path for path in root.glob("*/**/*.json") if path.is_file())


def load(path: Path) -> Baselines:
    """Read and check a baseline file, of this or an older schema version.

    Raises BaselineError, with what to do, for one that cannot be used. Returns at once for a file that is no baseline:
    size is bounded, nesting too.
    """
    document = _upgraded(read_document(path, "baseline file"), path)
    # JSON Schema takes 3 s a megabyte: it is asked what is wrong, not whether.
    if problem := next(_contradictions(document) if _is_sound(document) else problems(document), None):
        raise BaselineError(f"{path}: {problem}. Restore the file, or delete it and run pytest --opprof-update")
    return Baselines(
        environment_of(document["environment"]),
        {
            test: {window: _entry(entry) for window, entry in windows.items()}
            for test, windows in document["tests"].items()
        },
    )


def problems(document: object) -> Iterator[str]:
    """Yield what is wrong with a *document* of the current schema version: what JSON Schema finds first."""
    for error in _validator().iter_errors(document):
        where = "".join(f"[{part!r}]" for part in error.absolute_path) or "the file"
        yield f"{where}: {error.message[:200]}"
        return
    yield from _contradictions(document)


def _contradictions(document: Any) -> Iterator[str]:
    """Yield what no schema can say is wrong."""
    for test, window, entry in _windows(document):
        ranges = {op: _range(calls) or (0, 0) for op, calls in entry["calls"].items()}
        reversed_ = [op for op, (least, most) in ranges.items() if least > most]
        yield from (f"[{test!r}][{window!r}]['calls'][{op!r}]: the range is empty" for op in reversed_)
        for machine, times in entry.get("times", {}).items():
            where = f"[{test!r}][{window!r}]['times'][{machine!r}]"
            conditions = filter(None, map(times.get, _CONDITIONS))
            by_round = [times["total_us"], *times["ops_us"].values(), *conditions]
            if len({tuple(map(len, processes)) for processes in by_round}) > 1:
                yield f"{where}: the numbers of processes or rounds differ"
            if unknown := times["ops_us"].keys() - entry["calls"].keys() - {OUTSIDE}:
                yield f"{where}: {min(unknown)!r} is timed, but has no calls"


def _windows(document: Any) -> Iterator[tuple[str, str, Any]]:
    for test, windows in document["tests"].items():
        for window, entry in windows.items():
            yield test, window, entry


def save(path: Path, baselines: Baselines) -> None:
    """Write a baseline file atomically: it is the old one or the new one, never half of it.

    Raises BaselineError when it cannot be written.
    """
    try:
        write_atomically(path, dump(baselines))
    except OSError as error:
        raise BaselineError(f"{path}: cannot be written: {error.strerror or error}") from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Put *content* into *path*, which is the old file or the new one at any moment. Raises OSError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def dump(baselines: Baselines) -> str:
    """Return the text of a baseline file."""
    return _pretty(
        {
            "environment": plain_environment(baselines.environment),
            "schema": SCHEMA,
            "tests": {
                test: {window: _plain(entry) for window, entry in windows.items()}
                for test, windows in baselines.tests.items()
            },
        }
    )


def plain_environment(environment: Environment) -> dict[str, Any]:
    """Return *environment* as JSON has it."""
    return {
        "arch": environment.arch,
        "device": environment.device,
        "frameworks": dict(environment.frameworks),
        "timing": environment.timing,
    }


def environment_of(plain: Mapping[str, Any]) -> Environment:
    """Return the environment that JSON has as *plain*."""
    frameworks = tuple(sorted(plain["frameworks"].items()))
    return Environment(frameworks, plain["device"], plain["arch"], plain["timing"])


def _plain(entry: Entry) -> dict[str, object]:
    calls = {op: _plain_calls(calls) for op, calls in entry.calls.items()}
    times = {machine: _plain_times(runs) for machine, runs in entry.times.items()}
    return {"calls": calls, "times": times} if times else {"calls": calls}


def _plain_calls(calls: Calls) -> object:
    if calls.varies:
        return {"varies": [calls.least, calls.most]}
    return calls.most if calls.least == calls.most else [calls.least, calls.most]


def _plain_times(runs: Sequence[Run]) -> dict[str, object]:
    plain: dict[str, object] = {
        "threads": runs[0].threads,
        "total_us": [_microseconds(run.total_ns) for run in runs],
        "ops_us": {op: [_microseconds(run.ops_ns[op]) for run in runs] for op in runs[0].ops_ns},
    }
    for key, name in _CONDITIONS.items():
        if all(getattr(run, name) for run in runs):
            plain[key] = [_microseconds(getattr(run, name)) for run in runs]
    return plain


def _microseconds(times_ns: Iterable[int]) -> list[float]:
    """Three significant digits: two processes of the same code differ by more."""
    rounded = (float(f"{ns / 1000:.3g}") for ns in times_ns)
    return [int(us) if us.is_integer() else us for us in rounded]


def _pretty(value: object, indent: str = "") -> str:
    """Return JSON with sorted keys and one key a line, lists on the line of their key."""
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value) + ("" if indent else "\n")
    lines = [f"{indent} {json.dumps(key)}: {_pretty(value[key], indent + ' ')}" for key in sorted(value)]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}" + ("" if indent else "\n")


def _entry(plain: Mapping[str, Any]) -> Entry:
    times = {machine: tuple(_runs(times)) for machine, times in plain.get("times", {}).items()}
    return Entry({op: _calls(calls) for op, calls in plain["calls"].items()}, times)


def _calls(plain: Any) -> Calls:
    least, most = _range(plain) or (plain, plain)
    return Calls(int(least), int(most), isinstance(plain, dict))  # JSON Schema takes 1.0 for an integer


def _range(plain: Any) -> list[int] | None:
    """Return the fewest and the most calls, where a document has both."""
    return plain["varies"] if isinstance(plain, dict) else plain if isinstance(plain, list) else None


def _runs(times: Mapping[str, Any]) -> Iterator[Run]:
    for number, total in enumerate(times["total_us"]):
        known: dict[str, Any] = {
            name: _nanoseconds(times[key][number]) for key, name in _CONDITIONS.items() if key in times
        }
        yield Run(
            _nanoseconds(total),
            {op: _nanoseconds(processes[number]) for op, processes in times["ops_us"].items()},
            threads=times["threads"],
            **known,
        )


def _nanoseconds(times_us: Iterable[float]) -> tuple[int, ...]:
    return tuple(round(us * 1000) for us in times_us)


def read_document(path: Path, what: str) -> dict[str, Any]:
    """Return the JSON object that *path* holds, which is to be a *what*. Raises BaselineError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BaselineError(f"{path}: larger than {MAX_BYTES >> 20} MiB; this is no {what}")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BaselineError(f"{path}: is not UTF-8 text (byte {error.start}). Restore the file") from error
    if conflict := _CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        raise BaselineError(
            f"{path}:{line}: has git merge conflict markers. Resolve them (take either side, then run"
            " pytest --opprof-update for the tests of this module)"
        )
    try:
        document = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        where = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise BaselineError(f"{path}{where}: is not JSON: {reason}. Restore the file") from error
    if not isinstance(document, dict):
        raise BaselineError(f"{path}: is no {what}: it holds a {type(document).__name__}, not an object")
    return document


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return document


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")


def _upgraded(document: dict[str, Any], path: Path) -> dict[str, Any]:
    version = document.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BaselineError(f"{path}: has no schema version; this is no baseline file of pytest-opprof")
    if version > SCHEMA:
        raise BaselineError(
            f"{path}: has schema version {version}, this pytest-opprof reads up to {SCHEMA}. Upgrade pytest-opprof"
        )
    while version < SCHEMA:
        document = {**_UPGRADES[version](document), "schema": version + 1}
        version += 1
    return document


def _without_times(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of schema 1 without its times: they are of one process, and judge nothing."""
    for windows in _dicts(document.get("tests")):
        for entry in _dicts(windows):
            entry.pop("device_us", None)
    return document


def _dicts(found: object) -> list[dict[str, Any]]:
    return [value for value in found.values() if isinstance(value, dict)] if isinstance(found, dict) else []


_UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _without_times}
"""For each older schema version, what makes it the next."""


def _is_sound(document: object) -> bool:
    """Tell, fast, whether JSON Schema would find nothing; False where only it can tell."""
    import msgspec

    try:
        msgspec.convert(document, _document_type())
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


@cache
def _document_type() -> Any:
    """Return the schema as types. Imported here: only a run with baselines needs msgspec."""
    from typing import Annotated, Literal

    from msgspec import UNSET, Meta, UnsetType, defstruct

    count = Annotated[int, Meta(ge=1, le=10**15)]
    range_ = Annotated[list[Annotated[int, Meta(ge=0, le=10**15)]], Meta(min_length=2, max_length=2)]
    varying = defstruct("Varying", [("varies", range_)], forbid_unknown_fields=True)
    rounds = Annotated[list[Annotated[float, Meta(ge=0, le=1e15)]], Meta(min_length=1)]
    processes = Annotated[list[rounds], Meta(min_length=1)]
    times = defstruct(
        "Times",
        [
            ("ops_us", dict[str, processes]),
            ("threads", Annotated[int, Meta(ge=0, le=10**6)]),
            ("total_us", processes),
            ("wait_us", processes | UnsetType, UNSET),
            ("yardstick_us", processes | UnsetType, UNSET),
        ],
        forbid_unknown_fields=True,
    )
    window = defstruct(
        "Window",
        [("calls", dict[str, count | range_ | varying]), ("times", dict[str, times], {})],  # type: ignore[valid-type]
        forbid_unknown_fields=True,
    )
    environment = defstruct(
        "Environment",
        [
            ("arch", str),
            ("device", Annotated[str, Meta(min_length=1)]),
            ("frameworks", Annotated[dict[str, str], Meta(min_length=1)]),
            ("timing", Literal["", "async", "sync"]),
        ],
        forbid_unknown_fields=True,
    )
    tests = dict[str, Annotated[dict[str, window], Meta(min_length=1)]]  # type: ignore[valid-type]
    fields = [("environment", environment), ("schema", Literal[2]), ("tests", tests)]
    return defstruct("Document", fields, forbid_unknown_fields=True)


@cache
def _validator() -> Any:
    # Imported here: 50 ms that only a run with baselines should pay.
    from jsonschema import Draft202012Validator

    schema = Path(__file__).with_name("schema") / f"baseline-{SCHEMA}.json"
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
