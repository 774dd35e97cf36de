"""What each test did when it was last accepted: JSON files in the repository, made to be reviewed.

``baselines/torch-2.13.0-cpu-x86_64/tests/test_model.py.json`` holds the tests of one module in one environment. Keys
are sorted, one op a line; calls stand by themselves, so that a changed count is a changed line. Times are kept by
machine below them, since calls agree between CPU models and times do not: the raw rounds of several processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BaselineError
from ..profile.timings import Run

if TYPE_CHECKING:
    pass


from ..machine.files import write_atomically
from ..profile.calls import Calls
from ..profile.environment import environment_of, plain_environment
from ..profile.timings import OUTSIDE
from ..results.document import read_document
from .entry import Baselines, Entry

SCHEMA = 2
_CONDITIONS = {"wait_us": "wait_ns", "yardstick_us": "yardstick_ns"}
"""What the file tells of how the rounds were measured, where it is known: the key, and the field of Run."""


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

    schema = Path(__file__).parents[1] / "schema" / f"baseline-{SCHEMA}.json"
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
