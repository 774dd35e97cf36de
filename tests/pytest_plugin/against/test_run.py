"""``--opprof-against``: two versions of the code that take turns. The fake device's times are exact: no noise here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_opprof.measure.memory.host_memory import LOOKER
from pytest_opprof.processes import child
from pytest_opprof.pytest_plugin.against import run as against

AGAINST = (
    "-p",
    "pytest_opprof.plugin",
    "--opprof",
    "--opprof-backend=fake",
    "--opprof-noise=ignore",
    "--opprof-against=HEAD",
)
TEST = """\
import pytest
from model import step

@pytest.mark.opprof
def test_a(): step()

def test_idle(): pass
"""
TIMED = TEST.replace("opprof", "opprof(rounds=10, warmup=0)", 1)
"""Its times are judged: five pairs of processes, or nine."""


def model(pytester: pytest.Pytester, *launches: str) -> None:
    body = "\n    ".join(launches)
    folder = pytester.mkpydir("model") if not (pytester.path / "model").exists() else pytester.path / "model"
    (folder / "__init__.py").write_text(
        f"from pytest_opprof.backends import fake\ndef step():\n    {body}\n", encoding="utf-8"
    )


def git(pytester: pytest.Pytester, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=pytester.path, check=True, capture_output=True, text=True).stdout


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other plugins: they take half of the time that a side needs to start."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def repository(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> pytest.Pytester:
    """A repository with one test of one committed model."""
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
    pytester.makepyfile(test_m=TEST)
    model(pytester, "fake.launch('MatMul', device_ns=100_000)")
    (pytester.path / ".gitignore").write_text("__pycache__\n")
    git(pytester, "init", "-q")
    git(pytester, "add", "-A")
    git(pytester, "commit", "-qm", "one")
    return pytester


def judging_times(repository: pytest.Pytester) -> None:
    repository.makepyfile(test_m=TIMED)
    git(repository, "commit", "-qam", "times")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *AGAINST, *arguments)


def leftovers(pytester: pytest.Pytester) -> list[str]:
    worktrees = git(pytester, "worktree", "list").splitlines()[1:]
    return worktrees + [path.name for path in Path(os.environ["TMPDIR"]).glob("opprof-*")]


@pytest.mark.slow
@pytest.mark.processes
def test_the_same_code_is_ok_after_five_pairs(repository: pytest.Pytester) -> None:
    judging_times(repository)
    result = run(repository)
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "opprof: backend fake, timing async, 1 thread where times are judged, against HEAD (*)",
            "opprof: compared with * (HEAD; 20*, 'times')",
            "opprof: 1 test, 1 process a side; 1 test may judge times: 5 pairs, 9 where they differ",
            "opprof: pair 1 of 5, 1 test",
            "opprof: pair 5 of 5, 1 test, about * s",
            "opprof: 1 test measured, 1 ok",
        ]
    )
    result.stdout.no_fnmatch_line("*pair 6*")
    assert leftovers(repository) == []


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_sides_run_tests_in_their_order(repository: pytest.Pytester, workers: tuple[str, ...]) -> None:
    """Twelve unchanged tests failed, which pass before those of a longer file."""
    state = "seen = []\n"
    early = "import state\ndef test_early(): assert not state.seen\n"
    late = "import pytest, state\n@pytest.mark.parametrize('i', range(9))\ndef test_late(i): state.seen.append(i)\n"
    repository.makepyfile(state=state, test_b=early, test_c=early, test_l=late)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "two")
    plugins = ("-p", "xdist") if workers else ()
    result = run(repository, *plugins, *workers, "--opprof-all", "test_b.py", "test_c.py", "test_l.py")
    result.assert_outcomes(passed=11)


@pytest.mark.slow
@pytest.mark.processes
def test_the_files_of_pytest_cov_stay_as_they_are_because_no_test_runs_here(repository: pytest.Pytester) -> None:
    report = repository.path / "coverage.xml"
    report.write_text("of the last run")
    result = repository.runpytest_subprocess(
        "-p",
        "no:cacheprovider",
        "-p",
        "pytest_cov",
        *AGAINST,
        *"--cov=model --cov-report=xml --cov-report=term --cov-fail-under=90".split(),
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(["opprof: pytest-cov is off: the processes that measure run without it"])
    result.stdout.no_fnmatch_line("*TOTAL*")
    assert report.read_text() == "of the last run"


@pytest.mark.slow
@pytest.mark.processes
def test_what_is_slower_than_the_revision_fails_with_the_op_named(repository: pytest.Pytester) -> None:
    judging_times(repository)
    model(repository, "fake.launch('MatMul', device_ns=100_000)", "fake.launch('Add', device_ns=30_000)")
    git(repository, "commit", "-qam", "two")
    model(repository, "fake.launch('MatMul', device_ns=100_000)", "fake.launch('Add', device_ns=50_000)")
    result = run(repository)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "op regression: test_m.py::test_a  [[]fake 1, fake, async[]]",
            "  device time of Add: 30 us -> 50 us (+66.7%), limit 15%, in 9 pairs of processes",
            "  device time: 130 us -> 150 us (+15.4%), limit 6%, in 9 pairs of processes",
            "opprof: 1 test measured, 0 ok, 1 slower",
        ]
    )
    result.stdout.no_fnmatch_line("*--opprof-update*")
    assert leftovers(repository) == []


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("untraced")
def test_an_unmarked_test_of_many_without_ops_fails_for_its_time(
    repository: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(against, "FEW_TESTS", 1)
    repository.makepyfile(test_m="from model import step\ndef test_a(): step()\ndef test_b(): pass\n")
    model(repository, "sum(range(10))")
    git(repository, "commit", "-qam", "no op")
    (repository.path / "model" / "__init__.py").write_text(
        # The list makes each call long enough: without it a fast machine takes 14.8 ms, and 15 ms more are slower.
        "def kind(n):\n    [0] * 500\n    return 1 if n < 2 else max(kind(n - 1), kind(n - 2))\ndef step(): kind(26)\n"
    )
    result = run(repository)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines(
        [
            r"  CPU time: \S+ m?s \(HEAD: .*\), x[\d,]+; no op ran in it",
            r"    .*calls `model.kind` once \(392,835 in all, HEAD: 0\).*",
            r"opprof: 2 tests measured, 1 ok, 1 slower, 1 by time alone, times judged coarsely",
        ]
    )
    result.stdout.no_fnmatch_line("*not compared*")


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("untraced")
def test_a_test_without_rounds_that_is_a_little_slower_is_judged_in_rounds(repository: pytest.Pytester) -> None:
    # Half a millisecond that becomes x2.75, by one call of C: far below the limits of coarse times.
    model(repository, "sum(range(40_000))")
    git(repository, "commit", "-qam", "short")
    model(repository, "sum(range(110_000))")
    result = run(repository, "--opprof-noise=ignore", "--opprof-backend=numpy")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "opprof: 1 test seems slower than in HEAD; pair 1 of 5, in rounds",
            "opprof: 1 test seems slower than in HEAD; pair 5 of 5, in rounds",
            "opprof: one more pair, 1 test, to look up source lines",
            "  time: * us -> * ms, +*%*, limit 8%, in 5 pairs of processes",
            "    *% of the time is at model/__init__.py:3 in step `*",
            "opprof: 1 test measured, 0 ok, 1 slower*",
        ]
    )
    assert leftovers(repository) == []


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("untraced")
def test_a_test_that_cannot_run_in_rounds_is_not_judged_in_rounds(repository: pytest.Pytester) -> None:
    repository.makepyfile(
        test_m="import os, pytest\nfrom model import step\n@pytest.mark.opprof\ndef test_a():\n"
        "    os.environ.get('ran') and os._exit(3)\n    os.environ['ran'] = 'yes'\n    step()\n"
    )
    model(repository, "sum(range(40_000))")
    git(repository, "commit", "-qam", "short")
    model(repository, "sum(range(110_000))")
    result = run(repository, "--no-opprof-python", "--no-opprof-leaks", "--no-opprof-memory", "--opprof-noise=ignore")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["opprof: slower at first, and not judged in rounds: test_m.py::test_a: *"])


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    ("kept", "peak"),
    [("[str(n) for n in range({})]", "peak memory of the host"), ("np.ones({})", "peak memory")],
)
def test_more_memory_fails_with_the_line_that_holds_it(repository: pytest.Pytester, kept: str, peak: str) -> None:
    source = (
        "import threading, pytest, model\n@pytest.mark.opprof\ndef test_a():\n    kept = model.step()\n"
        f"    [each.join(10) for each in threading.enumerate() if each.name == {LOOKER!r}]\n"
    )
    repository.makepyfile(test_m=source)
    step = repository.path / "model" / "__init__.py"
    step.write_text(f"import numpy as np\ndef step():\n    return {kept.format(100)}\n")
    git(repository, "commit", "-qam", "little")
    step.write_text(f"import numpy as np\ndef step():\n    return {kept.format(200_000)}\n")
    result = run(repository, "--opprof-backend=numpy", "--no-opprof-python")
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([rf"  {peak}: .* MiB \(HEAD: .*\)", r"    .* MiB at model/__init__\.py:3"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_first_run_that_takes_longer_and_more_memory_has_its_lines(repository: pytest.Pytester) -> None:
    code = repository.path / "model" / "__init__.py"
    source = (
        "from functools import cache\n@cache\ndef first():\n    total = 0\n    for number in range({0}):\n"
        "        total += number\n    return total\ndef step(): return first(), list(range({0} // 5))\n"
    )
    code.write_text(source.format(500))
    git(repository, "commit", "-qam", "little")
    code.write_text(source.format(2_000_000))
    result = run(repository, "--no-opprof-python")
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"  CPU time: .* \(HEAD: .*; no op ran in it",
            r"    \d+% of the time is at model/__init__.py:[56] in first .*",
            r"  peak memory of the host: .* MiB \(HEAD: .*\)",
        ]
    )


@pytest.mark.processes
def test_more_calls_fail_after_the_pair_that_finds_their_lines(repository: pytest.Pytester) -> None:
    model(repository, *["fake.launch('MatMul', device_ns=100_000)"] * 2)
    result = run(repository, "--junit-xml=junit.xml")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["  MatMul: 2 calls (HEAD: 1)", "FAILED test_m.py::test_a - MatMul 1 -> 2"])
    result.stdout.fnmatch_lines(["opprof: one more pair, 1 test, to confirm and to look up source lines"])
    result.stdout.no_fnmatch_line("*pair 2*")
    junit = (repository.path / "junit.xml").read_text()
    assert 'message="MatMul 1 -&gt; 2"' in junit
    assert "MatMul: 2 calls (HEAD: 1)" in junit


@pytest.mark.slow
@pytest.mark.processes
def test_paths_in_the_repository_become_those_of_the_revision_and_others_stay(repository: pytest.Pytester) -> None:
    beside = repository.path.with_name(f"{repository.path.name}-config")
    beside.mkdir()
    (beside / "pytest.ini").write_text("[pytest]\n")
    model(repository, *["fake.launch('MatMul', device_ns=100_000)"] * 2)
    result = run(repository, f"-c{beside}/pytest.ini", f"--rootdir={repository.path}", str(repository.path))
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["  MatMul: 2 calls (HEAD: 1)"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_budget_is_enforced_on_the_working_tree(repository: pytest.Pytester) -> None:
    model(repository, *["fake.launch('MatMul', device_ns=100_000)"] * 2)
    mark = "@pytest.mark.op_budget(MatMul=0)\ndef test_a"
    (repository.path / "test_m.py").write_text(TEST.replace("def test_a", mark))
    result = run(repository)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "op budget exceeded: test_m.py::test_a *",
            "  MatMul: 2 calls (budget: 0, HEAD: 1)*",
            "to accept this change: raise the limit in its op_budget mark, then add the Opprof-Accept line *",
            "opprof: 1 test measured*1 over budget*",
        ]
    )


@pytest.mark.slow
@pytest.mark.processes
def test_tests_of_one_side_only_are_named(repository: pytest.Pytester) -> None:
    (repository.path / "test_m.py").write_text(TEST.replace("test_a", "test_b"))
    result = run(repository)
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "opprof: only HEAD has test_m.py::test_a",
            "nothing to compare with: HEAD does not have the test: test_m.py::test_b",
            "opprof: 1 test measured, 0 ok, 1 not compared with HEAD (*)",
        ]
    )
    run(repository, "--opprof-strict").assert_outcomes(failed=1, deselected=1)


@pytest.mark.slow
@pytest.mark.processes
def test_a_test_that_fails_at_the_revision_has_nothing_to_compare_with(repository: pytest.Pytester) -> None:
    model(repository, "raise ValueError")
    git(repository, "commit", "-qam", "broken")
    model(repository, "fake.launch('MatMul')")
    result = run(repository)
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["nothing to compare with: HEAD fails it (ValueError): test_m.py::test_a"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_test_that_fails_in_the_working_tree_fails_as_ever(repository: pytest.Pytester) -> None:
    model(repository, "raise ValueError('mine')")
    result = run(repository)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*ValueError: mine", "opprof: nothing was measured*"])


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("import os; os._exit(3)", "*ERROR: the working tree ended early (*)"),
        ("import sys; sys.exit('garbage')", "*ERROR: the working tree ended early (*garbage*)"),
    ],
)
@pytest.mark.processes
def test_a_side_that_dies_ends_the_run_with_a_message(repository: pytest.Pytester, broken: str, said: str) -> None:
    dies = f"import os\nif 'OPPROF_PARENT' in os.environ:\n    {broken}\n"
    (repository.path / "conftest.py").write_text(dies)
    result = run(repository)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    assert leftovers(repository) == []


@pytest.mark.slow
@pytest.mark.processes
def test_a_side_that_dies_in_a_round_ends_the_run_with_a_message(repository: pytest.Pytester) -> None:
    model(repository, "import os; os._exit(3)")
    result = run(repository)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: the working tree ended early (*), in test_m.py::test_a"])
    assert leftovers(repository) == []


@pytest.mark.slow
@pytest.mark.processes
def test_a_side_that_hangs_ends_the_run_with_a_message(
    repository: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(repository, "import time", "while True: time.sleep(1)")
    monkeypatch.setattr(child, "PATIENCE_S", 15)
    result = run(repository)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: the working tree took more than 15 s, in test_m.py::test_a"])
    assert leftovers(repository) == []


@pytest.mark.slow
@pytest.mark.processes
def test_files_that_the_revision_lacks_are_left_out_there(repository: pytest.Pytester) -> None:
    (repository.path / "test_new.py").write_text(TEST)
    none = run(repository, "test_new.py::test_a")
    none.assert_outcomes(passed=1)
    none.stdout.fnmatch_lines(["nothing to compare with: HEAD does not have the test: test_new.py::test_a"])
    none.stdout.no_fnmatch_line("*only HEAD has*")
    model(repository, *["fake.launch('MatMul', device_ns=100_000)"] * 2)
    both = run(repository, "test_m.py", "test_new.py")
    both.assert_outcomes(passed=1, failed=1, deselected=2)
    both.stdout.fnmatch_lines(["nothing to compare with: HEAD does not have the test: test_new.py::test_a"])


@pytest.mark.processes
def test_a_test_that_the_revision_lacks_has_nothing_to_compare_with(repository: pytest.Pytester) -> None:
    (repository.path / "test_m.py").write_text(TEST.replace("test_a", "test_b"))
    result = run(repository, "test_m.py::test_b")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["nothing to compare with: HEAD does not have the test: test_m.py::test_b"])
    result.stdout.no_fnmatch_line("*only HEAD has*")


@pytest.mark.slow
@pytest.mark.processes
def test_a_file_that_the_revision_cannot_import_has_nothing_to_compare_with(repository: pytest.Pytester) -> None:
    (repository.path / "test_fine.py").write_text(TEST)
    (repository.path / "test_m.py").write_text("import nosuchmodule\n" + TEST)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "broken")
    (repository.path / "test_m.py").write_text(TEST)
    model(repository, *["fake.launch('MatMul', device_ns=100_000)"] * 2)
    result = run(repository)
    result.assert_outcomes(passed=1, failed=1, deselected=2)
    result.stdout.fnmatch_lines(
        [
            "nothing to compare with: HEAD cannot import test_m.py (ModuleNotFoundError: *'nosuchmodule'): test_m.py*",
            "opprof: 2 tests measured, 0 ok, 1 with more calls, 1 not compared with *",
        ]
    )


@pytest.mark.slow
@pytest.mark.processes
def test_where_the_revision_imports_no_test_file_nothing_was_compared(repository: pytest.Pytester) -> None:
    # As with a file that a package generates when it is installed, and git ignores.
    (repository.path / ".gitignore").write_text("version.py\n")
    (repository.path / "version.py").write_text("")
    (repository.path / "test_m.py").write_text("import version\n" + TEST)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "generated")
    result = run(repository)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*nothing was compared, since HEAD can import none of the test files; the first is test_m.py"
            " (ModuleNotFoundError: No module named 'version')*--opprof-against-install='pip install --no-deps .'"
        ]
    )


RANDOM = """\
import random, pytest
from pytest_opprof.backends import fake
@pytest.mark.parametrize("number", range(5))
def test_random(number):
    for _ in range(random.randrange(1, 1000)): fake.launch("MatMul")
@pytest.mark.skip(reason="not today")
def test_skipped(): pass
def test_skips(): pytest.skip("not now")
"""
# A plugin, as pytest-randomly is: a seed for each process that gets none.
SEEDING = """\
import random, pytest
def pytest_addoption(parser):
    parser.addoption("--randomly-seed", default="default")
def pytest_configure(config):
    if config.option.randomly_seed == "default":
        config.option.randomly_seed = random.Random().getrandbits(32)
@pytest.fixture(autouse=True)
def seeded(request):
    random.seed(int(request.config.option.randomly_seed))
"""


@pytest.mark.slow
@pytest.mark.processes
def test_both_sides_have_the_seed_of_pytest_randomly_and_skips_are_told(repository: pytest.Pytester) -> None:
    (repository.path / "seeding.py").write_text(SEEDING)
    (repository.path / "test_m.py").write_text(RANDOM)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "random sizes")
    repository.syspathinsert()
    # The results of the first run are those of the base, and those of another seed are not.
    for arguments in (("-p", "cacheprovider"), ("-p", "cacheprovider"), ("--randomly-seed=7",)):
        result = run(repository, "--opprof-all", "-v", "-p", "seeding", *arguments)
        result.assert_outcomes(passed=5, skipped=2)
        result.stdout.fnmatch_lines(["opprof: 5 tests measured, 5 ok, *"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_revision_to_compare_with_is_reason_enough_to_measure(repository: pytest.Pytester) -> None:
    model(repository, *["fake.launch('MatMul', device_ns=100_000)"] * 2)
    options = [option for option in AGAINST if option != "--opprof"]
    result = repository.runpytest_inprocess("-p", "no:cacheprovider", *options)
    result.stdout.fnmatch_lines(["opprof: 1 test measured, 0 ok, 1 with more calls*"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_package_that_both_sides_import_from_one_place_is_an_error(
    repository: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    conftest = f"import sys\nsys.path.insert(0, {str(repository.path)!r})\nimport model\n"
    (repository.path / "conftest.py").write_text(conftest)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "conftest")
    result = run(repository)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: ?????????? did not test its own files: it imported model from *--opprof-against-python=EXE"]
    )


@pytest.mark.slow
@pytest.mark.processes
def test_another_python_for_the_revision(repository: pytest.Pytester) -> None:
    model(repository, *["fake.launch('MatMul', device_ns=100_000)"] * 2)
    result = run(repository, f"--opprof-against-python={os.path.relpath(sys.executable, repository.path)}")
    result.assert_outcomes(failed=1, deselected=1)
    result = run(repository, "--opprof-against-python=/no/such/python")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --opprof-against-python: /no/such/python cannot be started: No such file or directory"]
    )


@pytest.mark.processes
def test_a_python_without_opprof_says_what_to_install(repository: pytest.Pytester) -> None:
    other = repository.path / "python"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    other.chmod(0o755)
    result = run(repository, f"--opprof-against-python={other}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            f"ERROR: --opprof-against-python: {other} cannot run the tests (ModuleNotFoundError: No module named"
            f" 'pytest'); install pytest and pytest-opprof there, beside what the tests need: {other} -m pip install *"
        ]
    )


@pytest.mark.slow
@pytest.mark.processes
def test_two_versions_of_a_framework_are_compared_and_named(repository: pytest.Pytester) -> None:
    """As of an interpreter of another environment: conftest.py stands for what is installed there."""
    (repository.path / "conftest.py").write_text("from pytest_opprof.backends import fake\nfake.pretend(version='0')\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "older")
    (repository.path / "conftest.py").write_text("")
    model(repository, *["fake.launch('MatMul', device_ns=100_000)"] * 2)
    result = run(repository)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "  MatMul: 2 calls (HEAD: 1)",
            "  (the environments differ: fake 0, fake, async (*) in HEAD, fake 1, fake, async (*) here: ops *)",
            "test_m.py::test_a: the environments differ: *",
        ]
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--opprof-against=nope"], "ERROR: --opprof-against: 'nope' is not a revision of *"),
        (["--opprof-against=--help"], "ERROR: --opprof-against: '--help' is not a revision of *"),
        (["--opprof-update"], "ERROR: --opprof-against and --opprof-update do not go together: leave one out"),
        (["--opprof-against-tests=mine"], "ERROR: --opprof-against-tests is 'mine'; write 'there' *"),
        (["--opprof-processes=3"], "ERROR: --opprof-against and --opprof-processes do not go together*"),
    ],
)
@pytest.mark.processes
def test_what_cannot_be_compared_is_a_usage_error(repository: pytest.Pytester, arguments: list[str], said: str) -> None:
    result = run(repository, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


@pytest.mark.processes
def test_outside_of_a_repository_is_a_usage_error(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(pytester.path.parent))
    pytester.makepyfile(test_m=TEST)
    model(pytester, "fake.launch('MatMul')")
    result = run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --opprof-against: git rev-parse in * failed: not a git repository*"])


@pytest.mark.processes
def test_a_bare_repository_is_a_usage_error(repository: pytest.Pytester) -> None:
    git(repository, "config", "core.bare", "true")
    result = run(repository)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --opprof-against: git rev-parse in * failed: this operation must be*"])


@pytest.mark.processes
def test_a_full_disk_is_a_usage_error(repository: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("git")
    shim = repository.mkdir("bin") / "git"
    full = "echo 'fatal: could not create work tree dir: No space left on device' >&2; exit 128"
    shim.write_text(f'#!/bin/sh\nif [ "$1$2" = worktreeadd ]; then {full}; fi\nexec {real} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    result = run(repository)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --opprof-against: git worktree in * failed: *No space left on device"])
    assert leftovers(repository) == []


@pytest.mark.processes
def test_without_git_it_says_so(repository: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository.mkdir("empty")))
    result = run(repository)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --opprof-against needs git, which is not installed"])


@pytest.mark.processes
def test_collecting_only_starts_nothing(repository: pytest.Pytester) -> None:
    result = run(repository, "--co", "-q")
    result.stdout.fnmatch_lines(["test_m.py::test_a"])
    result.stdout.no_fnmatch_line("*pair*")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups")
@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n2")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.processes
def test_ctrl_c_and_sigterm_leave_no_process_and_no_worktree(
    repository: pytest.Pytester, number: int, workers: tuple[str, ...]
) -> None:
    marker = Path(os.environ["TMPDIR"], "running")
    if workers:
        for name in ("test_m.py", "test_n.py"):
            (repository.path / name).write_text("from model import step\ndef test_a(): step()\n", encoding="utf-8")
        git(repository, "add", "-A")
    model(
        repository,
        f"open({str(marker)!r}, 'a').write(f'{{__import__(\"os\").getpid()}} ')",
        "import time",
        "time.sleep(60)",
    )
    git(repository, "commit", "-qam", "slow")
    # Of a pair the side that waits for its turn does not run.
    end_by(repository, number, marker, 2 if workers else 1, *workers)


def end_by(repository: pytest.Pytester, number: int, marker: Path, processes: int, *arguments: str) -> None:
    """End a run by the signal *number* once so many *processes* have written their number into the *marker*."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *AGAINST, *arguments], cwd=repository.path, stdout=subprocess.PIPE, text=True
    )
    while not marker.exists() or len(marker.read_text().split()) < processes:
        assert process.poll() is None, process.communicate()[0]
    process.send_signal(number)
    process.send_signal(number)  # as of an impatient user; `timeout` of coreutils does so, too
    output = process.communicate(timeout=60)[0]
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "opprof: interrupted before a test was judged" in output
    assert leftovers(repository) == []
    for pid in marker.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups")
@pytest.mark.parametrize(("workers", "processes"), [((), 2), (("-p", "xdist", "-n2"), 4)])
@pytest.mark.processes
def test_ctrl_c_while_the_processes_start_leaves_none(
    repository: pytest.Pytester, workers: tuple[str, ...], processes: int
) -> None:
    marker = Path(os.environ["TMPDIR"], "starting")
    (repository.path / "conftest.py").write_text(
        f"import os, time\nopen({str(marker)!r}, 'a').write(f'{{os.getpid()}} ')\ntime.sleep(60)\n", encoding="utf-8"
    )
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "slow")
    end_by(repository, signal.SIGINT, marker, processes, *workers)


@pytest.mark.processes
def test_stepwise_ends_the_run_at_the_first_test_that_fails_and_no_side(repository: pytest.Pytester) -> None:
    repository.makepyfile(
        test_m=TEST.replace("step()", "step(); assert 0") + "\n@pytest.mark.opprof\ndef test_b(): step()\n"
    )
    git(repository, "commit", "-qam", "fails")
    result = repository.runpytest_inprocess(*AGAINST, "--stepwise")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*assert 0", "*Interrupted: Test failed, continuing from this test next run*"])


@pytest.mark.processes
def test_no_more_pairs_run_at_once_than_files_are_named(repository: pytest.Pytester) -> None:
    started = Path(os.environ["TMPDIR"], "started")
    repository.makeconftest(f"open({str(started)!r}, 'a').write('.')")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "counts its processes")
    result = repository.runpytest_subprocess(*AGAINST, "-p", "xdist", "-n", "3", "test_m.py::test_a")
    result.assert_outcomes(passed=1)
    assert started.read_text() == ".."


@pytest.mark.slow
@pytest.mark.processes
def test_what_a_killed_run_left_is_removed_by_the_next(repository: pytest.Pytester) -> None:
    left = Path(os.environ["TMPDIR"], "opprof-tree-abc")
    left.mkdir(mode=0o700)
    (left / "lock").touch()  # which no process holds
    git(repository, "worktree", "add", "-q", "--detach", str(left / "files" / "tree"))
    model(repository, *["fake.launch('MatMul', device_ns=100_000)"] * 2)
    run(repository).assert_outcomes(failed=1, deselected=1)
    assert leftovers(repository) == []


@pytest.mark.slow
@pytest.mark.processes
def test_a_project_without_marks_has_all_its_tests_compared_with_the_merge_base(repository: pytest.Pytester) -> None:
    (repository.path / "test_m.py").write_text(
        "from model import step\ndef test_a(): step()\ndef test_b(): step()\n", encoding="utf-8"
    )
    git(repository, "commit", "-qam", "no marks")
    git(repository, "branch", "-M", "main")
    git(repository, "checkout", "-qb", "work")
    model(repository, "fake.launch('MatMul')", "fake.launch('Cast')")
    git(repository, "commit", "-qam", "two")
    git(repository, "checkout", "-q", "main")
    model(repository, "fake.launch('MatMul')", "fake.launch('Add')")
    git(repository, "commit", "-qam", "main goes on")
    git(repository, "checkout", "-q", "work")
    result = run(repository, "--opprof-against=main...")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "opprof: compared with * (merge base with main; 20*, 'no marks')",
            "opprof: no test has a mark, so all are measured, as closely as marked ones; 2 tests, 1 process a side",
            "  Cast: 1 call (base: 0)",
            "opprof: 2 tests measured, 0 ok, 2 with more calls*",
        ]
    )
    result.stdout.no_fnmatch_line("*calls of Add*")


CONFTEST = """
import sys
from pathlib import Path
import pytest
with Path("loaded").open("a") as file:
    file.write("x")

def pytest_addoption(parser):
    parser.addoption("--size", default="1")
    parser.addini("sizes", "")
"""
"""It leaves a mark in each process that loads it, in the folder of its side."""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "ini", "loads"),
    [
        ([], "", 1),
        (["--size=2"], "", 2),  # only the conftest.py knows the option
        ([], "[pytest]\nsizes = 3\n", 2),
        ([], "[pytest]\ntestpaths = .\n", 1),
    ],
)
def test_the_process_that_compares_imports_no_test_and_no_conftest_unless_an_option_is_defined_there(
    repository: pytest.Pytester, arguments: list[str], ini: str, loads: int
) -> None:
    (repository.path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (repository.path / "pytest.ini").write_text(ini or "[pytest]\n", encoding="utf-8")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "conftest")
    result = run(repository, *arguments)
    result.assert_outcomes(passed=1, deselected=1)
    assert (repository.path / "loaded").read_text() == "x" * loads
    result.stdout.no_fnmatch_line("*Unknown config option*")
    assert "test_m" not in sys.modules


@pytest.mark.processes
def test_the_collection_of_the_working_tree_is_reported_as_pytest_reports_its_own(repository: pytest.Pytester) -> None:
    repository.makepyfile(
        test_broken="import nosuchmodule",
        test_gone="import pytest\npytest.skip('not here', allow_module_level=True)\n",
    )
    result = run(repository, "-rs")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1, skipped=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "collected 1 test, 1 deselected",
            "*ERROR collecting test_broken.py*",
            "E   ModuleNotFoundError: No module named 'nosuchmodule'",
            "SKIPPED [[]1[]] test_gone.py:2: not here",
            "*Interrupted: 1 error during collection*",
        ]
    )
    result = run(repository, "--continue-on-collection-errors")
    result.assert_outcomes(errors=1, skipped=1, passed=1, deselected=1)
    assert leftovers(repository) == []


@pytest.mark.processes
def test_wrong_marks_are_a_usage_error_of_this_run(repository: pytest.Pytester) -> None:
    repository.makepyfile(test_m=TEST.replace("opprof", "opprof(rounds=0)"))
    result = run(repository)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: test_m.py:4: test_a: opprof(rounds=) is 0; write an int of 1 or more"])


@pytest.mark.processes
@pytest.mark.parametrize(
    ("conftest", "argument", "said"),
    [
        ("", "test_m.py::test_typo", "ERROR: * the working tree ended early (ERROR: *not found: *::test_typo*)"),
        (
            "import nosuchmodule",
            "test_m.py",
            "ERROR: * ended early (ImportError while loading conftest '*conftest.py'. E   ModuleNotFoundError: *)",
        ),
    ],
)
def test_an_error_in_the_command_or_in_a_conftest_is_said_with_its_cause(
    repository: pytest.Pytester, conftest: str, argument: str, said: str
) -> None:
    (repository.path / "conftest.py").write_text(conftest, encoding="utf-8")
    result = run(repository, argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said.replace("ERROR: * ", "ERROR: *", 1)])


class ReadsAllStats:
    """As the plugin of Hypothesis does."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self.found = [vars(each) for reports in terminalreporter.stats.values() for each in reports]


@pytest.mark.processes
def test_deselected_tests_are_objects_as_other_plugins_expect(repository: pytest.Pytester) -> None:
    reads = ReadsAllStats()
    result = repository.runpytest_inprocess(*AGAINST, plugins=[reads])
    result.assert_outcomes(passed=1, deselected=1)
    assert {"nodeid": "test_m.py::test_idle"} in reads.found


@pytest.mark.processes
@pytest.mark.parametrize("also", [[], ["test_m.py::test_a"]])
def test_a_test_that_there_is_not_is_an_error(repository: pytest.Pytester, also: list[str]) -> None:
    result = run(repository, *also, "test_m.py::test_none")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *not found: *test_none*"])


@pytest.mark.processes
def test_an_empty_selection_is_one_as_ever(repository: pytest.Pytester) -> None:
    result = run(repository, "-k", "nothing")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.assert_outcomes(deselected=2)
    result.stdout.fnmatch_lines(["collected 0 tests, 2 deselected"])


@pytest.mark.slow
@pytest.mark.processes
def test_the_tests_that_failed_last_are_compared_again(repository: pytest.Pytester) -> None:
    source = "from model import step\ndef test_a(): step()\ndef test_b(): pass\n"
    (repository.path / "test_m.py").write_text(source, encoding="utf-8")
    git(repository, "commit", "-qam", "tests")
    model(repository, "fake.launch('MatMul', device_ns=100_000)", "fake.launch('Cast')")
    repository.runpytest_inprocess(*AGAINST).assert_outcomes(failed=1, passed=1)
    repository.runpytest_inprocess(*AGAINST, "--lf", "test_m.py").assert_outcomes(failed=1, deselected=1)
    repository.runpytest_inprocess(*AGAINST, "--lf").assert_outcomes(failed=1)
    model(repository, "fake.launch('MatMul', device_ns=100_000)")
    repository.runpytest_inprocess(*AGAINST, "--lf").assert_outcomes(passed=1)
    repository.runpytest_inprocess(*AGAINST, "--lf").assert_outcomes(passed=2)
    result = repository.runpytest_inprocess(*AGAINST, "--lf")
    result.assert_outcomes(passed=2)  # the results of the base that are kept are of all tests
    result.stdout.fnmatch_lines(["opprof: an earlier run measured the base in 2 tests"])
    result.stdout.no_fnmatch_line("*does not have the test*")


@pytest.mark.slow
@pytest.mark.processes
def test_a_change_that_a_commit_accepts_passes_and_one_call_more_fails(repository: pytest.Pytester) -> None:
    (repository.path / "test_m.py").write_text("from model import step\ndef test_a(): step()\n", encoding="utf-8")
    git(repository, "commit", "-qam", "no marks")
    git(repository, "branch", "-M", "main")
    git(repository, "checkout", "-qb", "work")
    model(repository, "fake.launch('MatMul')", "fake.launch('Cast')")
    git(repository, "commit", "-qam", "casts")
    arguments = (
        "--opprof-against=main...",
        "--opprof-json=run.json",
        "--opprof-html=run.html",
        "--opprof-summary=s.md",
    )
    failed = run(repository, *arguments)
    failed.assert_outcomes(failed=1)
    (line,) = [each.strip() for each in failed.outlines if "Opprof-Accept: " in each]
    assert line == "Opprof-Accept: test_m.py::test_a Cast=+1"
    assert all(line in (repository.path / name).read_text() for name in ("run.json", "run.html", "s.md"))

    (repository.path / "s.md").unlink()
    git(
        repository,
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        f"Accept it\n\n{line} (bfloat16 is faster)\nOpprof-Accept: Add",
    )
    commit = git(repository, "rev-parse", "HEAD")[:10]
    accepted = run(repository, *arguments)
    accepted.assert_outcomes(passed=1)
    accepted.stdout.fnmatch_lines(
        [
            f"accepted by commit {commit} (bfloat16 is faster): Cast in 1 test",
            f"Opprof-Accept: Add in commit {commit} matches no regression here",
            "opprof: 1 test measured, 1 ok*",
        ]
    )
    told = f"Cast: 1 call (base: 0); Opprof-Accept in {commit} (bfloat16 is faster)"
    assert all(told in (repository.path / name).read_text() for name in ("run.json", "run.html", "s.md"))

    model(repository, "fake.launch('MatMul')", "fake.launch('Cast')", "fake.launch('Sub')")
    again = run(repository, *arguments)
    again.assert_outcomes(failed=1)
    again.stdout.re_match_lines([r"Sub +0 -> 1 .* new$", r"Cast +0 -> 1 .* new, accepted$"])
    rows = json.loads((repository.path / "run.json").read_bytes())["tests"][0]["windows"][0]["rows"]
    assert {row["op"]: row.get("accepted", False) for row in rows}.items() >= {"Sub": False, "Cast": True}.items()
    assert "new, accepted" in (repository.path / "run.html").read_text()
    assert "new, accepted" in (repository.path / "s.md").read_text()

    model(repository, "fake.launch('MatMul')", "fake.launch('Cast')", "fake.launch('Cast')")
    run(repository, *arguments).assert_outcomes(failed=1)


@pytest.mark.slow
@pytest.mark.processes
def test_a_trailer_that_cannot_be_read_is_said_and_accepts_nothing(repository: pytest.Pytester) -> None:
    model(repository, "fake.launch('MatMul')", "fake.launch('MatMul')")
    git(repository, "commit", "-qam", "two\n\nOpprof-Accept: MatMul=1")
    result = run(repository, "--opprof-against=HEAD~1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Opprof-Accept in *: 'MatMul=1': 'MatMul=1' is no number of extra calls; write *"])


@pytest.mark.slow
@pytest.mark.processes
def test_workers_share_the_counts_and_times_are_measured_alone(repository: pytest.Pytester) -> None:
    judging_times(repository)
    (repository.path / "test_n.py").write_text("from model import step\ndef test_b(): step()\n", encoding="utf-8")
    (repository.path / "test_o.py").write_text("from model import step\ndef test_c(): step()\n", encoding="utf-8")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "three files")
    model(repository, "fake.launch('MatMul', device_ns=100_000)", "fake.launch('Cast')")
    told = []
    for workers in ((), ("-p", "xdist", "-n2")):
        result = run(repository, "--opprof-all", "--opprof-json=run.json", *workers)
        result.assert_outcomes(failed=3, passed=1)
        assert leftovers(repository) == []
        document = json.loads((repository.path / "run.json").read_text())
        told.append(
            {
                test["id"]: [found["text"] for each in test["windows"] for found in each["findings"]]
                for test in document["tests"]
            }
        )
        assert (
            "opprof: 4 tests, 1 process a side; 1 test may judge times: 5 pairs, 9 where they differ" in result.outlines
        )
    assert told[0] == told[1]
    assert {finding for findings in told[1].values() for finding in findings} == {"Cast: 1 call (HEAD: 0)"}


@pytest.mark.slow
@pytest.mark.processes
def test_a_side_that_dies_ends_all_workers(repository: pytest.Pytester) -> None:
    source = "from model import step\ndef test_b(): __import__('os')._exit(3)\n"
    (repository.path / "test_n.py").write_text(source, encoding="utf-8")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "two files")
    result = run(repository, "--opprof-all", "-p", "xdist", "-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: * ended early *"])
    assert leftovers(repository) == []


@pytest.mark.slow
@pytest.mark.processes
def test_a_test_of_today_runs_at_the_revision_too_where_it_is_asked_for(repository: pytest.Pytester) -> None:
    folder = repository.mkpydir("checks")
    (folder / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef n(): return 2\n", encoding="utf-8")
    source = "from model import step\ndef test_new(n):\n    for _ in range(n): step()\n"
    (folder / "test_new.py").write_text(source, encoding="utf-8")
    model(repository, "fake.launch('MatMul')", "fake.launch('Cast')")
    missing = run(repository, "--opprof-all")
    missing.stdout.fnmatch_lines(["nothing to compare with: HEAD does not have the test: *test_new"])
    off = "import pytest\n@pytest.mark.opprof(False)\ndef test_off(): pass\n"
    (folder / "test_off.py").write_text(off, encoding="utf-8")
    files = ["checks/test_new.py", "checks/test_off.py"]  # the second measures nothing, so the base does not get it
    result = run(repository, "--opprof-all", "--opprof-against-tests=here", *files)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["  Cast: 2 calls (HEAD: 0)"])
    assert git(repository, "status", "--porcelain", "model").strip() == "M model/__init__.py"


@pytest.mark.slow
@pytest.mark.processes
def test_helpers_in_a_folder_of_tests_come_along_and_code_beside_them_does_not(repository: pytest.Pytester) -> None:
    folder = repository.mkpydir("tests")
    (folder / "times.txt").write_text("2", encoding="utf-8")
    helpers = "import pathlib\ndef often(): return int((pathlib.Path(__file__).parent / 'times.txt').read_text())\n"
    (folder / "helpers.py").write_text(helpers, encoding="utf-8")
    source = (
        "from model import step\nfrom .helpers import often\ndef test_new():\n    for _ in range(often()): step()\n"
    )
    (folder / "test_new.py").write_text(source, encoding="utf-8")
    model(repository, "fake.launch('MatMul')", "fake.launch('Cast')")
    result = run(repository, "--opprof-all", "--opprof-against-tests=here", "tests")
    result.assert_outcomes(failed=1)
    came = "HEAD ran with these files as they are now: tests/__init__.py, tests/helpers.py, tests/times.txt"
    result.stdout.fnmatch_lines(["  Cast: 2 calls (HEAD: 0)", came])


@pytest.mark.slow
@pytest.mark.processes
def test_a_test_that_changed_and_does_more_runs_as_it_is_now_on_both_sides(repository: pytest.Pytester) -> None:
    test = repository.path / "test_m.py"
    test.write_text(TEST.replace("step()", "step(); step()"), encoding="utf-8")
    result = run(repository)
    result.assert_outcomes(passed=1, deselected=1)
    changed = "the file of the test changed (2 lines), so HEAD ran it as it is now"
    result.stdout.fnmatch_lines(["opprof: one more pair, 1 changed test as now on both sides", f"*{changed}"])
    model(repository, "fake.launch('MatMul')", "fake.launch('Cast')")
    result = run(repository)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["  Cast: 2 calls (HEAD: 0)", f"  ({changed})"])


CACHED = """\
from functools import lru_cache
from pytest_opprof.backends import fake
@lru_cache
def table():
    fake.launch('Sin')
def step():
    table()
    fake.launch('MatMul')
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("mark", ["@pytest.mark.opprof\n", ""], ids=["marked", "few unmarked"])
def test_a_lost_cache_is_seen_in_a_test_that_calls_its_function_once(repository: pytest.Pytester, mark: str) -> None:
    model = repository.path / "model" / "__init__.py"
    model.write_text(CACHED, encoding="utf-8")
    repository.makepyfile(test_m=TEST.replace("@pytest.mark.opprof\n", mark))
    git(repository, "commit", "-qam", "cached")
    model.write_text(CACHED.replace("@lru_cache\n", ""), encoding="utf-8")
    result = run(repository, "test_m.py::test_a")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "opprof: one more pair, 1 test that does more when run again",
            "  Sin: 1 call (HEAD: 0)",
            "  (in a later run of the body, as if a cache were lost)",
        ]
    )


@pytest.mark.slow
@pytest.mark.processes
def test_a_test_that_empties_the_cache_itself_runs_as_it_is_now_on_both_sides(repository: pytest.Pytester) -> None:
    (repository.path / "model" / "__init__.py").write_text(CACHED, encoding="utf-8")
    git(repository, "commit", "-qam", "cached")
    empties = TEST.replace("import step", "import step, table").replace("step()", "table.cache_clear(); step()")
    (repository.path / "test_m.py").write_text(empties, encoding="utf-8")
    result = run(repository)
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["opprof: one more pair, 1 changed test as now on both sides"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_test_that_cannot_run_at_the_revision_as_it_is_now_fails_if_only_others_changed(
    repository: pytest.Pytester,
) -> None:
    model(repository, *["fake.launch('MatMul')"] * 2, "return 7")
    test = repository.path / "test_m.py"
    test.write_text(TEST.replace("step()", "assert step() == 7  # new"), encoding="utf-8")
    result = run(repository)
    result.assert_outcomes(passed=1, deselected=1)
    said = "nothing to compare with: HEAD fails the test as it is now, and the test changed: test_m.py::test_a"
    result.stdout.fnmatch_lines([said])
    (repository.path / "model" / "new.py").touch()
    test.write_text(f"import model.new\n{TEST}", encoding="utf-8")
    result = run(repository)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["  MatMul: 2 calls (HEAD: 1)", "  (the file of the test changed, too: 2 lines)"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_second_run_on_the_same_base_measures_the_working_tree_alone(
    repository: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(against, "FEW_TESTS", 0)  # which would run each body twice
    ran = Path(os.environ["TMPDIR"], "ran")
    note = f"open({str(ran)!r}, 'a').write('base ')"
    source = "from model import step\ndef test_a(): step()\n"
    (repository.path / "test_m.py").write_text(source, encoding="utf-8")
    model(repository, "fake.launch('MatMul')", note)
    git(repository, "commit", "-qam", "a base that notes that it ran")
    model(repository, "fake.launch('MatMul')")
    for _ in range(2):
        result = run(repository, "--opprof-cache=kept")
        result.assert_outcomes(passed=1)
    assert ran.read_text() == "base "
    result.stdout.fnmatch_lines(["opprof: an earlier run measured the base in 1 test", "*1 test measured, 1 ok*"])

    # More calls are confirmed by both sides, and a new test is measured on both.
    model(repository, "fake.launch('MatMul')", "fake.launch('Cast')")
    (repository.path / "test_m.py").write_text(source + "def test_b(): pass\n", encoding="utf-8")
    result = run(repository, "--opprof-cache=kept")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["  Cast: 1 call (HEAD: 0)"])
    assert len(ran.read_text().split()) > 1

    (kept,) = (repository.path / "kept").iterdir()
    kept.write_bytes(b"damaged")
    model(repository, "fake.launch('MatMul')")
    result = run(repository, "--opprof-cache=kept")
    result.stdout.fnmatch_lines(["opprof: *kept/* cannot be used (*): the base is measured again"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_base_that_has_to_be_installed_is_installed_beside_todays_packages(repository: pytest.Pytester) -> None:
    """`copytree` stands for pip: what it installs comes before today's packages, and pytest is there all the same."""
    (repository.path / "model").rename(repository.path / "source")
    (repository.path / "source" / "__init__.py").write_text(
        "from pytest_opprof.backends import fake\ndef step(): fake.launch('MatMul')\n", encoding="utf-8"
    )
    (repository.path / "install.py").write_text(
        "import os, shutil, sysconfig\nto = sysconfig.get_path('purelib')\n"
        "shutil.copytree('source', to + '/model')\nos.mkdir(to + '/model-1.dist-info')\n",
        encoding="utf-8",
    )
    (repository.path / "test_m.py").write_text("from model import step\ndef test_a(): step()\n", encoding="utf-8")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "a package that has to be installed")
    model(repository, "fake.launch('MatMul')", "fake.launch('Cast')")
    install = ["--opprof-against-install=python install.py", "--opprof-cache=kept"]
    result = run(repository, *install)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["opprof: installing the base: python install.py", "  Cast: 1 call (HEAD: 0)"])
    assert leftovers(repository) == []

    again = run(repository, *install)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(
        ["opprof: an earlier run installed the base: python install.py", "  Cast: 1 call (HEAD: 0)"]
    )

    failed = run(repository, "--opprof-against-install=python -c \"raise SystemExit('no compiler')\"")
    assert failed.ret == pytest.ExitCode.USAGE_ERROR
    failed.stderr.fnmatch_lines(
        ["ERROR: --opprof-against-install: */python -c * failed with exit code 1:", "  no compiler"]
    )


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("asks", [True, False])
def test_calls_are_compared_across_versions_of_a_package_where_another_environment_is_compared(
    repository: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, asks: bool
) -> None:
    sites = tmp_path_factory.mktemp("sites")
    for version, calls in (("1", 20), ("2", 50)):
        installed = sites / version
        installed.mkdir()
        module = f"def each():\n    for n in range({calls}): abs(n)\n"
        (installed / "loops.py").write_text(module)
        information = installed / f"loops-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: loops\nVersion: {version}\n")
        (information / "RECORD").write_text("loops.py,,\n")
    model(repository, "import loops", "loops.each()")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "calls a package")
    older = sites / "1" / "python"
    older.write_text(f'#!/bin/sh\nPYTHONPATH="{older.parent}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    older.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(sites / "2"), prepend=os.pathsep)
    result = run(repository, "--opprof-python", *([f"--opprof-against-python={older}"] if asks else []))
    result.assert_outcomes(failed=int(asks), passed=1 - asks, deselected=1)
    if asks:
        result.stdout.re_match_lines(
            [
                r"  calls of Python functions: \d+ \(HEAD: \d+\)",
                r".*: calls of Python functions compared across versions: loops 2 \(HEAD: 1\)",
            ]
        )


@pytest.mark.slow
@pytest.mark.processes
def test_calls_of_python_functions_are_counted_on_both_sides(repository: pytest.Pytester) -> None:
    model(repository, "fake.launch('MatMul', device_ns=100_000)", "for n in range(50): abs(n)")
    result = run(repository, "--opprof-python")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.re_match_lines(
        [
            r"  calls of Python functions: \d+ \(HEAD: \d+\)",
            r"    `step` at model/__init__.py:4 calls `builtins.abs` 50 times \(HEAD: 0\)",
        ]
    )


@pytest.mark.slow
@pytest.mark.processes
def test_without_marks_the_python_calls_of_a_body_that_runs_once_are_compared(repository: pytest.Pytester) -> None:
    work = "def double(number): return number * 2\ndef total(): return sum(double(each) for each in range({}))\n"
    repository.makepyfile(
        test_m="import work\ndef test_a(tmp_path):\n    (tmp_path / 'new').mkdir()\n    work.total()\n",
        work=work.format(20),
    )
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "no mark")
    repository.makepyfile(work=work.format(200))
    result = run(repository, "--opprof-python")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["    `total` at work.py:2 calls `work.double` 200 times (HEAD: 20)*"])
