"""Baselines: written, compared, kept side by side, found stale, pruned."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Suite = Callable[..., pytest.RunResult]
OPPROF = (sys.executable, "-m", "pytest_opprof")
MODEL = """
import pytest
from pytest_opprof.backends import fake
{setup}
@pytest.mark.opprof({mark})
def test_a():
    for op, calls in dict({ops}).items():
        for _ in range(calls):
            fake.launch(op, device_ns={ns})
"""


def model(pytester: pytest.Pytester, ops: str, ns: int = 1_000, mark: str = "", setup: str = "") -> None:
    pytester.makepyfile(test_m=MODEL.format(ops=ops, ns=ns, mark=mark, setup=setup))


def kept(pytester: pytest.Pytester) -> dict[str, dict[str, object]]:
    """Return the calls by test in the baselines of the (only) environment."""
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    tests = json.loads(path.read_text())["tests"]
    return {test: {op: each["calls"] for op, each in windows["body"]["ops"].items()} for test, windows in tests.items()}


def both(pytester: pytest.Pytester) -> tuple[Path, Path]:
    """Return the files of calls and of times of the (only) environment."""
    (calls,) = pytester.path.glob("baselines/*/test_m.py.json")
    return calls, calls.with_name("test_m.py.times.json")


def test_update_writes_what_the_next_run_compares_with(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10, MatMul=2")
    result = suite("--opprof-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["baselines of 1 test: 1 new, 0 changed, 0 unchanged", "  wrote *test_m.py.json"])
    assert kept(pytester) == {"test_a": {"Cast": 10, "MatMul": 2}}
    suite("--opprof").stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok, no times judged"])


def test_more_calls_and_new_ops_fail_and_say_how_to_accept_them(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10, MatMul=2")
    suite("--opprof-update")
    model(pytester, "Cast=12, MatMul=2, Exp=1")
    result = suite("--opprof", "--opprof-json=run.json")
    result.assert_outcomes(failed=1)
    (test,) = json.loads((pytester.path / "run.json").read_text())["tests"]
    assert test["accept"] == ["pytest test_m.py::test_a --opprof-update"]
    result.stdout.fnmatch_lines(
        [
            "op regression: test_m.py::test_a  [[]fake 1, fake, async[]]",
            "  Cast: 12 calls (baseline: 10)",
            "  Exp: 1 call (baseline: 0)",
            "Cast *10 -> 12 *12 us *more calls",
            "to accept this change: pytest test_m.py::test_a --opprof-update",
            "opprof: 1 test measured, 0 ok, 1 with more calls, no times judged",
        ]
    )


def test_the_command_that_accepts_a_test_without_a_mark_records_it(pytester: pytest.Pytester, suite: Suite) -> None:
    test = "from pytest_opprof.backends import fake\ndef test_a():\n    for _ in range({}): fake.launch('Add')\n"
    pytester.makepyfile(test_m=test.format(1))
    suite("--opprof-all", "--opprof-update").assert_outcomes(passed=1)
    pytester.makepyfile(test_m=test.format(2))
    result = suite("--opprof", "--opprof-all")
    result.assert_outcomes(failed=1)
    (told,) = (line for line in result.outlines if line.startswith("to accept this change: pytest "))
    suite(*told.removeprefix("to accept this change: pytest ").split()).assert_outcomes(passed=1)
    suite("--opprof", "--opprof-all").assert_outcomes(passed=1)


def test_fewer_calls_and_gone_ops_pass_say_so_and_ask_for_an_update(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=12, Exp=1")
    suite("--opprof-update")
    model(pytester, "Cast=10")
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "test_m.py::test_a: Cast: 10 calls (baseline: 12)",
            "test_m.py::test_a: Exp: 0 calls (baseline: 1)",
            "keep what became cheaper: pytest test_m.py::test_a --opprof-update",
            "opprof: 1 test measured, 0 ok, 1 improved, no times judged",
        ]
    )


def test_an_update_passes_says_what_changed_and_takes_it(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10")
    suite("--opprof-update")
    model(pytester, "Cast=12")
    result = suite("--opprof-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "test_m.py::test_a: Cast: 12 calls (baseline: 10)",
            "baselines of 1 test: 0 new, 1 changed, 0 unchanged",
        ]
    )
    assert kept(pytester) == {"test_a": {"Cast": 12}}


def test_an_update_that_has_nothing_to_say_writes_nothing(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10", ns=1_000)
    suite("--opprof-update")
    (path,) = pytester.path.glob("baselines/*/*.json")
    before = path.read_text()
    model(pytester, "Cast=10", ns=1_300)
    suite("--opprof-update").stdout.fnmatch_lines(["baselines of 1 test: 0 new, 0 changed, 1 unchanged"])
    assert path.read_text() == before


def test_an_ordinary_run_writes_nothing(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10")
    suite("--opprof")
    assert not (pytester.path / "baselines").exists()


def test_update_new_leaves_what_there_is_and_compares_it(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10")
    suite("--opprof-update")
    model(pytester, "Cast=12", setup="@pytest.mark.opprof\ndef test_new(): fake.launch('Add')\n")
    result = suite("--opprof-update-new")
    result.assert_outcomes(passed=1, failed=1)
    assert kept(pytester) == {"test_a": {"Cast": 10}, "test_new": {"Add": 1}}


def test_only_tests_that_passed_are_written(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m="""
import pytest
from pytest_opprof.backends import fake
pytestmark = pytest.mark.opprof
@pytest.fixture
def broken_teardown():
    yield
    raise ValueError
def test_passes(): fake.launch("Add")
def test_fails(): fake.launch("Add"); assert 0
@pytest.mark.xfail
def test_expected_to_fail(): fake.launch("Add"); assert 0
def test_skipped(): fake.launch("Add"); pytest.skip()
def test_torn_down_badly(broken_teardown): fake.launch("Add")
@pytest.mark.op_budget(Add=0)
def test_over_budget(): fake.launch("Add")
"""
    )
    suite("--opprof-update").assert_outcomes(passed=2, failed=2, xfailed=1, skipped=1, errors=1)
    assert kept(pytester) == {"test_passes": {"Add": 1}}


def test_a_test_without_a_baseline_is_reported_and_passes_unless_strict(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    model(pytester, "Cast=10")
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "no baseline for fake 1, fake, async (*): test_m.py::test_a",
            "record them: pytest --opprof-update-new *",
            "opprof: 1 test measured, 0 ok, 1 without baseline",
        ]
    )
    strict = suite("--opprof", "--opprof-strict")
    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines(
        ["no baseline for fake 1*: record it with pytest test_m.py::test_a --opprof-update-new"]
    )


def test_a_test_that_wants_no_baseline_has_none(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10", mark="baseline=False")
    suite("--opprof-update").stdout.fnmatch_lines(["baselines of 0 tests: 0 new, 0 changed, 0 unchanged"])
    assert not (pytester.path / "baselines").exists()
    suite("--opprof", "--opprof-strict").stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok"])


@pytest.mark.parametrize("other", ["device='H100'", "version='2'"])
def test_baselines_of_another_environment_are_kept_side_by_side(
    pytester: pytest.Pytester, suite: Suite, other: str
) -> None:
    model(pytester, "Cast=10", setup="fake.pretend()")
    suite("--opprof-update")
    model(pytester, "Cast=12", setup=f"fake.pretend({other})")
    suite("--opprof").stdout.fnmatch_lines(
        ["no baseline for fake *(there is one for fake 1, fake, async (*)): *test_a"]
    )
    suite("--opprof-update")
    assert len(list(pytester.path.glob("baselines/*/test_m.py.json"))) == 2
    suite("--opprof").stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok, no times judged"])
    model(pytester, "Cast=10", setup="fake.pretend()")
    suite("--opprof").stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok, no times judged"])


def test_timing_modes_are_not_compared(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10")
    suite("--opprof-update")
    suite("--opprof", "--opprof-timing=sync").stdout.fnmatch_lines(["no baseline for fake 1, fake, sync (*"])


def test_a_baseline_file_with_conflict_markers_fails_the_run_once_and_stays_as_it_is(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    model(pytester, "Cast=10")
    suite("--opprof-update")
    (path,) = pytester.path.glob("baselines/*/*.json")
    text = path.read_text().replace(
        ' "schema": 4,', '<<<<<<< HEAD\n "schema": 4,\n=======\n "schema": 4,\n>>>>>>> other'
    )
    path.write_text(text)
    with pytester.path.joinpath("test_m.py").open("a") as file:
        file.write("\n@pytest.mark.opprof\ndef test_b(): fake.launch('Add')\n")
    for flag in ("--opprof", "--opprof-update"):
        result = suite(flag)
        result.assert_outcomes(passed=2)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            ["opprof: error: *test_m.py.json:10: has git merge conflict markers. Resolve them*"]
        )
        assert result.stdout.str().count("has git merge conflict markers") == 1
    assert path.read_text() == text


def test_a_folder_that_cannot_be_written_fails_the_run_without_a_traceback(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    model(pytester, "Cast=10")
    pytester.mkdir("baselines").joinpath("fake-1-fake-async-x86_64").write_text("a file, not a folder")
    result = suite("--opprof-update")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["opprof: error: *test_m.py.json: cannot be written: *"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_baselines_are_kept_where_the_flag_or_the_ini_file_says(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10")
    suite("--opprof-update", "--opprof-baselines=perf/kept")
    assert list(pytester.path.glob("perf/kept/*/test_m.py.json"))
    suite("--opprof-update", "-o", "opprof_baselines=elsewhere")
    assert list(pytester.path.glob("elsewhere/*/test_m.py.json"))
    assert not (pytester.path / "baselines").exists()


class TestStale:
    """Baselines whose test is gone."""

    @pytest.fixture(autouse=True)
    def _two_tests_then_one(self, pytester: pytest.Pytester, suite: Suite) -> None:
        two = "@pytest.mark.opprof\n@pytest.mark.parametrize('n', [1, 2])\ndef test_b(n): fake.launch('Add')\n"
        model(pytester, "Cast=1", setup=two)
        suite("--opprof-update")
        model(pytester, "Cast=1", setup=two.replace("[1, 2]", "[1]"))

    STALE = (
        "1 stale baseline (opprof baselines prune removes tests, --opprof-update windows):",
        "  *test_m.py.json: test_b[[]2[]]",
    )

    def test_they_are_named(self, suite: Suite) -> None:
        result = suite("--opprof")
        assert result.ret == 0
        result.stdout.fnmatch_lines(list(self.STALE))

    def test_they_fail_a_strict_run(self, suite: Suite) -> None:
        result = suite("--opprof", "--opprof-strict", "-q")
        result.assert_outcomes(passed=2)
        assert result.ret == 1
        result.stdout.fnmatch_lines(list(self.STALE))

    @pytest.mark.parametrize(
        "selection", [["test_m.py::test_a"], ["-k", "test_a", "test_m.py::test_a"], ["--lf", "-p", "cacheprovider"]]
    )
    def test_a_run_that_did_not_look_does_not_judge(self, suite: Suite, selection: list[str]) -> None:
        suite("--opprof", *selection).stdout.no_fnmatch_line("*stale*")

    def test_a_deselected_test_is_not_stale(self, pytester: pytest.Pytester, suite: Suite) -> None:
        result = suite("--opprof", "-k", "test_a")
        result.stdout.fnmatch_lines(list(self.STALE))  # the one that is gone
        result.stdout.no_fnmatch_line("*test_b?1?*")  # the one that was left out

    def test_a_test_of_another_shard_is_not_stale(self, pytester: pytest.Pytester, suite: Suite) -> None:
        # As pytest-shard takes tests away: it tells nobody.
        pytester.makeconftest("def pytest_collection_modifyitems(items):\n    items[:] = items[:1]\n")
        result = suite("--opprof")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(list(self.STALE))

    def test_a_module_that_is_gone_is_stale(self, pytester: pytest.Pytester, suite: Suite) -> None:
        pytester.path.joinpath("test_m.py").rename(pytester.path / "test_n.py")
        suite("--opprof").stdout.fnmatch_lines(["3 stale baselines*"])

    def test_a_window_that_is_gone_is_stale(self, pytester: pytest.Pytester, suite: Suite) -> None:
        body = (
            "from pytest_opprof.backends import fake\ndef test_w(opprof):\n    with opprof('%s'): fake.launch('Add')\n"
        )
        pytester.makepyfile(test_w=body % "before")
        suite("--opprof-update", "test_w.py")
        pytester.makepyfile(test_w=body % "after")
        suite("--opprof", "test_w.py").stdout.fnmatch_lines(
            ["1 stale*", "  test_w.py::test_w window before [[]fake 1*"]
        )

    @pytest.mark.slow
    @pytest.mark.processes
    def test_prune_removes_them_and_only_them(self, pytester: pytest.Pytester, suite: Suite) -> None:
        dry = pytester.run(*OPPROF, "baselines", "prune", "--dry-run", "--all-devices")
        dry.stdout.fnmatch_lines(["baselines*test_m.py.json: test_b[[]2[]]", "1 stale baseline would be removed"])
        assert "test_b[2]" in kept(pytester)
        assert pytester.run(*OPPROF, "baselines", "prune", "--all-devices").ret == 0
        assert set(kept(pytester)) == {"test_a", "test_b[1]"}
        suite("--opprof").stdout.no_fnmatch_line("*stale*")

    @pytest.mark.slow
    @pytest.mark.processes
    def test_prune_keeps_a_parameter_that_may_be_there_on_its_device(self, pytester: pytest.Pytester) -> None:
        result = pytester.run(*OPPROF, "baselines", "prune")
        result.stdout.fnmatch_lines(["kept 1 whose parameter was not collected here *", "0 stale baselines removed"])
        assert "test_b[2]" in kept(pytester)

    @pytest.mark.slow
    @pytest.mark.processes
    def test_prune_removes_nothing_of_another_project(self, pytester: pytest.Pytester) -> None:
        other = pytester.mkdir("other")
        (other / "pytest.ini").write_text("[pytest]\n")
        (other / "test_n.py").write_text("def test_n(): pass\n")
        result = pytester.run(*OPPROF, "baselines", "prune", "--", "--rootdir=other", "other")
        assert result.ret == 2
        result.stderr.fnmatch_lines(["opprof: pytest collected none of 1 module with baselines in baselines*"])
        assert set(kept(pytester)) == {"test_a", "test_b[1]", "test_b[2]"}

    @pytest.mark.slow
    @pytest.mark.processes
    def test_prune_removes_nothing_where_pytest_cannot_collect(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile(test_broken="import nothing_like_this")
        result = pytester.run(*OPPROF, "baselines", "prune")
        assert result.ret == 2
        result.stderr.fnmatch_lines(
            ["opprof: pytest could not collect the tests, so nothing was removed:", "*nothing_like_this*"]
        )
        assert "test_b[2]" in kept(pytester)


class TestRenamedFile:
    @pytest.fixture(autouse=True)
    def _recorded_as_test_m_and_renamed(self, pytester: pytest.Pytester, suite: Suite) -> None:
        model(pytester, "Cast=10", setup="@pytest.mark.opprof\ndef test_b(): fake.launch('Add')\n")
        suite("--opprof-update")
        pytester.path.joinpath("test_m.py").rename(pytester.path / "test_n.py")

    @pytest.mark.slow
    @pytest.mark.processes
    def test_a_run_says_what_it_was_and_how_to_keep_its_baselines(
        self, pytester: pytest.Pytester, suite: Suite
    ) -> None:
        result = suite("--opprof")
        result.stdout.fnmatch_lines(
            [
                "test_m.py is gone; its baselines have 2 tests that test_n.py lacks. If it was renamed: opprof"
                " baselines move test_m.py test_n.py",
                "opprof: 2 tests measured, 0 ok, 2 without baseline",
            ]
        )
        assert pytester.run(*OPPROF, "baselines", "move", "test_m.py", "test_n.py").ret == 0
        again = suite("--opprof")
        again.stdout.fnmatch_lines(["opprof: 2 tests measured, 2 ok, no times judged"])
        again.stdout.no_fnmatch_line("*stale*")

    def test_an_update_compares_it_with_its_old_baselines_and_keeps_them(
        self, pytester: pytest.Pytester, suite: Suite
    ) -> None:
        text = pytester.path.joinpath("test_n.py").read_text()
        pytester.path.joinpath("test_n.py").write_text(text.replace("Cast=10", "Cast=12"))
        result = suite("--opprof-update")
        result.stdout.fnmatch_lines(
            [
                "test_m.py is gone: test_n.py has its baselines now (2 tests of the same name)",
                "baselines of 2 tests: 0 new, 1 changed, 1 unchanged",
            ]
        )
        assert [path.name for path in pytester.path.glob("baselines/*/*.json")] == ["test_n.py.json"]

    def test_one_that_has_baselines_of_such_tests_already_takes_none_and_the_rest_is_written(
        self, pytester: pytest.Pytester, suite: Suite
    ) -> None:
        suite("--opprof-update-new", "-k", "test_b")
        result = suite("--opprof-update")
        result.stdout.fnmatch_lines(
            [
                "test_m.py is gone. Was it renamed to test_n.py? *has a baseline of test_b already*",
                "baselines of 2*",
            ]
        )
        (path,) = pytester.path.glob("baselines/*/test_n.py.json")
        assert json.loads(path.read_text())["tests"].keys() == {"test_a", "test_b"}

    def test_an_update_of_new_tests_alone_leaves_them(self, pytester: pytest.Pytester, suite: Suite) -> None:
        result = suite("--opprof-update-new")
        result.stdout.fnmatch_lines(["baselines of 2 tests: 2 new, *", "2 stale baselines*"])


def test_the_schemas_are_shipped_and_every_written_file_keeps_to_its_own(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    import jsonschema

    import pytest_opprof

    model(pytester, "Cast=2", mark="rounds=10")
    suite("--opprof-update")
    for path, name in zip(both(pytester), ("baseline-4.json", "baseline-times-1.json")):
        schema = json.loads((Path(pytest_opprof.__file__).parent / "schema" / name).read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(json.loads(path.read_text()), schema)


class TestTwoFiles:
    """Calls are reviewed in one file, times lie beside them in another."""

    @pytest.fixture(autouse=True)
    def _recorded(self, pytester: pytest.Pytester, suite: Suite) -> None:
        model(pytester, "Cast=2", mark="rounds=10")
        suite("--opprof-update")

    def test_other_times_leave_the_calls_alone(self, pytester: pytest.Pytester, suite: Suite) -> None:
        calls, times = both(pytester)
        calls.write_text(json.dumps(json.loads(calls.read_text())))  # in a layout of somebody's own
        before = calls.read_bytes(), calls.stat().st_mtime_ns, times.read_bytes()
        model(pytester, "Cast=2", mark="rounds=20")
        result = suite("--opprof-update")
        result.stdout.fnmatch_lines(["baselines of 1 test: 0 new, 1 changed, 0 unchanged", "  wrote *m.py.times.json"])
        result.stdout.no_fnmatch_line("  wrote *test_m.py.json")
        assert (calls.read_bytes(), calls.stat().st_mtime_ns) == before[:2]
        assert times.read_bytes() != before[2]

    def test_a_test_that_is_timed_no_more_takes_its_times_with_its_old_calls(
        self, pytester: pytest.Pytester, suite: Suite
    ) -> None:
        model(pytester, "Cast=3", mark="rounds=2")
        suite("--opprof-update").stdout.fnmatch_lines(["  wrote *test_m.py.json", "  removed *test_m.py.times.json"])
        assert [path.name for path in pytester.path.glob("baselines/*/*.json")] == ["test_m.py.json"]

    @pytest.mark.slow
    @pytest.mark.parametrize("reverted", [0, 1], ids=["calls", "times"])
    @pytest.mark.processes
    def test_when_one_of_both_is_reverted_times_are_not_judged_and_that_is_said(
        self, pytester: pytest.Pytester, suite: Suite, reverted: int
    ) -> None:
        path = both(pytester)[reverted]
        before = path.read_text()
        model(pytester, "Cast=3", mark="rounds=10")
        suite("--opprof-update")
        path.write_text(before)
        model(pytester, f"Cast={3 - (reverted == 0)}", mark="rounds=10")  # what the calls say now
        result = suite("--opprof")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["times not judged, the baseline's times belong to other calls (*: *::test_a"])
        checked = pytester.run(*OPPROF, "baselines", "check")
        assert checked.ret == 1
        checked.stdout.fnmatch_lines(["*test_m.py.times.json: *'test_a'*'body'*: belongs to other calls; *"])
        suite("--opprof-update")
        assert pytester.run(*OPPROF, "baselines", "check").ret == 0

    def test_a_broken_file_of_times_is_said_once_and_its_module_has_no_baseline(
        self, pytester: pytest.Pytester, suite: Suite
    ) -> None:
        calls, times = both(pytester)
        before = calls.read_text()
        times.write_text("{")
        for flag in ("--opprof", "--opprof-update"):
            result = suite(flag)
            result.assert_outcomes(passed=1)
            assert result.ret == pytest.ExitCode.TESTS_FAILED
            result.stdout.fnmatch_lines(["opprof: error: *test_m.py.times.json:1: is not JSON: *"])
            assert result.stdout.str().count("is not JSON") == 1
            result.stdout.no_fnmatch_line("record them: *")
        assert (calls.read_text(), times.read_text()) == (before, "{")

    def test_a_file_of_an_older_schema_is_an_error_with_the_command_that_records_it_anew(
        self, pytester: pytest.Pytester, suite: Suite
    ) -> None:
        calls, _ = both(pytester)
        calls.write_text(json.dumps({**json.loads(calls.read_text()), "schema": 2}))
        for flag in ("--opprof", "--opprof-update"):
            result = suite(flag)
            assert result.ret == pytest.ExitCode.TESTS_FAILED
            result.stdout.fnmatch_lines(
                ["*has schema version 2, this pytest-opprof reads 4. Delete it and record it anew: pytest *-update"]
            )
        calls.unlink()
        suite("--opprof-update").assert_outcomes(passed=1)
        assert kept(pytester) == {"test_a": {"Cast": 2}}

    @pytest.mark.slow
    @pytest.mark.processes
    def test_prune_removes_times_that_have_no_calls(self, pytester: pytest.Pytester) -> None:
        _, times = both(pytester)
        document = json.loads(times.read_text())
        document["times"]["test_renamed"] = document["times"]["test_a"]
        times.write_text(json.dumps(document))
        lone = times.with_name("test_gone.py.times.json")
        lone.write_bytes(times.read_bytes())
        checked = pytester.run(*OPPROF, "baselines", "check")
        assert checked.ret == 1
        checked.stdout.fnmatch_lines(
            [
                "*test_m.py.times.json: *'test_renamed'*: has no calls; opprof baselines prune removes it",
                "*test_gone.py.times.json: has times, call sites or functions of a module without calls. Restore *",
                "3 baseline files, 2 wrong",
            ]
        )
        dry = pytester.run(*OPPROF, "baselines", "prune", "--dry-run")
        dry.stdout.fnmatch_lines(["2 stale baselines would be removed"])
        assert lone.exists()
        assert pytester.run(*OPPROF, "baselines", "prune").ret == 0
        assert not lone.exists()
        assert json.loads(times.read_text())["times"].keys() == {"test_a"}
        assert pytester.run(*OPPROF, "baselines", "check").ret == 0


def test_an_op_of_another_framework_is_a_regression_not_another_environment(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    text = """
import numpy as np
from pytest_opprof.backends import fake
def test_a(opprof):
    x = np.ones(4)
    with opprof("w"):
        fake.launch("Add")
        {more}
def test_b(opprof):
    x = np.ones(4)
    with opprof("w"): {instead}
"""
    both = "--opprof-backend=fake,numpy"
    pytester.makepyfile(test_m=text.format(more="", instead="x + x"))
    suite("--opprof-update", both).assert_outcomes(passed=2)
    pytester.makepyfile(test_m=text.format(more="x.astype('f4')", instead="x.astype('f4')"))
    result = suite("--opprof", both)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["  Cast: 1 call (baseline: 0)"] * 2)
    suite("--opprof-update", both).assert_outcomes(passed=2)
    suite("--opprof", both).stdout.fnmatch_lines(["opprof: 2 tests measured, 2 ok, no times judged"])
    files = pytester.path.glob("baselines/*/*.json")
    kept_tests = {path.parent.name: set(json.loads(path.read_text())["tests"]) for path in files}
    assert sorted(map(sorted, kept_tests.values())) == [["test_a"], ["test_b"]]


@pytest.mark.parametrize(("given", "message"), [("nowhere", "*there is no folder*"), ("test_m.py", "*is a file*")])
def test_a_folder_of_baselines_that_is_not_there_is_a_usage_error(
    pytester: pytest.Pytester, suite: Suite, given: str, message: str
) -> None:
    model(pytester, "Cast=10")
    result = suite("--opprof", f"--opprof-baselines={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --opprof-baselines: {message}"])
    result.stdout.no_fnmatch_line("*nothing was measured*")


def test_only_one_kind_of_update_at_a_time(suite: Suite) -> None:
    suite("--opprof-update", "--opprof-update-new").stderr.fnmatch_lines(["ERROR: *write one of them"])


def test_an_update_forgets_the_windows_that_are_gone(pytester: pytest.Pytester, suite: Suite) -> None:
    body = "from pytest_opprof.backends import fake\ndef test_w(opprof):\n    with opprof('%s'): fake.launch('Add')\n"
    pytester.makepyfile(test_w=body % "before")
    suite("--opprof-update")
    pytester.makepyfile(test_w=body % "after")
    assert suite("--opprof", "--opprof-strict").ret == 1
    assert suite("--opprof-update").ret == 0
    (path,) = pytester.path.glob("baselines/*/*.json")
    assert list(json.loads(path.read_text())["tests"]["test_w"]) == ["after"]
    result = suite("--opprof", "--opprof-strict")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*stale*")


def test_bodies_measured_by_opprof_all_are_not_stale_without_it(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        "from pytest_opprof.backends import fake\ndef test_w(opprof):\n    with opprof('w'): fake.launch('Add')\n"
    )
    suite("--opprof-update", "--opprof-all")
    assert suite("--opprof", "--opprof-strict").ret == 0


def test_a_broken_baseline_file_of_a_test_without_baseline_is_no_internal_error(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    model(pytester, "Cast=10")
    suite("--opprof-update")
    (path,) = pytester.path.glob("baselines/*/*.json")
    path.write_text("<<<<<<< HEAD\n")
    pytester.makepyfile(
        test_m="import pytest\nfrom pytest_opprof.backends import fake\n@pytest.mark.opprof(baseline=False)\n"
        "def test_a(): fake.launch('Add')\n"
    )
    result = suite("--opprof")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["opprof: error: *has git merge conflict markers*", "opprof: 1 test measured, 1 ok, 1 error"]
    )


def test_a_file_that_cannot_be_written_keeps_no_other_from_being_written_and_fails_the_run(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    model(pytester, "Cast=10")
    long = f"test_{'n' * 243}"
    pytester.makepyfile(**{long: pytester.path.joinpath("test_m.py").read_text()})
    result = suite("--opprof-update")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "baselines of 2 tests: 1 new, 0 changed, 0 unchanged, 1 not written",
            "  wrote *test_m.py.json",
            f"opprof: error: *{long}.py.json: cannot be written: File name too long",
        ]
    )
    assert kept(pytester) == {"test_a": {"Cast": 10}}


@pytest.mark.parametrize("flag", ["--opprof-update", "--opprof-update-new"])
def test_where_no_baselines_can_be_written_nothing_is_measured_for_them(
    pytester: pytest.Pytester, suite: Suite, flag: str
) -> None:
    model(pytester, "Cast=10")
    pytester.path.joinpath("file").touch()
    for arguments in ([flag], [flag, "-n2"]):
        result = suite("--opprof-baselines=file/kept", *arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(
            ["ERROR: --opprof-update: no baselines can be written to *file: Not a directory. *"]
        )
    assert suite("--opprof-baselines=file/kept", "--collect-only", flag).ret == 0


def test_a_broken_baseline_file_keeps_no_other_from_being_written(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10")
    suite("--opprof-update")
    (path,) = pytester.path.glob("baselines/*/*.json")
    path.write_text("{broken")
    pytester.makepyfile(
        test_n="import pytest\nfrom pytest_opprof.backends import fake\n"
        "@pytest.mark.opprof\ndef test_b(): fake.launch('Add')\n"
    )
    result = suite("--opprof-update")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["baselines of 1 test: 1 new, *", "opprof: error: *test_m.py.json:1: *"])
    assert path.read_text() == "{broken"
    assert path.with_name("test_n.py.json").exists()


def test_a_run_that_the_user_ends_records_nothing_and_says_so(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, "Cast=10", setup="@pytest.mark.opprof\ndef test_z(): pytest.exit('enough', returncode=0)\n")
    result = suite("--opprof-update", "--opprof-json=run.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["opprof: error: interrupted: no baseline was written"])
    assert json.loads((pytester.path / "run.json").read_text())["interrupted"] is True
    assert not (pytester.path / "baselines").exists()
