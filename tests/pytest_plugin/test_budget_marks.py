"""`op_budget` and `opprof` marks, from the mark to the failing test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_opprof.frameworks.live import registry

Suite = Callable[..., pytest.RunResult]
HEAD = "import pytest, unittest\nfrom pytest_opprof.backends import fake\n"


def test_a_broken_budget_fails_the_test_with_the_op_the_number_and_the_limit(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(
        test_model=HEAD
        + """
@pytest.mark.op_budget(Cast=10, MatMul="3..5", MemcpyHtoD=0, device_time="5 ms", top=["MatMul"])
def test_train_step():
    for _ in range(12):
        fake.launch("Cast", device_ns=1_000)
    for _ in range(3):
        fake.launch("aten::linear", device_ns=50_000)
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "op budget exceeded: test_model.py::test_train_step  [[]fake 1, fake, async[]]",
            "  Cast: 12 calls (budget: 10)",
            "Cast *12 *12 us *over budget",
            "to accept this change: raise the limit in its op_budget mark",
            "opprof: 1 test measured, 0 ok, 1 over budget",
            "FAILED test_model.py::test_train_step - Cast 12, budget 10",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*hidden*")
    assert result.ret == 1


def test_a_kept_budget_passes(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(Cast=1)
@pytest.mark.opprof(baseline=False)
def test_a():
    fake.launch("Cast")
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok"])


def test_without_the_flag_marks_measure_nothing_and_the_header_says_so(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(Cast=0)
@pytest.mark.parametrize("n", [1, 2])
def test_a(n):
    assert fake.backend().log is None
def test_b():
    pass
"""
    )
    result = suite()
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["opprof: 2 op budgets not enforced (no --opprof)"])
    result.stdout.no_fnmatch_line("opprof: * measured*")


def test_the_nearest_mark_wins_for_each_key_and_others_stay(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
pytestmark = pytest.mark.op_budget(Cast=0, Exp=0, Log=0)
@pytest.mark.op_budget(Exp=5, Cast=0)
class TestA:
    @pytest.mark.op_budget({"Cast": 5})
    def test_a(self):
        for op in ("Cast", "Exp", "Log"):
            fake.launch(op)
"""
    )
    result = suite("--opprof")
    result.stdout.fnmatch_lines(["  Log: 1 call (budget: 0)"])
    result.stdout.no_fnmatch_line("  calls of Cast*")
    result.stdout.no_fnmatch_line("  calls of Exp*")


def test_a_wrong_mark_that_a_fixture_adds_is_told_with_its_place_once(pytester: pytest.Pytester, suite: Suite) -> None:
    fixture = "@pytest.fixture\ndef late(request): request.node.add_marker(pytest.mark.op_budget(Cast='x'))\n"
    pytester.makepyfile(HEAD + fixture + "@pytest.mark.opprof\ndef test_a(late):\n    fake.launch('Cast')\n")
    suite("--opprof").stdout.re_match_lines([r"test_\w+\.py:\d+: test_a: op_budget\(Cast='x'\): write a number .*"])


def test_an_op_name_that_means_nothing_fails_the_test_with_the_nearest_names(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(HEAD + "@pytest.mark.op_budget(Csat=10)\ndef test_a():\n    fake.launch('Cast')\n")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "test_*.py:*: test_a: unknown op 'Csat': did you mean 'Cast'?",
            "opprof: 1 test measured, 0 ok, 1 not measured",
        ]
    )


def test_a_limit_on_what_cannot_be_measured_fails_the_test(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(HEAD + "@pytest.mark.op_budget(Cast='5 MiB')\ndef test_a():\n    fake.launch('Cast')\n")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*the limit on bytes moved by Cast (5 MiB) cannot be checked: fake does not measure it*"]
    )


def test_flops_and_memory_are_recorded_when_a_budget_asks_for_them(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(flops=1_000, peak_memory="1 KiB")
def test_a():
    fake.launch("MatMul", flops=2_000)
    fake.allocate(4_096)
@pytest.mark.op_budget(allocations=0)
def test_b():
    fake.launch("MatMul")
    fake.allocate(8)
"""
    )
    result = suite("--opprof")
    result.stdout.fnmatch_lines(
        ["  FLOPs of all ops: 2 kFLOP (budget: 1 kFLOP)", "  peak memory: 4 KiB (budget: 1 KiB)"]
    )
    result.stdout.fnmatch_lines(["  allocations: 1 (budget: 0)"])


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("op_budget(Cast=-1)", "op_budget(Cast=-1): write a number*"),
        ("op_budget(devce_time='5 ms')", "unknown limit 'devce_time': did you mean 'device_time'*"),
        ("op_budget", "op_budget() has no limit; write one, such as op_budget(Cast=10)"),
        ("op_budget('Cast')", "op_budget('Cast'): write Op=limit, or a mapping*"),
        ("opprof(rounds=0)", "opprof(rounds=) is 0; write an int of 1 or more"),
        ("opprof(rounds='many')", "opprof(rounds=) is 'many'; write an int of 1 or more"),
        ("opprof(warmup=-1)", "opprof(warmup=) is -1; write an int of 0 or more"),
        ("opprof(tolerance=10)", "opprof(tolerance=) is 10; write a percentage such as '10%'"),
        ("opprof(timing='fast')", "opprof(timing=) is 'fast'; write 'async' or 'sync'"),
        (
            "opprof(numpy='every')",
            "opprof(numpy=) was removed: opprof sees each op of NumPy, on any array. Leave it out",
        ),
        ("opprof(baseline=1)", "opprof(baseline=1): write True or False"),
        ("opprof(roundz=3)", "unknown keyword of opprof() 'roundz': did you mean 'rounds'*"),
        ("opprof(20)", "opprof(20): write keywords, such as opprof(rounds=20), or opprof(False) to leave a test out"),
        ("opprof(True)", "opprof(True): write keywords, such as opprof(rounds=20), or opprof(False) to leave a*"),
        ("opprof(backend=3)", "opprof(backend=) is 3; write a name or several: 'numpy,torch'"),
    ],
)
def test_a_mark_that_means_nothing_stops_the_run_with_file_and_line(
    pytester: pytest.Pytester, suite: Suite, mark: str, message: str
) -> None:
    pytester.makepyfile(test_m=f"import pytest\n\n\n@pytest.mark.{mark}\ndef test_a():\n    pass\n")
    result = suite("--opprof")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: test_m.py:[45]: test_a: {message.replace('[', '[[]')}"])


def test_every_wrong_mark_is_named_at_once(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m="""
import pytest
@pytest.mark.op_budget(Cast=-1)
def test_a(): pass
@pytest.mark.op_budget(Cast="x")
def test_b(): pass
"""
    )
    result = suite("--opprof")
    assert "test_a: op_budget(Cast=-1)" in result.stderr.str()
    assert "test_b: op_budget(Cast='x')" in result.stderr.str()


def test_a_body_that_ran_no_op_fails_unless_its_budget_allows_nothing(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(Cast=10)
def test_empty(): pass
@pytest.mark.op_budget(calls=0)
def test_cached(): pass
@pytest.mark.op_budget(only=[])
def test_nothing(): pass
@pytest.mark.op_budget(calls=0)
def test_not_cached(): fake.launch("Add")
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "opprof could not measure *::test_empty: nothing was recorded: no op ran*op_budget(calls=0)",
            "  calls of all ops: 1 (budget: 0)",
        ]
    )


def test_fixtures_are_not_measured(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.fixture
def model():
    fake.launch("Cast"); yield; fake.launch("Cast")
@pytest.mark.op_budget(Cast=0)
def test_a(model): fake.launch("Add")
"""
    )
    suite("--opprof").assert_outcomes(passed=1)


ROUNDS = """
runs = []
def work():
    runs.append(1)
    fake.launch("Add")
    if len(runs) == 3: fake.launch("Cast")
"""


MARKS = "@pytest.mark.opprof(rounds=4, warmup=2)\n{0}@pytest.mark.op_budget(Cast=0)\n{0}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        MARKS.format("") + "def test_a(): work()",
        "class TestA:\n    " + MARKS.format("    ") + "def test_a(self): work()",
        "class TestA(unittest.TestCase):\n    " + MARKS.format("    ") + "def test_a(self): work()",
        "@pytest.mark.parametrize('n', [1])\n" + MARKS.format("") + "def test_a(n): work()",
        "@pytest.mark.asyncio\n" + MARKS.format("") + "async def test_a(): work()",
        "@pytest.mark.anyio\n" + MARKS.format("") + "async def test_a(anyio_backend): work()",
    ],
    ids=["function", "method", "unittest", "parametrised", "asyncio", "anyio"],
)
@pytest.mark.processes
def test_rounds_run_the_body_that_often_and_limits_hold_for_each(
    pytester: pytest.Pytester, suite: Suite, body: str
) -> None:
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef anyio_backend(): return 'asyncio'\n")
    pytester.makepyfile(HEAD + ROUNDS + body + "\ndef test_runs(): assert len(runs) == 6\n")
    # pytest-asyncio leaves an event loop behind on Python 3.10: not in this process.
    result = (
        pytester.runpytest_subprocess("--opprof", "-p", "asyncio", "-p", "anyio")
        if "async" in body
        else suite("--opprof")
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["  Cast: 0..1 calls (budget: 0)"])


def test_warm_up_is_not_measured(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
compiled = []
@pytest.mark.opprof(rounds=3)
@pytest.mark.op_budget(Compile=0, Add=1, calls=1)
def test_a():
    if not compiled: fake.launch("Compile"); compiled.append(1)
    fake.launch("Add")
"""
    )
    result = suite("--opprof", "-o", "opprof_aliases=Compile = Compile")
    result.assert_outcomes(passed=1)


def test_a_failing_round_fails_the_test_as_itself(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
runs = []
@pytest.mark.opprof(rounds=9, warmup=1)
@pytest.mark.op_budget(Cast=0)
def test_a():
    runs.append(1)
    fake.launch("Cast")
    assert len(runs) < 4
def test_b(): assert len(runs) == 4 and fake.backend().log is None
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([">*assert len(runs) < 4"])
    result.stdout.no_fnmatch_line("*op budget exceeded*")


@pytest.mark.parametrize("way", ["pytest.skip('why')", "pytest.fail('why')", "raise ValueError", "pytest.exit('why')"])
def test_a_test_that_ends_by_itself_is_reported_as_itself(pytester: pytest.Pytester, suite: Suite, way: str) -> None:
    pytester.makepyfile(HEAD + f"@pytest.mark.op_budget(Cast=0)\ndef test_a():\n    fake.launch('Cast'); {way}\n")
    result = suite("--opprof", "-rs")
    result.stdout.no_fnmatch_line("*op budget exceeded*")
    assert "why" in result.stdout.str() or "ValueError" in result.stdout.str()


def test_a_unittest_that_fails_by_itself_is_reported_as_itself(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
class TestA(unittest.TestCase):
    @pytest.mark.op_budget(Cast=0)
    def test_a(self):
        fake.launch("Cast")
        self.assertEqual(1, 2)
    @pytest.mark.op_budget(Cast=0)
    def test_skipped(self):
        self.skipTest("why")
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*AssertionError: 1 != 2*"])
    result.stdout.no_fnmatch_line("*op budget exceeded*")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], pytest.param(["-n2"], marks=pytest.mark.processes)])
def test_every_test_is_measured_on_request_and_those_by_time_alone_are_counted(
    pytester: pytest.Pytester, suite: Suite, workers: list[str]
) -> None:
    pytester.makepyfile(HEAD + "def test_a(): fake.launch('Add')\ndef test_b(): pass\ndef test_c(): pass\n")
    result = suite("--opprof", "--opprof-all", *workers)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["no op ran, or no backend sees it, so only its time is *", "opprof: 3 tests measured, *, 2 by time alone"]
    )


def test_every_test_can_be_measured_where_no_backend_sees_any(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m="def test_a(): pass\n")
    result = suite("--opprof", "--opprof-all", "--opprof-backend=numpy")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "test_m.py::test_a: no op ran, or *only its time is compared (*",
            "opprof: 1 test measured, *1 by time alone (*",
        ]
    )


def test_a_suite_with_no_marks_says_that_nothing_was_measured(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile("def test_a(): pass\n")
    for arguments in ((), ("-q",)):
        result = suite("--opprof", *arguments)
        assert result.ret == 0
        result.stdout.fnmatch_lines(
            ["opprof: nothing was measured: no test has an op_budget or opprof mark*(--opprof-all measures every test)"]
        )


@pytest.mark.parametrize("arguments", [[], pytest.param(["-n1"], marks=pytest.mark.processes)])
def test_an_update_of_a_suite_with_no_marks_is_a_usage_error_that_says_what_to_do(
    pytester: pytest.Pytester, suite: Suite, arguments: list[str]
) -> None:
    pytester.makepyfile("def test_a(): pass\n")
    result = suite("--opprof-update", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "opprof: error: no baseline was written: no collected test has a mark. *: add --opprof-all",
            "opprof: nothing was measured: *",
        ]
    )
    result.stdout.no_fnmatch_line("baselines of 0 tests*")
    assert not (pytester.path / "baselines").exists()


@pytest.mark.parametrize(
    "body",
    [
        "@pytest.mark.opprof\n@pytest.mark.skip\ndef test_b(): pass\n",
        "def test_b(opprof):\n    with opprof('w'): fake.launch('Add')\n",
        "@pytest.fixture\ndef marks(request): request.node.add_marker(pytest.mark.opprof)\n"
        "def test_b(marks): fake.launch('Add')\n",
    ],
    ids=["is skipped", "uses the fixture", "is marked by a fixture"],
)
@pytest.mark.parametrize("arguments", [[], pytest.param(["-n1"], marks=pytest.mark.processes)])
def test_an_update_passes_where_some_test_is_to_be_measured(
    pytester: pytest.Pytester, suite: Suite, body: str, arguments: list[str]
) -> None:
    pytester.makepyfile(f"{HEAD}def test_a(): pass\n{body}")
    assert suite("--opprof-update", *arguments).ret == 0


def test_the_timing_of_a_mark_is_part_of_the_environment(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(HEAD + "@pytest.mark.opprof(timing='sync')\ndef test_a(): fake.launch('Add')\n")
    suite("--opprof").stdout.fnmatch_lines(["no baseline for fake 1, fake, sync *"])


def test_a_mark_can_choose_the_backend(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD + "@pytest.mark.opprof(backend='fake', baseline=False)\n@pytest.mark.op_budget(Cast=0)\n"
        "def test_a(): fake.launch('Cast')\n"
    )
    result = suite("--opprof", "--opprof-backend=auto")
    result.stdout.fnmatch_lines(["  Cast: 1 call (budget: 0)"])


def test_a_backend_that_does_not_exist_is_an_error_with_those_that_do(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(HEAD + "@pytest.mark.opprof(backend='numpi')\ndef test_a(): pass\n")
    names = ", ".join(sorted(registry.find()))
    known = f"there is no backend 'numpi': did you mean 'numpy'? Known: {names}"
    suite("--opprof").stderr.fnmatch_lines([f"ERROR: *.py:3: test_a: opprof(backend=): {known}"])
    result = suite("--opprof", "--opprof-backend=numpi")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --opprof-backend: {known}"])


def test_the_mark_of_a_parameter_wins_over_that_of_its_function(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(Add=1)
@pytest.mark.parametrize("n", [1, pytest.param(5, marks=pytest.mark.op_budget(Add=5))])
def test_a(n):
    for _ in range(n): fake.launch("Add")
"""
    )
    suite("--opprof").assert_outcomes(passed=2)


def test_a_mark_that_a_fixture_adds_counts(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.fixture
def strict(request): request.node.add_marker(pytest.mark.op_budget(Add=0))
def test_a(strict): fake.launch("Add")
@pytest.fixture
def wrong(request): request.node.add_marker(pytest.mark.op_budget(add=0))
def test_b(wrong): fake.launch("Add")
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["  Add: 1 call (budget: 0)", "*unknown limit 'add': did you mean 'Add'*"])


@pytest.mark.parametrize("keyword", ["warmup", "timing", "top", "tolerance", "backend"])
def test_none_is_the_default_of_every_keyword(pytester: pytest.Pytester, suite: Suite, keyword: str) -> None:
    pytester.makepyfile(HEAD + f"@pytest.mark.opprof({keyword}=None)\ndef test_a(): fake.launch('Add')\n")
    suite("--opprof").assert_outcomes(passed=1)


def test_a_tolerance_of_nought_is_no_default(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(HEAD + "@pytest.mark.opprof(tolerance=0)\ndef test_a(): fake.launch('Add')\n")
    suite("--opprof").stderr.fnmatch_lines(["*opprof(tolerance=) is 0; write a percentage such as '10%'"])


def test_an_isolated_asyncio_test_cannot_run_again(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + "@pytest.mark.opprof(rounds=2)\nclass TestA(unittest.IsolatedAsyncioTestCase):\n    def test_a(self): pass\n"
    )
    suite("--opprof").stderr.fnmatch_lines(["*cannot run an IsolatedAsyncioTestCase again; use opprof.rounds()*"])


@pytest.mark.parametrize(
    ("of_class", "of_test", "measured"),
    [
        ("", "opprof(False)", 0),
        ("opprof(False)", "", 0),
        ("opprof(rounds=2)", "opprof(False)", 0),
        ("opprof(False)", "opprof", 1),
    ],
)
def test_a_test_can_be_left_out_and_the_nearest_mark_decides(
    pytester: pytest.Pytester, suite: Suite, of_class: str, of_test: str, measured: int
) -> None:
    marks = [f"@pytest.mark.{mark}" if mark else "" for mark in (of_class, of_test)]
    pytester.makepyfile(
        HEAD
        + f"""
{marks[0]}
@pytest.mark.op_budget(Cast=0)
class TestA:
    {marks[1]}
    def test_a(self):
        fake.launch("Cast")
"""
    )
    result = suite("--opprof", "--opprof-all")
    result.assert_outcomes(passed=1 - measured, failed=measured)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torch.compile imports what torch deprecates
def test_compiling_again_and_graph_breaks_are_over_the_budget(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        """
import pytest, torch

def broken(x):
    y = x.relu()
    print(end="")
    return y + y

@pytest.fixture
def compiled():
    torch._dynamo.reset()
    compiled = torch.compile(broken, backend="eager")
    compiled(torch.ones(3))
    return compiled

@pytest.mark.op_budget({"torch::compile": 0, "torch::graph": 2})
def test_as_it_is(compiled):
    compiled(torch.ones(3))

@pytest.mark.op_budget({"torch::compile": 0, "torch::graph": 1})
def test_another_dtype(compiled):
    compiled(torch.ones(3).half())

@pytest.mark.op_budget({"torch::compiled": 0})
def test_a_mistake(compiled):
    compiled(torch.ones(3))
"""
    )
    result = suite("--opprof", "--opprof-backend=torch", "-Wignore::DeprecationWarning")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*torch::compile: 2 calls (budget: 0)",
            "*torch::graph: 2 calls (budget: 1)",
            "*unknown op 'torch::compiled': did you mean 'torch::compile'*",
        ]
    )


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.torch
def test_a_framework_that_the_process_never_imported_is_not_advised(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a(): pass\n")
    result = pytester.runpytest_subprocess("-pno:asyncio", "--opprof", "--opprof-all")
    result.stdout.fnmatch_lines(["*no op ran, or no backend sees it, so only its time is compared (--opprof-python*"])
