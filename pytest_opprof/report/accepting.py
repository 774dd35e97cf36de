"""How to accept a change or record a baseline: the steps that all outputs show."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..measure.plan import Settings
from ..results.acceptance import TRAILER
from ..results.run_result import RunResult
from ..results.test_id import command, is_file, split_id
from ..results.test_result import TestResult
from ..verdict.findings import Finding
from ..verdict.verdicts import Status

_MODULES = 5
"""A command that updates more of them names none."""


class Step(NamedTuple):
    """One step: words, or a command."""

    text: str
    is_command: bool = False


@dataclass(frozen=True, slots=True)
class Accepting:
    """How the changes of one run are accepted."""

    pytest: str
    """The command that starts pytest, on all ranks."""
    by: Literal["baseline", "commit", "nothing"]
    """How to accept a regression. Two saved files are compared without a way."""
    flags: Sequence[str] = ()
    """The flags without which a run records less than this one: ``--opprof-python``."""

    @classmethod
    def of_settings(cls, settings: Settings) -> Accepting:
        """Return how changes are accepted in a run that is going on."""
        by: Literal["baseline", "commit"] = "commit" if settings.against else "baseline"
        return cls(settings.rank.pytest, by, _flags(settings))

    @classmethod
    def of_run(cls, run: RunResult) -> Accepting:
        """Return how changes of a stored run are accepted."""
        by: Literal["baseline", "commit", "nothing"]
        by = "commit" if run.accept else "nothing" if run.against else "baseline"
        return cls(run.pytest, by, _flags(run))

    def update(self, *tests: str, new: bool = False) -> str:
        """Return the command that records the baselines of *tests* or of all tests, or only *new* ones."""
        return command(tests, " ".join([f"--opprof-update{'-new' * new}", *self.flags]), self.pytest)

    def update_failing(self, run: RunResult) -> str:
        """Return the command that accepts all regressions of a *run*; empty where it would record nothing."""
        if self.by != "baseline" or not any(each.is_regression for test in run.failing for each in test.findings):
            return ""
        modules = sorted({split_id(test.id)[0] for test in run.failing})
        are_named = len(modules) <= _MODULES and all(map(is_file, modules))
        return f"{self.update()} {shlex.join(modules)}" if are_named else self.update()

    def steps_of(self, test: TestResult) -> list[Step]:
        """Return the steps that accept the findings of *test*, keep its improvement, or record its first baseline."""
        if test.status not in (Status.IMPROVED, Status.NO_BASELINE):
            return self.steps(test.id, test.findings)
        update = Step(self.update(test.id, new=test.status is Status.NO_BASELINE), is_command=True)
        return [update] if self.by == "baseline" else []

    def steps(self, test: str, findings: Iterable[Finding]) -> list[Step]:
        """Return the steps that accept *findings* of *test*, or of a function."""
        listed = list(findings)
        steps = [Step("raise the limit in its op_budget mark")] if any(each.breaks_budget for each in listed) else []
        if any(each.is_regression for each in listed):
            in_a_commit = Step(f"add the {TRAILER} line below to a commit message")
            recorded = Step(self.update(test), is_command=True)
            steps += {"baseline": [recorded], "commit": [in_a_commit], "nothing": []}[self.by]
        return steps


def _flags(run: Settings | RunResult) -> list[str]:
    asked = {"all": run.everything, "python": run.python, "leaks": run.leaks, "memory": run.memory}
    return [f"--opprof-{name}" for name, is_asked in asked.items() if is_asked]
