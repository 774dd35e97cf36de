"""What a run measured, as plain data: it travels from worker processes to the controller, and into ``--opprof-json``.

``schema/run-1.json`` is its published form.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..errors import UsageError
from ..machine.files import write_atomically
from ..profile.assembly import Part, built
from ..profile.columns import ABSENT, Columns
from ..profile.environment import environment_of, plain_environment
from ..profile.op_key import OpKey
from ..profile.op_profile import OpProfile
from ..profile.timings import Run
from ..units import plural
from ..verdict.judgement import Verdict
from .window import WindowReport

SCHEMA = 1
Plain = dict[str, Any]
_STATUS_OF_VERDICT = {
    Verdict.NEW: "more calls",
    Verdict.MORE: "more calls",
    Verdict.SLOWER: "slower",
    Verdict.UNSEEN: "not measured",
    Verdict.NOISY: "too noisy",
    Verdict.NO_BASELINE: "no baseline",
    Verdict.FEWER: "improved",
    Verdict.GONE: "improved",
    Verdict.FASTER: "improved",
}
WORDS = {
    "over budget": "over budget",
    "more calls": "with more calls",
    "slower": "slower",
    "not measured": "not measured",
    "no baseline": "without baseline",
    "too noisy": "too noisy to judge",
    "not compared": "with times not compared",
    "improved": "improved",
}
"""Statuses, the worst first, and how the summary line says them."""


@dataclass(slots=True)
class TestRecord:
    """One measured test."""

    __test__ = False  # pytest: this is no test class

    id: str
    status: str
    file: str = ""
    """The path of its file."""
    adapts: str = ""
    """What makes it do more or less in each run, as far as that is known by name."""
    windows: list[Plain] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What to say about it at the end of the run."""
    missing: dict[str, str] = field(default_factory=dict)
    """The windows without a baseline, and why."""
    untimed: dict[str, str] = field(default_factory=dict)
    """The windows whose times were not judged, and why."""
    table: list[str] = field(default_factory=list)
    """Its op tables, where asked for."""
    outcome: str = ""


def status(windows: Sequence[WindowReport]) -> str:
    """Return the status of a test: the worst of its windows'."""
    present = {"over budget" for window in windows if window.budget}
    present |= {_STATUS_OF_VERDICT.get(window.verdict, "ok") for window in windows}
    present |= {"not compared" for window in windows if window.untimed and window.verdict is not Verdict.NOISY}
    return next((word for word in WORDS if word in present), "ok")


def plain_window(window: WindowReport, machine: str, parallel: bool, compared: bool) -> Plain:
    """Return a window as the JSON of a run has it."""
    profile = window.profile
    return {
        "name": window.name,
        "environment": plain_environment(profile.environment),
        "machine": machine,
        "parallel": parallel,
        "rounds": profile.steps,
        "host_ns": list(profile.host_ns),
        "peak_memory_bytes": _listed(profile.peak_memory),
        "allocations": _listed(profile.allocations),
        "busy_ns": _listed(profile.busy_ns),
        "ops": {
            stats.op: {
                "calls": list(stats.calls),
                "device_ns": _listed(stats.device_ns),
                "bytes": _listed(stats.bytes),
                "flops": _listed(stats.flops),
            }
            for stats in profile.ops
        },
        **({} if profile.kernels is None else {"kernels": [asdict(stats) for stats in profile.kernels]}),
        "verdict": window.verdict.value if compared else None,
        "findings": [str(finding) for finding in window.findings],
        "times_changed": window.diff is not None and window.diff.times_changed,
        "times_judged": window.times_judged if window.diff else None,
        "vary": {},
        "runs": [] if parallel else [plain_run(run) for run in window.runs],
    }


def profile_of(window: Plain) -> OpProfile:
    """Return the profile that a plain window came of, as far as reports need it: an event an op and round."""
    rounds, ops = window["rounds"], window["ops"]

    def column(key: str) -> np.typing.NDArray[np.int64]:
        return np.array([ops[op][key] or [ABSENT] * rounds for op in ops], np.int64).reshape(-1)

    keys = [OpKey(op, op) for op in ops]
    columns = Columns(
        key=np.repeat(np.arange(len(ops), dtype=np.int32), rounds),
        step=np.tile(np.arange(rounds, dtype=np.int32), len(ops)),
        counted=column("calls"),
        events=column("calls"),
        device_ns=column("device_ns"),
        bytes=column("bytes"),
    )
    profile = built(environment_of(window["environment"]), window["host_ns"], Part(keys, columns))
    return replace(profile, busy_ns=None if window["busy_ns"] is None else tuple(window["busy_ns"]))


def plain_run(run: Run) -> Plain:
    """Return what a process timed as the JSON of a run has it."""
    return asdict(run)


def summary(records: Sequence[TestRecord]) -> str:
    """Return the line that counts the tests by status, and says if all that was compared are counts."""
    counts = Counter(record.status for record in records)
    total = counts.total()
    parts = [f"{plural(total, 'test')} measured", f"{counts['ok']} ok"]
    parts += [f"{counts[word]} {said}" for word, said in WORDS.items() if counts[word]]
    judged = {window["times_judged"] for record in records for window in record.windows}
    if False in judged and True not in judged:
        parts.append("no times judged")
    return f"opprof: {', '.join(parts)}"


def write(path: Path, records: Sequence[TestRecord], stale: Sequence[str], interrupted: bool) -> None:
    """Write the JSON of a run atomically. Raises UsageError when it cannot be written."""
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "interrupted": interrupted,
        "summary": dict(sorted(Counter(record.status for record in records).items())),
        "tests": [
            {"id": record.id, "outcome": record.outcome, "status": record.status, "windows": record.windows}
            for record in records
        ],
        "stale": list(stale),
    }
    try:
        write_atomically(path, json.dumps(document, indent=1) + "\n")
    except OSError as error:
        raise UsageError(f"--opprof-json: {path} cannot be written: {error.strerror or error}") from error


def _listed(values: Sequence[int] | None) -> list[int] | None:
    return None if values is None else list(values)
