"""A run as other services read it: GitLab's code quality, OpenMetrics, github-action-benchmark."""

from __future__ import annotations

import hashlib
import json

from ..results.run_result import RunResult
from ..results.test_id import split_id
from ..results.test_result import TestResult
from ..results.window_result import WindowResult, titled
from ..verdict.findings import Finding
from ..verdict.tolerances import LEAST_ROUNDS
from .accepting import Accepting


def code_quality(run: RunResult) -> str:
    """Return the findings as GitLab's code quality report: an array of the fields that its documentation asks for.

    An entry is at the line that causes the finding, where that is known, else at the test. A fingerprint is the same as
    long as the same op of a window breaks the same rule, whatever its numbers are.
    """
    accepting = Accepting.of_run(run)
    found = [_entry(test, *each, accepting) for test in run.failing for each in test.causes]
    return json.dumps(found, indent=1) + "\n"


def _entry(test: TestResult, window: WindowResult, finding: Finding, accepting: Accepting) -> dict[str, object]:
    same = json.dumps([test.id, window.name, finding.rule, finding.op])
    path, line = (finding.line.file, finding.line.line) if finding.line else (split_id(test.id)[0], test.line or 1)
    says = f" `{finding.line.text}`" if finding.line and finding.line.text not in finding.text else ""
    steps = accepting.steps(test.id, [finding])
    accepts = f" (to accept: {', then '.join(step.text for step in steps)})" if steps else ""
    return {
        "description": f"{titled(test.id, window.name)}: {finding}{says}{accepts}",
        "check_name": f"opprof {finding.rule}",
        "fingerprint": hashlib.sha256(same.encode()).hexdigest()[:32],
        "severity": "major",
        "location": {"path": path, "lines": {"begin": line}},
    }


def openmetrics(run: RunResult) -> str:
    """Return the calls of each op, and the time of the fastest round of a window, in OpenMetrics' text format.

    Times are of windows of 10 rounds or more: of fewer they mean little.
    """
    windows = [(test, window) for test in run.tests for window in test.windows]
    lines = ["# TYPE opprof_calls gauge", "# HELP opprof_calls Calls of an op in the round with the most."]
    for test, window in windows:
        whose = _labels(test=test.id, window=window.name)
        lines += [f"opprof_calls{{{whose},{_labels(op=op)}}} {max(each.calls)}" for op, each in window.ops.items()]
    lines += ["# TYPE opprof_wall_seconds gauge", "# UNIT opprof_wall_seconds seconds"]
    lines.append("# HELP opprof_wall_seconds Wall time of the fastest round.")
    for test, window in windows:
        if window.rounds >= LEAST_ROUNDS:
            whose = _labels(test=test.id, window=window.name)
            lines.append(f"opprof_wall_seconds{{{whose}}} {min(window.host_ns) / 1e9:.9f}")
    return "\n".join([*lines, "# EOF"]) + "\n"


def _labels(**values: str) -> str:
    """Return labels with their values escaped as the format wants it."""
    plain = {
        name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, value in values.items()
    }
    return ",".join(f'{name}="{value}"' for name, value in plain.items())


def benchmark(run: RunResult) -> str:
    """Return the series of github-action-benchmark's ``customSmallerIsBetter``: calls, and times as OpenMetrics."""
    series: list[dict[str, object]] = []
    for test in run.tests:
        for window in test.windows:
            title = titled(test.id, window.name)
            calls = sum(max(each.calls) for each in window.ops.values())
            series.append({"name": f"{title} calls", "unit": "calls", "value": calls})
            if window.rounds >= LEAST_ROUNDS:
                time: dict[str, object] = {"unit": "ns", "value": min(window.host_ns)}
                series.append({"name": f"{title} time", **time})
    return json.dumps(series, indent=1) + "\n"
