"""Times: looked at again in fresh processes, recorded in several, judged under honest conditions only."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from pytest_opprof.machine.cpu_core import Core
from pytest_opprof.processes.this_run import CORE

from ..conftest import ELSEWHERE, HANG, end_at_once, thrice

Suite = Callable[..., pytest.RunResult]
MODEL = """
import os, pathlib, pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof(rounds=10{mark})
def test_a():
    fake.launch("MatMul", device_ns={again} if ELSEWHERE else {ns})
{more}""".replace("ELSEWHERE", ELSEWHERE)


def model(
    pytester: pytest.Pytester, us: int = 200, again_us: int | None = None, mark: str = "", more: str = ""
) -> None:
    """Write a test whose only op takes so long, and another time in a fresh process, if given."""
    again = us if again_us is None else again_us
    text = MODEL.format(ns=us * 1_000, again=again * 1_000, mark=mark and f", {mark}", more=more)
    pytester.makepyfile(test_m=text)


def recorded(pytester: pytest.Pytester, suite: Suite, us: int = 200, mark: str = "") -> None:
    """Record a baseline of so many us; what it was recorded in is judged as three processes."""
    model(pytester, us, mark=mark)
    suite("--opprof-update")
    thrice(pytester)


def kept(pytester: pytest.Pytester) -> dict[str, object]:
    """Return the times of the only baseline window, by machine."""
    (path,) = pytester.path.glob("baselines/*/test_m.py.times.json")
    return json.loads(path.read_text())["times"]["test_a"]["body"]  # type: ignore[no-any-return]


# --- looked at again


@pytest.mark.slow
@pytest.mark.processes
def test_what_is_slower_in_six_processes_fails(pytester: pytest.Pytester, suite: Suite) -> None:
    recorded(pytester, suite)
    model(pytester, 320)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  device time of MatMul: 200 us -> 320 us (+60%), limit 25%, in 6 processes",
            "  device time: 200 us -> 320 us (+60%), limit 13%, in 6 processes",
            "total device time: 200 us -> 320 us (+60%): +120 us from slower calls",
            "opprof: 1 test measured, 0 ok, 1 slower",
        ]
    )
    told = [f"opprof: test_m.py::test_a looks slower; measuring it in process {number}" for number in range(2, 7)]
    result.stdout.fnmatch_lines(told)


@pytest.mark.processes
def test_what_looked_slower_in_one_process_only_passes(pytester: pytest.Pytester, suite: Suite) -> None:
    recorded(pytester, suite)
    model(pytester, 900, again_us=210)
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok"])


IN_ONE_PROCESS = """
from pytest_opprof.backends import fake
RAN = []
@pytest.mark.opprof(rounds=10, warmup=2)
def test_a():
    RAN.append(1)
    fake.launch("MatMul", device_ns=200_000 if {fast} else 900_000)
{more}
def teardown_module():
    print("ran", len(RAN))
"""


@pytest.mark.parametrize(
    ("fast", "more", "ran"),
    [
        ("True", "", 12),
        ("len(RAN) > 12", "", 22),
        ("False", "    fake.launch('MatMul')\n", 12),  # more calls: it fails whatever its times are
        ("False", "    fake.launch('Exp')\n", 12),
    ],
)
def test_what_looks_slower_is_measured_in_another_moment_before_another_process(
    pytester: pytest.Pytester, suite: Suite, fast: str, more: str, ran: int
) -> None:
    """In none: the test is not marked as one that starts any."""
    pytester.makepyfile(test_m="import pytest" + IN_ONE_PROCESS.format(fast="True", more=""))
    suite("--opprof-update")
    thrice(pytester)
    pytester.makepyfile(test_m="import pytest" + IN_ONE_PROCESS.format(fast=fast, more=more))
    result = suite("--opprof", "-s")
    result.assert_outcomes(passed=not more, failed=bool(more))
    result.stdout.fnmatch_lines([f"*ran {ran}"])


CASE = """
import os, unittest, pytest
from pytest_opprof.backends import fake
RAN = []
class T(unittest.TestCase):
    def setUp(self):
        RAN.append(1)
    @pytest.mark.opprof(rounds=10, warmup=2)
    def test_a(self):
        fake.launch("MatMul", device_ns=200_000 if {fast} else 900_000)
        if len(RAN) == 20: {end}
"""
MORE_EACH_TIME = """
import os, pytest
from pytest_opprof.backends import fake
RAN = []
@pytest.mark.opprof(rounds=10, warmup=2)
def test_a():
    RAN.append(1)
    {body}
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["assert False", "self.skipTest('enough')", "raise KeyError", "pytest.xfail('enough')"])
@pytest.mark.processes
def test_what_happens_when_it_is_measured_once_more_is_not_what_comes_of_a_test(
    pytester: pytest.Pytester, suite: Suite, end: str
) -> None:
    pytester.makepyfile(test_m=CASE.format(fast="True", end="pass"))
    suite("--opprof-update")
    thrice(pytester)
    pytester.makepyfile(test_m=CASE.format(fast=f"len(RAN) > 12 or {ELSEWHERE}", end=end))
    suite("--opprof").assert_outcomes(passed=1)
    if end == "assert False":
        pytester.makepyfile(test_m=CASE.format(fast="False", end=end))
        result = suite("--opprof")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*in 6 processes*"])


@pytest.mark.slow
@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="pytest has subtests from 9.0 on")
@pytest.mark.processes
def test_subtests_are_not_run_once_more_in_this_process(pytester: pytest.Pytester, suite: Suite) -> None:
    """One that fails is reported at once, whatever becomes of the test."""
    text = """
import os, pytest
from pytest_opprof.backends import fake
RAN = []
@pytest.mark.opprof(rounds=10, warmup=2)
def test_a(subtests):
    RAN.append(1)
    fake.launch("MatMul", device_ns={})
    with subtests.test():
        assert len(RAN) <= 12
"""
    pytester.makepyfile(test_m=text.format("200_000"))
    suite("--opprof-update")
    thrice(pytester)
    pytester.makepyfile(test_m=text.format(f"200_000 if {ELSEWHERE} else 900_000"))
    result = suite("--opprof")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["opprof: *looks slower; measuring it in process 2", "opprof: 1 test measured, 1 ok"])


@pytest.mark.processes
def test_what_is_measured_once_more_changes_no_counts(pytester: pytest.Pytester, suite: Suite) -> None:
    """A body whose later calls do more is no other one because it looked slower."""
    body = "fake.launch('MatMul', device_ns={ns}); [fake.launch('Add', device_ns=10) for _ in range(len(RAN))]"
    text = MORE_EACH_TIME.format(body=body.format(ns=200_000))
    pytester.makepyfile(test_m=text)
    suite("--opprof-update")
    thrice(pytester)
    slower = body.format(ns=f"200_000 if {ELSEWHERE} else 900_000")
    pytester.makepyfile(test_m=MORE_EACH_TIME.format(body=slower))
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["opprof: *looks slower; measuring it in process 2", "opprof: 1 test measured, 1 ok"])


def test_what_was_slower_once_is_not_in_the_numbers(pytester: pytest.Pytester, suite: Suite) -> None:
    recorded(pytester, suite)
    pytester.makepyfile(test_m="import pytest" + IN_ONE_PROCESS.format(fast="len(RAN) > 12", more=""))
    suite("--opprof", "--opprof-json=run.json")
    (test,) = json.loads((pytester.path / "run.json").read_text())["tests"]
    (window,) = test["windows"]
    assert [run["total_ns"] for run in window["processes"]] == [[200_000] * 10]


@pytest.mark.parametrize("us", [200, 100])
def test_what_is_not_slower_is_not_looked_at_again(pytester: pytest.Pytester, suite: Suite, us: int) -> None:
    """In no process: the test is not marked as one that starts any."""
    recorded(pytester, suite)
    model(pytester, us)
    suite("--opprof").assert_outcomes(passed=1)


def test_what_makes_more_calls_is_not_looked_at_again_nor_called_slower(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    recorded(pytester, suite)
    model(pytester, 200, more="    fake.launch('MatMul', device_ns=200_000)\n")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  MatMul: 2 calls (baseline: 1)", "op times not judged: its calls changed"])
    result.stdout.no_fnmatch_line("*limit 25%*")
    result.stdout.fnmatch_lines(["opprof: 1 test measured, 0 ok, 1 with more calls, no times judged"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("in_the_fresh_process", "reason"),
    [
        ("os._exit(3)", "a fresh process ended early (*)"),
        ("os.kill(os.getpid(), 9)", "a fresh process ended early (*)"),
        ("pytest.skip('not here')", "a fresh process did not measure it (skipped: Skipped: not here)"),
        ("fake.launch('Exp')", "a fresh process ran other ops"),
    ],
)
@pytest.mark.processes
def test_what_cannot_be_measured_again_has_no_verdict_and_says_why(
    pytester: pytest.Pytester, suite: Suite, in_the_fresh_process: str, reason: str
) -> None:
    recorded(pytester, suite)
    model(pytester, 900, more=f"    if {ELSEWHERE}: {in_the_fresh_process}\n")
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [f"times not judged, looks slower, but could not be re-measured: {reason}; device time: *"]
    )
    assert suite("--opprof", "--opprof-noise=fail").ret == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["test_a", "-k", "test_a"], ["../sub", "-k", "test_a", "-c", "../alt.ini", "--rootdir=.."]]
)
@pytest.mark.processes
def test_a_fresh_process_gets_the_arguments_as_they_are(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    model(pytester, 200)
    folder = pytester.mkdir("sub")
    if arguments[0] == "test_a":
        folder = folder / "test_a"
        folder.mkdir()
    pytester.makefile(".ini", alt="[pytest]\n")
    module = (pytester.path / "test_m.py").rename(folder / "test_m.py")
    (folder / "test_broken.py").write_text("def test_b(): pass\n")
    monkeypatch.chdir(pytester.path / "sub")
    command = [*arguments, "-p", "no:hypothesispytest", "--opprof-backend=fake", "--opprof-noise=ignore"]
    assert pytester.runpytest_subprocess("--opprof-update", "--opprof-processes=1", *command).ret == 0
    thrice(pytester)
    module.write_text(MODEL.format(ns=900_000, again=210_000, mark="", more=""))
    (folder / "test_broken.py").write_text("raise ValueError('imported though it is not looked at')\n")
    result = pytester.runpytest_subprocess("--opprof", f"--ignore={folder / 'test_broken.py'}", *command)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok"])


@pytest.mark.processes
def test_a_fresh_process_that_hangs_is_ended(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(pytester, suite)
    model(pytester, 900, more=f"    if {ELSEWHERE}: {HANG}\n")
    end_at_once(monkeypatch)
    result = suite("--opprof")
    result.stdout.fnmatch_lines(["*could not be re-measured: a fresh process took more than 300 s; device time:*"])
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.readlink("pid")), 0)


@pytest.mark.slow
@pytest.mark.processes
def test_fresh_processes_leave_the_files_of_this_run_alone(pytester: pytest.Pytester, suite: Suite) -> None:
    recorded(pytester, suite)
    paths = list(pytester.path.glob("baselines/*/*.json"))
    before = [path.read_text() for path in paths]
    model(pytester, 320, again_us=210, more="def test_b(tmp_path): assert 1\n")
    flags = ("--junit-xml=junit.xml", f"--basetemp={pytester.path / 'tmp'}", "--opprof-json=run.json", "test_m.py")
    suite("--opprof-update-new", *flags).assert_outcomes(passed=2)
    assert 'tests="2"' in (pytester.path / "junit.xml").read_text()
    (test,) = json.loads((pytester.path / "run.json").read_text())["tests"]
    assert [run["total_ns"][0] for run in test["windows"][0]["processes"]] == [320_000, 210_000]
    assert [path.read_text() for path in paths] == before


# --- limits


@pytest.mark.usefixtures("once")
def test_the_tolerance_is_the_marks_else_the_flags_and_that_of_ops_is_no_narrower(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    recorded(pytester, suite)
    model(pytester, 320)
    suite("--opprof", "--opprof-tolerance=61%").assert_outcomes(passed=1)
    model(pytester, 320, mark="tolerance='61%'")
    suite("--opprof", "--opprof-tolerance=10%").assert_outcomes(passed=1)
    model(pytester, 120, mark="tolerance='10%'")
    suite("--opprof").stdout.fnmatch_lines(
        ["*test_a: device time of MatMul: 200 us -> 120 us (-40%), limit 25%", "*test_a: device time: *, limit 10%"]
    )


@pytest.mark.slow
@pytest.mark.usefixtures("once")
@pytest.mark.parametrize(
    ("mark", "flags", "limits"),
    [
        ("", ["--opprof-op-tolerance=40%"], ["13%"]),
        ("", ["-o", "opprof_op_tolerance=40%"], ["13%"]),
        ("op_tolerance='40%'", ["--opprof-op-tolerance=1%"], ["13%"]),
        ("op_tolerance={'MatMul': '40%'}", ["--opprof-op-tolerance=1%"], ["13%"]),
        ("op_tolerance={'Cast': '40%'}", ["--opprof-op-tolerance=20%"], ["20%", "13%"]),
        ("tolerance='60%', op_tolerance={'MatMul': '20%'}", [], ["20%"]),
        ("floor='60 us'", [], ["25%"]),
        ("", ["--opprof-floor=60 us"], ["25%"]),
        ("floor='1 us'", ["--opprof-floor=60 us"], ["25%", "13%"]),
    ],
)
def test_an_op_may_have_its_own_limit_and_a_window_a_floor(
    pytester: pytest.Pytester, suite: Suite, mark: str, flags: list[str], limits: list[str]
) -> None:
    recorded(pytester, suite)
    model(pytester, 255, mark=mark)  # 27.5 %, 55 us
    result = suite("--opprof", *flags)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"  device time*, limit {limit}" for limit in limits])
    result.stdout.no_fnmatch_line(f"*, limit {({'13%', '25%', '20%'} - {*limits}).pop()}")


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("op_tolerance='ten'", "opprof(op_tolerance=) is 'ten'; write a percentage such as '10%'"),
        ("op_tolerance={'Cast': 3}", "opprof(op_tolerance=) of 'Cast' is 3; write a percentage such as '10%'"),
        ("floor=5", "opprof(floor=) is 5; write a time with its unit (ns, us, ms, s), such as '5 us'"),
        ("floor='5'", "opprof(floor=) is '5'; write a time with its unit (ns, us, ms, s), such as '5 us'"),
        ("floor='5 MiB'", "opprof(floor=) is '5 MiB'; write a time with its unit (ns, us, ms, s), such as '5 us'"),
        ("threads=0", "opprof(threads=) is 0; write 'all' or an int of 1 or more"),
        ("threads=-1", "opprof(threads=) is -1; write 'all' or an int of 1 or more"),
        ("threads='many'", "opprof(threads=) is 'many'; write 'all' or an int of 1 or more"),
    ],
)
def test_a_limit_that_means_nothing_stops_the_run(
    pytester: pytest.Pytester, suite: Suite, mark: str, message: str
) -> None:
    model(pytester, mark=mark)
    result = suite("--opprof")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*test_m.py:3: test_a: {message}".replace("[", "[[]")])


# --- not compared


def test_times_of_fewer_than_ten_rounds_are_shown_and_not_judged(pytester: pytest.Pytester, suite: Suite) -> None:
    recorded(pytester, suite, mark="warmup=0")
    for path in pytester.path.glob("baselines/*/*.json"):
        path.unlink()
    nine = (pytester.path / "test_m.py").read_text().replace("rounds=10", "rounds=9")
    pytester.makepyfile(test_m=nine)
    suite("--opprof-update")
    thrice(pytester)
    pytester.makepyfile(test_m=nine.replace("200000", "900000"))
    result = suite("--opprof", "-vv", "--opprof-strict")  # nobody expects a verdict
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "MatMul *900 us",
            "op times not judged: 9 of 10 rounds measured",
            "opprof: 1 test measured, 1 ok, no times judged",
        ]
    )


def changed(pytester: pytest.Pytester, change: Callable[[dict[str, dict[str, object]]], object]) -> None:
    """Change the times of the only baseline window."""
    (path,) = pytester.path.glob("baselines/*/*.times.json")
    document = json.loads(path.read_text())
    change(document["times"]["test_a"]["body"])
    path.write_text(json.dumps(document))


def elsewhere(times: dict[str, dict[str, object]]) -> None:
    times["Another CPU, 64 cores"] = times.pop(*times)


def test_times_of_another_machine_are_not_judged_and_not_overwritten(pytester: pytest.Pytester, suite: Suite) -> None:
    recorded(pytester, suite)
    (here,) = kept(pytester)
    changed(pytester, elsewhere)
    model(pytester, 900)
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "times not judged, the baseline was timed on Another CPU, 64 cores, this is *: test_m.py::test_a",
            "opprof: 1 test measured, 0 ok, 1 with times not compared, no times judged",
        ]
    )
    suite("--opprof-update")
    assert set(kept(pytester)) == {"Another CPU, 64 cores", here}


NOT_COMPARED = [
    (elsewhere, "the baseline was timed on Another CPU, 64 cores, this is *"),
    (lambda times: times.clear(), "the baseline has no times (pytest --opprof-update records them)"),
    (
        lambda times: [each.update(calls_digest="0") for each in times.values()],
        "the baseline's times belong to other calls (pytest --opprof-update records them again)",
    ),
    (lambda times: [each.update(threads=4) for each in times.values()], "threads differ: 4 before, 1 now"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "why"), NOT_COMPARED)
def test_what_is_not_compared_passes_with_a_warning_and_fails_a_strict_run(
    pytester: pytest.Pytester, suite: Suite, change: Callable[[dict[str, dict[str, object]]], object], why: str
) -> None:
    recorded(pytester, suite)
    changed(pytester, change)
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"times not judged, {why}: test_m.py::test_a"])
    strict = suite("--opprof", "--opprof-strict")
    strict.assert_outcomes(failed=1)
    advice = "--opprof-strict requires a verdict; pytest test_m.py::test_a --opprof-update records them here"
    strict.stdout.fnmatch_lines([f"times of test_m.py::test_a not judged, {why}: {advice}"])
    suite("--opprof-update", "--opprof-strict").assert_outcomes(passed=1)
    thrice(pytester)
    suite("--opprof", "--opprof-strict").assert_outcomes(passed=1)


def test_times_of_too_few_processes_are_not_compared(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester)
    suite("--opprof-update")
    suite("--opprof").stdout.fnmatch_lines(
        ["times not judged, the baseline has the times of 1 of 3 processes: test_m.py::test_a"]
    )


# --- noise


def test_times_that_were_recorded_in_noise_are_not_judged_and_recorded_again(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    recorded(pytester, suite)
    changed(pytester, lambda times: [each.update(wait_us=[[90] * 10] * 3) for each in times.values()])
    model(pytester, 900)
    why = "the baseline was recorded while the machine was busy: record it again"
    suite("--opprof", "--opprof-noise=warn").stdout.fnmatch_lines(
        [f"times not judged, {why}; device *: test_m.py::test_a"]
    )
    again = suite("--opprof-update", "--opprof-noise=warn")
    again.stdout.fnmatch_lines(["baselines of 1 test: 0 new, 1 changed, 0 unchanged"])
    thrice(pytester)
    suite("--opprof", "--opprof-noise=warn").stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok"])


class Asked(Core):
    """A core that is its own, and counts how often a round asks for it."""

    asked = 0

    def yardstick_ns(self) -> int:
        self.asked += 1
        return 90

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Be the core of the run, if that looks for one."""
        if CORE in config.stash:
            config.stash[CORE] = self


@pytest.mark.parametrize(("noise", "asked"), [("warn", 10), ("ignore", 0)])
def test_only_rounds_that_are_judged_wait_for_a_core_to_themselves(
    pytester: pytest.Pytester, suite: Suite, noise: str, asked: int
) -> None:
    more = "@pytest.mark.opprof(rounds=9)\ndef test_b():\n    fake.launch('MatMul', device_ns=1)\n"
    model(pytester, more=more)
    core = Asked()
    suite("--opprof", f"--opprof-noise={noise}", plugins=[core]).assert_outcomes(passed=2)
    assert core.asked == asked


def test_rounds_after_those_that_are_judged_wait_for_nothing(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        """
        from pytest_opprof.backends import fake
        def test_a(opprof, pytestconfig):
            (core,) = (each for each in pytestconfig.pluginmanager.get_plugins() if hasattr(each, "asked"))
            asked = []
            for rounds in (9, 10, 9):
                before = core.asked
                for _ in opprof.rounds(rounds):
                    fake.launch("MatMul", device_ns=1)
                asked.append(core.asked - before)
            assert asked == [0, 10, 0]
        """
    )
    suite("--opprof", "--opprof-noise=warn", plugins=[Asked()]).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("test", "flag", "kept"),
    [
        ("@pytest.mark.opprof(rounds=10)\ndef test_a(): pass", "--opprof-noise=warn", True),
        ("def test_a(opprof): pass", "--opprof-noise=warn", True),
        ("@pytest.mark.opprof\ndef test_a(): pass", "--opprof-noise=warn", True),
        ("def test_a(): pass", "--opprof-noise=warn", False),
        ("@pytest.mark.opprof(rounds=10)\ndef test_a(): pass", "--opprof-noise=ignore", True),
    ],
)
def test_memory_is_kept_where_times_can_be_judged(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, test: str, flag: str, kept: bool
) -> None:
    calls: list[bool] = []
    monkeypatch.setattr("pytest_opprof.pytest_plugin.measuring.keep_memory", lambda: calls.append(True))
    pytester.makepyfile(f"import pytest\n{test}\n")
    suite("--opprof", flag)
    assert calls == [True] * kept


THROTTLED = "GPU 0 was throttled: HW slowdown"


@pytest.mark.usefixtures("once")
def test_times_of_a_throttled_gpu_are_never_called_slower_and_counts_are_judged_all_the_same(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    recorded(pytester, suite)
    model(pytester, 400, more=f"    getattr(fake._BACKEND.log, 'disturbed', []).append({THROTTLED!r})\n")
    warned = suite("--opprof", "--opprof-noise=warn", "--opprof-json=run.json")
    warned.assert_outcomes(passed=1)
    why = f"{THROTTLED}; no process of 1 had 5 clean rounds"
    warned.stdout.fnmatch_lines(
        [
            f"times not judged, {why}; device time: 200 us -> 400 us (+100%): test_m.py::test_a",
            "for a verdict in spite of noise, let two versions take turns: pytest --opprof-against=REV",
            "opprof: 1 test measured, 0 ok, 1 too noisy to judge, no times judged",
        ]
    )
    (test,) = json.loads((pytester.path / "run.json").read_text())["tests"]
    assert test["windows"][0]["processes"][0]["disturbed"] == [THROTTLED]
    failed = suite("--opprof", "--opprof-noise=fail")
    failed.assert_outcomes(failed=1)
    advice = "measure when it is quiet, or let it pass with --opprof-noise=warn"
    failed.stdout.fnmatch_lines([f"times of test_m.py::test_a not judged, {why}; device time: *: {advice}"])
    assert suite("--opprof", "-o", "opprof_noise=fail").ret == 1
    suite("--opprof", "-q", "--opprof-noise=warn").stdout.fnmatch_lines([f"times not judged, {why}*"])
    suite("--opprof", "--opprof-noise=warn", "--opprof-strict").assert_outcomes(passed=1)  # it was compared
    suite("--opprof", "--opprof-noise=ignore").stdout.fnmatch_lines(["opprof: 1 test measured, 0 ok, 1 slower"])
    more = f"    fake.launch('Cast')\n    getattr(fake._BACKEND.log, 'disturbed', []).append({THROTTLED!r})\n"
    model(pytester, 400, more=more)
    counted = suite("--opprof", "--opprof-noise=warn")
    counted.stdout.fnmatch_lines(["opprof: 1 test measured, 0 ok, 1 with more calls*"])


# --- what a baseline cannot hold


def test_a_tolerance_that_no_stored_baseline_can_hold_is_told(pytester: pytest.Pytester, suite: Suite) -> None:
    recorded(pytester, suite)
    told = (
        "the tolerance is below 10%, too small for a stored baseline: unchanged tests will be called slower, too."
        " --opprof-against=REV detects smaller slowdowns: test_m.py::test_a"
    )
    suite("--opprof", "--opprof-tolerance=9.9%").stdout.fnmatch_lines([told])
    suite("--opprof", "--opprof-tolerance=10%").stdout.no_fnmatch_line("the tolerance is*")


TWO = """
import os, pytest
from pytest_opprof.backends import fake
fake.pretend(device="cpu")  # what ran on another device is not kept waiting: it holds memory there
@pytest.mark.opprof(rounds=10)
@pytest.mark.parametrize("n", [1, 2])
def test_a(n):
    fake.launch("MatMul", device_ns={ns})
    with open("pids", "a") as file:
        file.write(f"{{os.getpid()}} ")
"""


@pytest.mark.slow
@pytest.mark.processes
def test_processes_stay_for_the_next_test_that_looks_slower(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=TWO.format(ns=200_000))
    suite("--opprof-update")
    thrice(pytester)
    (pytester.path / "pids").unlink()
    pytester.makepyfile(test_m=TWO.format(ns=320_000))
    suite("--opprof").assert_outcomes(failed=2)
    pids = {*map(int, (pytester.path / "pids").read_text().split())}
    assert len(pids) == 6
    for pid in pids - {os.getpid()}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
