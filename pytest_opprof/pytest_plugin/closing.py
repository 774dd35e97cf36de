"""The end of a run: collect the results, write baselines, print the summary."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

from ..baselines.stale import Collected, renamed, stale
from ..baselines.store import Saved, Store
from ..baselines.update import Updates, by_environment
from ..errors import BackendError, BaselineError, OpprofError
from ..machine.git import commit
from ..machine.load import Watch
from ..machine.ranks import ranks_named
from ..measure.plan import Settings
from ..processes.pool import Pool
from ..processes.ranks import Ranks
from ..processes.recorded_window import is_timed
from ..processes.recording import Recording
from ..report import colours
from ..report.escaping import terminal
from ..report.summary import Summary
from ..results.merging import merged, of_window
from ..results.plain import converted, plain
from ..results.run_result import RunResult, Stale, run_of, write
from ..results.test_id import split_id
from ..results.test_result import TestRecord
from ..units import plural
from ..verdict.times.repeats import BASE_PROCESSES, CALL_PROCESSES
from .options import shown
from .outcome import defect

_NO_MARK = (
    "no baseline was written: no collected test has a mark. Mark the tests to measure with"
    " @pytest.mark.op_budget(Cast=10) or @pytest.mark.opprof, or measure every test: add --opprof-all"
)


class Closing:
    """Collects and writes the results at the end, in the process that runs the tests or starts the xdist workers."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        store: Store,
        pool: Pool,
        collected: Collected,
        summary: Summary,
        keeps_baselines: bool,
        ranks: Ranks | None = None,
    ) -> None:
        """*keeps_baselines*: whether this run writes baselines and reports stale ones."""
        self._config = config
        self._settings = settings
        self._store = store
        self._pool = pool
        self._collected = collected
        self._summary = summary
        self._keeps_baselines = keeps_baselines and not config.option.collectonly
        self._ranks = ranks
        self._updates = Updates(store, settings)
        self._has_written = False
        """Whether calls were written."""
        self._of_ranks: dict[int | None, list[TestRecord]] = {}
        """The records of the other ranks; empty if they sent none."""
        self._failed: set[str] = set()
        self._started = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def after_tests(self) -> Generator[None, object, object]:
        """Measure in further processes after the tests: for a baseline, or because the user requested it."""
        begin = monotonic()
        try:
            result = yield
        except pytest.Session.Failed:  # -x, --maxfail
            self._record(monotonic() - begin)
            raise
        except BaseException:  # also of pytest.exit(), which may give any exit status
            self._summary.is_cut = True
            raise
        self._record(monotonic() - begin)
        return result

    def _record(self, took_s: float) -> None:
        """Measure the baselines in further processes and write them: calls first, since times take longer."""
        settings = self._settings
        if self._ranks and (settings.update or settings.together):
            with self._told_at_the_end("the results of the other ranks are unknown"):
                self._tell_ranks(self._ranks)
        if not self._keeps_baselines:
            return
        with self._told_at_the_end("baselines were not written"):
            if self._ranks:
                self._record_of_ranks()
                return
            recording = Recording(self._config, settings, self._pool, Watch(), self._summary, took_s)
            tests = [test for test, _ in self._looked_up()]
            timed = [test for test in tests if self._wants_times(test)]
            processes = settings.processes or (BASE_PROCESSES if settings.update else 1)
            if settings.update:
                self._move_renamed()
                changed = [test for test in tests if self._updates.changes_calls(test)]
                ids = {test.id for test in changed}
                others = [test for test in tests if test.id not in ids and self._updates.changes_coarse(test)]
                recording.calls([*changed, *others], min(processes, CALL_PROCESSES))
                self._write_calls(tests, times=processes == 1)
                self._write_sites(recording, tests, changed)
            if timed and processes > 1:
                recording.times(timed, processes)
                if settings.update:
                    self._write_times(tests)

    def _tell_ranks(self, ranks: Ranks) -> None:
        """Send each rank's records to rank 0. Raises BackendError if a rank sends none."""
        if self._settings.rank.rank:
            ranks.tell("records", plain(list(self._summary.records.values())))
            return
        try:
            told = ranks.gather("records", [])
        except BackendError as error:
            lacking = "no baseline was written" if self._settings.update else "the report is of rank 0 alone"
            raise BackendError(f"{lacking}: {error}") from None
        self._of_ranks = {rank: converted(each, list[TestRecord]) for rank, each in enumerate(told) if rank}

    def _record_of_ranks(self) -> None:
        """Write the calls that all ranks measured, of tests that passed on each. Raises BaselineError."""
        if not self._settings.update or not self._of_ranks:
            return
        others = [{record.id: record for record in each} for each in self._of_ranks.values()]
        self._updates.others = others
        self._move_renamed()
        tests = []
        for test, _ in self._looked_up():
            every = [test, *(records.get(test.id) for records in others)]
            failed = [rank for rank, each in enumerate(every) if each is None or each.outcome != "passed"]
            if test.outcome == "passed" and failed:
                self._summary.lines.append(
                    f"{test.id}: no baseline was written, it did not pass on {ranks_named(failed)}"
                )
            elif not failed:
                tests.append(test)
        self._write_calls(tests, times=False)
        for test in tests:
            if sites := {window.name: window.sites for window in test.windows if window.sites}:
                self._updates.write_sites(test, sites)
        if paths := self._kept(self._store.save()):
            self._summary.lines += ["the source lines of their ops were recorded", *self._wrote(paths)]

    def _looked_up(self) -> Iterator[tuple[TestRecord, bool]]:
        """Yield the tests with usable baseline files, and whether they have no baseline at all."""
        for record in self._summary.records.values():
            try:
                yield record, self._updates.is_new(record)
            except BaselineError as error:
                self._summary.errors.append(str(error))

    def _wants_times(self, record: TestRecord) -> bool:
        """Return True if the times of a test should be recorded."""
        timed = [window for window in record.windows if is_timed(window) and window.verdict is not None]
        if record.outcome != "passed" or not timed:
            return False
        return not self._settings.update or any(self._updates.lacks_times(record.id, window) for window in timed)

    def collect(self, report: pytest.TestReport) -> None:
        """Collect the results of a test; of a re-run test, the last."""
        test = getattr(report, "opprof_id", report.nodeid)
        if report.when == "call":
            self._summary.ran = True
            self._summary.records.pop(test, None)
            if hasattr(report, "opprof"):
                self._summary.records[test] = converted(report.opprof, TestRecord)
        # A failing subtest reports before its test, which "passed"; a failing teardown after it.
        if report.failed and hasattr(report, "opprof"):
            for entry in getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ()):
                # Only for the terminal: JUnit and annotations need the plain string, and workers sent it plain.
                lines = colours.toned(entry.lines, getattr(report, "opprof_tones", ()))
                entry.toterminal = partial(colours.write, lines=lines)
        elif report.failed:
            self._failed.add(test)
        elif report.when == "setup":
            self._failed.discard(test)
        if test in self._failed and test in self._summary.records:
            self._summary.records[test].outcome = "failed"

    def finish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the JSON of the run. A write error fails the run; so do stale baselines, if strict.

        With --opprof-report-only pytest's exit code stays as it is.
        """
        if self._config.option.collectonly:
            return
        summary, settings = self._summary, self._settings
        interrupted = summary.is_cut = summary.is_cut or exitstatus == pytest.ExitCode.INTERRUPTED
        with self._told_at_the_end("stale baselines were not looked for"):
            if self._keeps_baselines and not interrupted:
                summary.stale = sorted(self._stale(), key=str)
                summary.lines += self._renamed_lines()
        if settings.update and interrupted:
            what = "calls were recorded, times were not" if self._has_written else "no baseline was written"
            summary.errors.append(f"interrupted: {what}")
        if settings.json or settings.summary or settings.html:
            self._write_run(interrupted)
        # The same exit code as pytest without tests: the command did not do its work.
        is_idle = settings.update and self._keeps_baselines and summary.ran and not (summary.marked or summary.records)
        if is_idle and session.exitstatus == pytest.ExitCode.OK:
            summary.errors.append(_NO_MARK)
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        summary.errors = list(dict.fromkeys(summary.errors))
        failed = summary.errors or (summary.stale and settings.strict)
        if failed and not settings.report_only and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write_run(self, interrupted: bool) -> None:
        summary, settings = self._summary, self._settings
        rank = None if settings.rank.is_alone else settings.rank.rank
        mine = run_of(
            list(summary.records.values()),
            summary.stale,
            interrupted=interrupted,
            errors=list(dict.fromkeys(summary.errors)),
            against=settings.against,
            commit=commit(self._config.rootpath) if settings.json or settings.html else "",
            started=self._started,
            rank=rank,
            accept=summary.accept,
            pytest=settings.rank.pytest,
            everything=settings.everything,
            python=bool(settings.python),
            leaks=bool(settings.leaks),
            memory=bool(settings.memory),
        )
        of_others = [run_of(records, [], interrupted=False, rank=other) for other, records in self._of_ranks.items()]
        every = merged([mine, *of_others]) if of_others else mine

        def run(what: str) -> RunResult:
            return every if what in settings.together else mine

        with self._told_at_the_end("the JSON of the run was not written"):
            if settings.json:
                write(settings.json, run("json"))
        with self._told_at_the_end("the summary was not written"):
            if settings.summary:
                from ..report import markdown

                markdown.append(settings.summary, run("summary"))
        with self._told_at_the_end("the page of the run was not written"):
            if settings.html:
                # Imported here, since Jinja2 takes 0.1 s.
                from ..report.html import page, run_page

                page.write(settings.html, run_page.html(run("html")), "--opprof-html")

    @contextmanager
    def _told_at_the_end(self, what: str) -> Iterator[None]:
        """Keep an error for the end of the run; *what* names the step that a defect of opprof prevented."""
        try:
            yield
        except OpprofError as error:
            self._summary.errors.append(str(error))
        except Exception as error:
            self._summary.errors.append(defect(what, error))

    def _stale(self) -> Iterator[Stale]:
        folders = set()
        for record in self._summary.records.values():
            folders |= {environment.folder for environment in by_environment(record)}
            if record.outcome == "passed":
                for environment, window in self._updates.gone_windows(record):
                    yield of_window(record.id, window, environment)
        for path, test in stale(self._store.root, folders, self._collected, self._store.at):
            yield Stale(test, file=shown(self._config, path))

    def _renamed(self) -> list[tuple[str, str, int]]:
        """Return modules whose baselines seem to have another name: the old name, the new one, the number of tests."""
        lacking: dict[str, set[str]] = {}
        for module, test in (split_id(record.id) for record, is_new in self._looked_up() if is_new):
            lacking.setdefault(module, set()).add(test)
        folders = {
            environment.folder for record in self._summary.records.values() for environment in by_environment(record)
        }
        return list(renamed(self._store.root, folders, self._collected, self._store.at, lacking)) if lacking else []

    def _renamed_lines(self) -> Iterator[str]:
        for old, new, tests in self._renamed():
            yield (
                f"{old} is gone; its baselines have {plural(tests, 'test')} that {new} lacks. If it was"
                f" renamed: opprof baselines move {shlex.quote(old)} {shlex.quote(new)}"
            )

    def _move_renamed(self) -> None:
        """Compare renamed modules with the baselines of their old name during an update, and keep these."""
        if self._settings.update == "all":
            for old, new, tests in self._renamed():
                try:
                    self._store.move(old, new)
                except BaselineError as error:
                    self._summary.lines.append(f"{old} is gone. Was it renamed to {new}? {error}")
                    continue
                saved = self._store.save()
                self._kept(saved)
                if not saved.errors:
                    self._summary.lines.append(
                        f"{old} is gone: {new} has its baselines now ({plural(tests, 'test')} of the same name)"
                    )

    def _write_calls(self, tests: Sequence[TestRecord], times: bool) -> None:
        """Write the baselines of the passed tests. Raises BaselineError."""
        counts, saved = self._updates.write(tests, times)
        paths = self._kept(saved)
        if not self._summary.records:
            return  # the message for a run without measurements says it
        said = ", ".join(f"{number} {word}" for word, number in counts.items())
        self._summary.lines += [f"baselines of {plural(sum(counts.values()), 'test')}: {said}", *self._wrote(paths)]
        self._has_written = True

    def _write_sites(self, recording: Recording, tests: Sequence[TestRecord], changed: Sequence[TestRecord]) -> None:
        """Write the source lines of tests whose calls *changed*, or whose lines are not stored yet."""
        ids = {test.id for test in changed}
        asked = [
            test
            for test in tests
            if test.tells_sites
            and any(window.ops for window in test.windows)
            and (test.id in ids or (self._settings.update != "new" and self._updates.lacks_sites(test)))
        ]
        if not asked:
            return
        sites = recording.sites(asked)
        for test in asked:
            self._updates.write_sites(test, sites.get(test.id, {}))
        lacking: dict[str, list[str]] = {}
        for test in asked:
            if test.id in sites and not any(sites[test.id].values()):
                lacking.setdefault(test.no_sites, []).append(test.id)
        for why, tests_without in lacking.items():
            more = f" and {plural(len(tests_without) - 1, 'more test')}" if len(tests_without) > 1 else ""
            self._summary.lines.append(f"{tests_without[0]}{more}: source lines are unknown: {why}")
        if paths := self._kept(self._store.save()):
            of = plural(len(sites), "test")
            self._summary.lines += [f"source lines of the ops of {of} were recorded", *self._wrote(paths)]

    def _write_times(self, tests: Sequence[TestRecord]) -> None:
        """Write the times of the tests. Raises BaselineError."""
        counts, saved = self._updates.write(tests, times=True)
        if paths := self._kept(saved):
            number = plural(counts["new"] + counts["changed"], "test")
            self._summary.lines += [f"times of {number} were recorded", *self._wrote(paths)]

    def _kept(self, saved: Saved) -> list[Path]:
        """Return the written files; a write error becomes an error of this run."""
        self._summary.errors += saved.errors.values()
        return saved.files

    def _wrote(self, paths: Iterable[Path]) -> list[str]:
        return [f"  {'wrote' if path.exists() else 'removed'} {shown(self._config, path)}" for path in paths]

    def tell(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """Print the results of the tests, and always the line that counts them."""
        options = self._config.option
        idle = (
            options.collectonly or options.setuponly or options.setupplan or exitstatus == pytest.ExitCode.USAGE_ERROR
        )
        if idle or getattr(options, "no_summary", False):
            return
        lines = list(self._summary.told(self._settings, self._config.get_verbosity()))
        terminalreporter.ensure_newline()
        if len(lines) > 1:
            terminalreporter.section("opprof", sep="-")
        for line in lines:
            terminalreporter.write_line(terminal(line))
