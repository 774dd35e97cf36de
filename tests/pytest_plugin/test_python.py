"""Calls of Python functions as users meet them: recorded, compared, explained by line, limited."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.errors import BackendError
from pytest_opprof.measure.memory.traced import Where
from pytest_opprof.measure.sampled import Sampler
from pytest_opprof.processes.pool import Answer, Pool
from pytest_opprof.profile.range import Range
from pytest_opprof.pytest_plugin import body as body_module
from pytest_opprof.pytest_plugin import measuring
from pytest_opprof.python_calls import tally

from ..conftest import looks

Suite = Callable[..., pytest.RunResult]
TELLS_LOOPS = sys.version_info >= (3, 12)
needs_loops = pytest.mark.skipif(not TELLS_LOOPS, reason="Python tells of loops from 3.12 on")

AT_ONCE = """
def to_ids(tokens, known):
    return list(map(known.get, tokens))
"""
ONE_BY_ONE = """
def to_ids(tokens, known):
    order = list(known)
    ids = []
    for token in tokens:
        ids.append(order.index(token))
    return ids
"""
TEST = """
import pytest
import tokenizer

@pytest.mark.opprof(python=True)
def test_ids():
    known = {str(number): number for number in range(50)}
    assert tokenizer.to_ids(list(known), known) == list(range(50))
"""


def file(pytester: pytest.Pytester, end: str) -> dict[str, object]:
    (path,) = pytester.path.glob(f"baselines/*/test_m.py{end}")
    found: dict[str, object] = json.loads(path.read_text())
    return found


def window(pytester: pytest.Pytester, end: str, test: str = "test_ids") -> dict[str, dict[str, object]]:
    return file(pytester, end)["tests"][test]["body"]  # type: ignore[index, no-any-return]


def flat(kept: dict[str, dict[str, int]]) -> dict[str, int]:
    return {f"{where}.{name}": calls for where, of in kept.items() for name, calls in of.items()}


@pytest.fixture
def tokenizer(pytester: pytest.Pytester, suite: Suite, once: None) -> Callable[..., pytest.RunResult]:
    """Record a test of a library, and run it with another version of that."""
    pytester.makepyfile(test_m=TEST, tokenizer=AT_ONCE)
    recorded = suite("--opprof-update")
    assert recorded.ret == 0

    def run(source: str, *flags: str) -> pytest.RunResult:
        pytester.makepyfile(tokenizer=source)
        return suite(*(flags or ("--opprof",)))

    return run


@pytest.fixture
def confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a fresh process see more calls, too."""
    more = Answer({"body": WindowBaseline({}, facts={"python_calls": Range(105, 105)})}, "")
    looks(monkeypatch, more, more)


def test_a_baseline_has_the_calls_their_versions_and_each_function_beside(
    pytester: pytest.Pytester, tokenizer: Callable[..., pytest.RunResult]
) -> None:
    kept = window(pytester, ".json")
    functions = flat(window(pytester, ".python.json")["functions"])  # type: ignore[arg-type]
    assert functions["tokenizer.to_ids"] == functions["test_m.test_ids"] == 1
    assert kept["facts"]["python_calls"] == sum(functions.values())
    assert kept["facts"]["collections"] == 0
    assert kept["python"] == {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}


def test_the_same_code_passes(tokenizer: Callable[..., pytest.RunResult]) -> None:
    result = tokenizer(AT_ONCE)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*not compared*")


def test_a_loop_for_a_call_of_all_fails_with_the_line_and_the_function(
    tokenizer: Callable[..., pytest.RunResult], confirmed: None
) -> None:
    result = tokenizer(ONE_BY_ONE)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"op regression: test_m.py::test_ids  \[.*\]",
            r"  calls of Python functions: 1\d\d \(baseline: \d+\)",
            r"    `to_ids` at tokenizer.py:5 calls `list\.\w+` 50 times \(baseline: 0\); 1 more function",
        ]
    )
    result.stdout.fnmatch_lines(["FAILED test_m.py::test_ids - python calls * -> 1* at tokenizer.py:5"])


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize(("few", "short_ns"), [(2, 0), (1, 10**12)], ids=["few", "short"])
def test_few_unmarked_tests_or_short_ones_are_counted_by_an_update_and_all_runs_follow_their_baseline(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, few: int, short_ns: int
) -> None:
    unmarked = TEST.replace("@pytest.mark.opprof(python=True)\n", "").replace("range(50)", "range(1500)")
    pytester.makepyfile(test_m=unmarked + "\ndef test_idle(): pass\n", tokenizer=AT_ONCE)
    monkeypatch.setattr(measuring, "SHORT_NS", 0)
    monkeypatch.setattr(measuring, "FEW_TESTS", 1)
    assert suite("--opprof-all", "--opprof-update").ret == 0
    assert not [*pytester.path.glob("baselines/*/test_m.py.python.json")]
    monkeypatch.setattr(measuring, "FEW_TESTS", few)
    monkeypatch.setattr(measuring, "SHORT_NS", short_ns)
    assert suite("--opprof-all", "--opprof-update").ret == 0
    assert [*pytester.path.glob("baselines/*/test_m.py.python.json")]
    monkeypatch.setattr(measuring, "FEW_TESTS", 1)
    monkeypatch.setattr(measuring, "SHORT_NS", 0)
    suite("--opprof-all").assert_outcomes(passed=2)
    pytester.makepyfile(tokenizer=ONE_BY_ONE)
    result = suite("--opprof-all")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*`to_ids` at tokenizer.py:5 calls `list.index` 1,500 times (baseline: 0)*"])
    # A few calls more in each of many tests, by a helper that all call, fail none.
    pytester.makepyfile(
        tokenizer=AT_ONCE.replace("    return", "    [str(token) for token in tokens[:900]]\n    return")
    )
    suite("--opprof-all").assert_outcomes(passed=2)
    suite("--opprof-all", "-knot idle").assert_outcomes(passed=1, deselected=1)  # one of them is judged as among all


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize(
    "shared", ["@pytest.fixture(scope='module', autouse=True)\ndef shared(): pass", "def setup_module(): pass"]
)
def test_of_many_tests_those_that_share_state_by_fixtures_run_once(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, shared: str
) -> None:
    monkeypatch.setattr(measuring, "FEW_TESTS", 0)
    tests = "def test_a(): RAN.append(1)\ndef test_b(): assert RAN == [1]\n"
    pytester.makepyfile(test_m=f"import pytest\nRAN = []\n{shared}\n{tests}")
    for flags in (["--opprof-update"], []):
        suite("--opprof-all", *flags).assert_outcomes(passed=2)


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize("set_up", ["", "    @classmethod\n    def setUpClass(cls): pass\n"])
def test_of_many_tests_of_a_unittest_class_those_without_a_set_up_run_again(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, set_up: str
) -> None:
    monkeypatch.setattr(measuring, "FEW_TESTS", 0)
    pytester.makepyfile(
        test_m=f"import unittest\nRAN = []\nclass Test(unittest.TestCase):\n{set_up}"
        "    def test_a(self): RAN.append(1)\n"
        "def test_b(): assert len(RAN) == 1\n"
    )
    runs_again = not set_up
    suite("--opprof-all", "--opprof-update").assert_outcomes(passed=2 - runs_again, failed=runs_again)


@pytest.mark.usefixtures("once")
def test_a_failing_test_after_bodies_that_ran_twice_says_how_to_run_them_once(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(test_m="RAN = []\ndef test_a(): RAN.append(1)\ndef test_b(): assert RAN == [1]\n")
    result = suite("--opprof-all", "--opprof-update")
    result.assert_outcomes(passed=1, failed=1)
    advice = "--no-opprof-python --no-opprof-memory --no-opprof-leaks"
    ran = "1 test without a mark had run twice, to count Python calls and memory"
    result.stdout.fnmatch_lines(
        [f"opprof: when test_m.py::test_b failed, {ran}. To rule this out as the cause: {advice}"]
    )
    result = suite("--opprof-all", "--opprof-update", *advice.split())
    result.assert_outcomes(passed=2)


DRAWS = """
import random
SEEN = []
random.seed(7)
{test}
def test_b(): SEEN.append(random.random())
def test_c(): assert SEEN[0] == {expected}
"""


@pytest.mark.parametrize(
    "test",
    ["def test_a(): random.random()", "def test_a(opprof):\n    with opprof('draw'): random.random()"],
    ids=["body", "window"],
)
def test_later_tests_draw_the_numbers_that_they_draw_without_opprof(
    pytester: pytest.Pytester, suite: Suite, test: str
) -> None:
    generator = random.Random(7)
    _, expected = generator.random(), generator.random()
    pytester.makepyfile(test_m=DRAWS.format(test=test, expected=expected))
    suite("--opprof-all", "--opprof-python", "--opprof-memory").assert_outcomes(passed=3)


def test_fewer_calls_are_told_and_fail_nothing(
    pytester: pytest.Pytester, tokenizer: Callable[..., pytest.RunResult]
) -> None:
    tokenizer(ONE_BY_ONE, "--opprof-update").assert_outcomes(passed=1)
    result = tokenizer(AT_ONCE, "--opprof", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*calls of Python functions: * (baseline: 1*)*"])


def test_an_accepted_change_is_the_new_baseline(
    pytester: pytest.Pytester, tokenizer: Callable[..., pytest.RunResult]
) -> None:
    tokenizer(ONE_BY_ONE, "--opprof-update").assert_outcomes(passed=1)
    functions = flat(window(pytester, ".python.json")["functions"])  # type: ignore[arg-type]
    assert functions["list.index"] == 50
    tokenizer(ONE_BY_ONE).assert_outcomes(passed=1)


def test_ten_calls_more_are_no_regression_and_eleven_are(
    pytester: pytest.Pytester, suite: Suite, once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import pytest\n@pytest.mark.opprof(python=True)\ndef test_ids():\n    {}\n"
    pytester.makepyfile(test_m=source.format("len('a')"))
    suite("--opprof-update").assert_outcomes(passed=1)
    for calls, outcome in ((11, "passed"), (12, "failed")):
        more = Answer({"body": WindowBaseline({}, facts={"python_calls": Range(calls + 1, calls + 1)})}, "")
        looks(monkeypatch, more, more)
        pytester.makepyfile(test_m=source.format("; ".join(["len('a')"] * calls)))
        suite("--opprof").assert_outcomes(**{outcome: 1})


def test_a_baseline_of_another_python_is_not_compared_and_that_is_said(
    pytester: pytest.Pytester, tokenizer: Callable[..., pytest.RunResult]
) -> None:
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    here = f'"python": "{sys.version_info[0]}.{sys.version_info[1]}"'
    path.write_text(path.read_text().replace(here, '"python": "3.9"'))
    result = tokenizer(ONE_BY_ONE, "--opprof", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*calls of Python functions: [1-9]* (baseline: [1-9]*), not judged: python 3.* (baseline: 3.9); record them *"]
    )
    tokenizer(ONE_BY_ONE, "--opprof-update").assert_outcomes(passed=1)
    assert here in path.read_text()
    assert window(pytester, ".json")["facts"]["python_calls"] > 100  # type: ignore[operator]


def test_more_calls_with_another_version_of_a_package_are_said_with_the_way_to_compare_them(
    pytester: pytest.Pytester, tokenizer: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    here = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    path.write_text(path.read_text().replace(json.dumps(here), json.dumps({"django": "4.2.1", **here})))
    monkeypatch.setattr(tally, "versions", lambda names, own: {"django": "4.2.2", **here})
    result = tokenizer(ONE_BY_ONE, "--opprof", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*calls of Python functions: [1-9]* (baseline: [1-9]*), not judged: django 4.2.2 (baseline: 4.2.1);"
            " opprof_sites_show = django in the ini file compares them all the same, or record them with *"
        ]
    )


def test_a_baseline_without_counts_is_said(pytester: pytest.Pytester, suite: Suite, once: None) -> None:
    plain = "from pytest_opprof.backends import fake\n" + TEST.replace("python=True", "")
    pytester.makepyfile(test_m=plain.replace("    known", "    fake.launch('Add')\n    known"), tokenizer=AT_ONCE)
    suite("--opprof-update").assert_outcomes(passed=1)
    result = suite("--opprof", "--opprof-python", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*calls of Python functions not compared: the baseline has none*"])
    suite("--opprof-update", "--opprof-python").assert_outcomes(passed=1)
    assert window(pytester, ".json")["facts"]


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(pool: Pool, file: str, test: str, *, slow: bool, lines: bool) -> Answer:
        raise BackendError("none is started in this test")

    monkeypatch.setattr(Pool, "cold", none)


def test_a_body_that_cannot_run_twice_passes_and_says_so(
    pytester: pytest.Pytester, suite: Suite, once: None, no_process: None
) -> None:
    pytester.makepyfile(
        test_m="""
        import pytest
        from pytest_opprof.backends import fake
        @pytest.mark.opprof(python=True)
        def test_ids(tmp_path):
            fake.launch("Add")
            (tmp_path / "new").mkdir()
        """
    )
    result = suite("--opprof", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*were not counted: the body cannot run twice: FileExistsError: *"])
    result.stdout.no_fnmatch_line("*--opprof-python counts them*")


def test_a_body_that_cannot_run_twice_is_said_to_be_counted_on_request(
    pytester: pytest.Pytester, suite: Suite, once: None
) -> None:
    pytester.makepyfile(
        test_m="import pytest\n@pytest.mark.opprof\ndef test_ids(tmp_path): (tmp_path / 'new').mkdir()\n"
    )
    result = suite("--opprof-update", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*the body cannot run twice: *; --opprof-python counts them in a fresh process*"])


def test_a_limit_on_what_was_not_counted_is_an_error(pytester: pytest.Pytester, suite: Suite, no_process: None) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.op_budget(python_calls=10)
        def test_a(tmp_path):
            (tmp_path / "new").mkdir()
        """
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*the limit on calls of Python functions (10) cannot be checked: the body cannot run *"]
    )


BUDGETS = """
import json, sqlite3
import pytest

@pytest.mark.op_budget({limits})
def test_a():
    connection = sqlite3.connect(":memory:")
    cursor = connection.cursor()
    for number in range(4):
        cursor.execute("select ?", [number])
    json.loads("[1]")
    connection.close()
"""


@pytest.mark.parametrize(
    "limits",
    [
        '{"python:sqlite3.Cursor.execute": 4, "python:json.loads": 1}',
        '{"python:json.*": 4}',
        'python_calls="1k"',
        "collections=0",
        '{"python:json.dumps": 0}',
        '{"python:plistlib.loads": 0}',
    ],
)
def test_a_budget_that_is_kept_passes(pytester: pytest.Pytester, suite: Suite, limits: str) -> None:
    pytester.makepyfile(BUDGETS.format(limits=limits))
    suite("--opprof").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (
            '{"python:sqlite3.Cursor.execute": 3}',
            [
                "  python:sqlite3.Cursor.execute: 4 calls (budget: 3)",
                "    `test_a` at *.py:9 calls `sqlite3.Cursor.execute` 4 times",
            ],
        ),
        ('{"python:json.*": 0}', ["  python:json.[*]: * calls (budget: 0)"]),
        ("python_calls=3", ["  calls of Python functions: * (budget: 3)"]),
    ],
)
def test_a_budget_that_is_broken_fails_with_the_line(
    pytester: pytest.Pytester, suite: Suite, limits: str, said: list[str]
) -> None:
    pytester.makepyfile(BUDGETS.format(limits=limits))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(said)


def test_a_name_that_no_module_has_is_an_error_with_the_nearest(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(BUDGETS.format(limits='{"python:sqlite3.Cursor.excute": 3}'))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*unknown function 'python:sqlite3.Cursor.excute'*: did you mean 'sqlite3.Cursor.execute'?*"]
    )


def test_a_function_counts_by_the_name_under_which_a_program_imports_it(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(
        """
        import os, pytest
        @pytest.mark.op_budget({"python:os.path.join": 1})
        def test_a():
            os.path.join("a", "b")
            os.path.join("a", "b")
        """
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  python:os.path.join: 2 calls (budget: 1)"])


def test_windows_have_counts_of_their_own(pytester: pytest.Pytester, suite: Suite, once: None) -> None:
    pytester.makepyfile(
        test_m="""
        from pytest_opprof.backends import fake
        def test_ids(opprof):
            sorted([2, 1])
            with opprof("inside") as window:
                fake.launch("Add")
                [abs(number) for number in range(30)]
            assert window.calls == 1
            for _ in opprof.rounds(2, name="rounds"):
                fake.launch("Add")
                abs(1)
        """
    )
    suite("--opprof-update", "--opprof-python").assert_outcomes(passed=1)
    windows = file(pytester, ".python.json")["tests"]["test_ids"]  # type: ignore[index]
    assert flat(windows["inside"]["functions"])["builtins.abs"] == 30
    assert flat(windows["rounds"]["functions"])["builtins.abs"] == 1
    assert "builtins.sorted" not in flat(windows["inside"]["functions"])


def test_lines_of_a_window_are_those_inside_it(pytester: pytest.Pytester, suite: Suite, once: None) -> None:
    source = """
        import shop
        from pytest_opprof.backends import fake
        def test_ids(opprof):
            with opprof("one"):
                fake.launch("Add")
                shop.total({0})
            with opprof("two"):
                fake.launch("Add")
                shop.total({0} + 1)
        """
    pytester.makepyfile(
        shop="def total(count):\n    return [abs(each) for each in range(count)]\n", test_m=source.format(1)
    )
    assert suite("--opprof-update", "--opprof-python").ret == 0
    pytester.makepyfile(test_m=source.format(99))
    result = suite("--opprof", "--opprof-python", "-rN")
    result.assert_outcomes(failed=1)
    lines = [re.search(r"test_m.py:\d+|shop.py:\d+", line) for line in result.outlines if " calls `" in line]
    assert [found and found[0] for found in lines] == ["shop.py:2", "shop.py:2"]


def test_a_full_collection_for_each_item_fails(
    pytester: pytest.Pytester, suite: Suite, once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "import gc, pytest\n@pytest.mark.opprof(python=True)\ndef test_ids():\n    for _ in range({}): gc.collect()\n"
    )
    pytester.makepyfile(test_m=source.format(1))
    suite("--opprof-update").assert_outcomes(passed=1)
    more = Answer({"body": WindowBaseline({}, facts={"collections": Range(5, 5)})}, "")
    looks(monkeypatch, more, more)
    pytester.makepyfile(test_m=source.format(5))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["  full garbage collections: 5 (baseline: 1)", "    `test_ids` at test_m.py:4 calls `gc.collect` 5 times"]
    )


@needs_loops
def test_a_loop_without_a_call_fails_with_its_line(
    pytester: pytest.Pytester, suite: Suite, once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "import pytest\n@pytest.mark.opprof(python=True)\ndef test_ids():\n    total = 0\n    for n in {}: total += n\n"
    )
    pytester.makepyfile(test_m=source.format("(1, 2)"))
    suite("--opprof-update").assert_outcomes(passed=1)
    more = Answer({"body": WindowBaseline({}, facts={"loop_iterations": Range(500, 500)})}, "")
    looks(monkeypatch, more, more)
    pytester.makepyfile(test_m=source.format("range(500)"))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  loop iterations: 500 (baseline: 2)",
            "    the loop in `test_ids` at test_m.py:5 runs 500 times (baseline: 2 in this function)",
        ]
    )


@needs_loops
@pytest.mark.parametrize("head", ["for n in range({}):", "while total < {}:"])
def test_a_loop_is_named_by_the_line_where_it_begins(
    pytester: pytest.Pytester, suite: Suite, once: None, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    rest = "        if total >= 0:\n            total += 1\n        elif total:\n            pass\n"
    source = f"import pytest\n@pytest.mark.opprof(python=True)\ndef test_ids():\n    total = 0\n    {head}\n{rest}"
    pytester.makepyfile(test_m=source.format(2))
    suite("--opprof-update").assert_outcomes(passed=1)
    more = Answer({"body": WindowBaseline({}, facts={"loop_iterations": Range(500, 500)})}, "")
    looks(monkeypatch, more, more)
    pytester.makepyfile(test_m=source.format(500))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["    the loop in `test_ids` at test_m.py:5 runs * times*"])


@needs_loops
@pytest.mark.slow
@pytest.mark.processes
def test_a_loop_fails_under_a_plain_mark_and_is_the_same_in_all_processes(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    source = "import pytest\n@pytest.mark.opprof\ndef test_ids():\n    total = 0\n    for n in range({}): total += n\n"
    pytester.makepyfile(test_m=source.format(300))
    updated = suite("--opprof-update")
    updated.assert_outcomes(passed=1)
    updated.stdout.no_fnmatch_line("*vary*")
    pytester.makepyfile(test_m=source.format(5000))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  loop iterations: 5,000 (baseline: 300)"])


def test_a_wrong_value_of_the_mark_is_an_error(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.opprof(python='yes')\ndef test_a():\n    pass\n")
    result = suite("--opprof")
    result.stderr.fnmatch_lines(["*opprof(python='yes'): write True or False"])


def test_the_flag_alone_does_nothing_and_says_so(pytester: pytest.Pytester, suite: Suite) -> None:
    result = suite("--opprof-python")
    result.stderr.fnmatch_lines(["*--opprof-python does nothing without --opprof"])


def test_a_broken_file_of_functions_is_said_where_a_test_fails(
    pytester: pytest.Pytester, tokenizer: Callable[..., pytest.RunResult], confirmed: None
) -> None:
    (path,) = pytester.path.glob("baselines/*/*.python.json")
    Path(path).write_text('{"schema": 1, "tests": 3}')
    result = tokenizer(ONE_BY_ONE, "--opprof", "-v")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*calls `list.*` 50 times*"])
    result.stdout.no_fnmatch_line("*Traceback*")


FRESH = """
import pytest, random
from pytest_opprof.backends import fake

@pytest.mark.opprof(python=True)
def test_ids(tmp_path):
    fake.launch("Add")
    (tmp_path / "new").mkdir()
    [abs(number) for number in range({calls})]

@pytest.mark.opprof(python=True)
def test_drawn():
    fake.launch("Add")
    [abs(number) for number in range(random.randrange(100, 10**4))]
"""


@pytest.mark.slow
@pytest.mark.processes
def test_fresh_processes_count_what_runs_once_and_show_what_varies(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=FRESH.format(calls=30))
    result = pytester.runpytest_inprocess("--opprof-update")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["test_m.py::test_drawn: calls of Python functions vary from run to run: *"])
    assert "varies" in window(pytester, ".json", "test_drawn")["facts"]["python_calls"]  # type: ignore[operator]
    before = window(pytester, ".json")["facts"]["python_calls"]
    pytester.makepyfile(test_m=FRESH.format(calls=60))
    result = pytester.runpytest_inprocess("--opprof", "-k", "test_ids")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "opprof: test_m.py::test_ids: the body cannot run twice: FileExistsError: *; counting its Python calls *",
            f"  calls of Python functions: {before + 30} (baseline: {before})",  # type: ignore[operator]
            "    `test_ids` at test_m.py:8 calls `builtins.abs` 60 times (baseline: 30)",
        ]
    )


PLAIN = TEST.replace("(python=True)", "")


def test_a_body_without_ops_is_counted_by_itself(
    pytester: pytest.Pytester, suite: Suite, once: None, confirmed: None
) -> None:
    pytester.makepyfile(test_m=PLAIN, tokenizer=AT_ONCE)
    suite("--opprof-update").assert_outcomes(passed=1)
    assert window(pytester, ".json")["facts"]
    suite("--opprof").assert_outcomes(passed=1)
    pytester.makepyfile(tokenizer=ONE_BY_ONE)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r"    `to_ids` at tokenizer.py:5 calls `list\.\w+` 50 times \(baseline: 0\); .*"])


RUNS = """
import gc
import pytest
from pathlib import Path

@pytest.fixture(scope="module")
def shared():
    return 1

@pytest.mark.opprof
def test_ids(shared):
    with Path(__file__).with_name("runs").open("a") as runs:
        runs.write("-" if gc.get_freeze_count() else "x")
"""


def check_runs(pytester: pytest.Pytester) -> None:
    runs = (pytester.path / "runs").read_text()
    assert runs.count("x") - (3 * 3 + 2) in (0, 1)
    # While older objects are frozen: for leaks two to four times in the first, for the time of repeated runs up to 30
    # times in the first two, unless coverage traces them.
    assert runs.count("-") in range(2, 4 + 2 * 30 + 1)


@pytest.mark.slow
@pytest.mark.processes
def test_an_update_counts_calls_and_memory_once_in_each_process(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_m=RUNS)
    pytester.runpytest_inprocess("-pno:asyncio", "--opprof-update").assert_outcomes(passed=1)
    # Measured, counted and traced in three processes; measured twice more in the last, and run without recording if it
    # took 2 ms in one of them.
    check_runs(pytester)


@pytest.mark.slow
@pytest.mark.processes
def test_an_update_looks_for_the_lines_of_ops_and_of_no_call(pytester: pytest.Pytester) -> None:
    source = RUNS.replace("import pytest", "import numpy as np\nimport pytest").replace(
        "opprof\n", "opprof(python=True)\n"
    )
    pytester.makepyfile(test_m=f"{source}    np.ones(9) + 1\n")
    pytester.runpytest_inprocess("-pno:asyncio", "--opprof-update").assert_outcomes(passed=1)
    assert file(pytester, ".sites.json")
    # Measured, counted and run for its memory in three processes; measured twice more in the last, and run without
    # recording if it took 2 ms in one of them, as under coverage.
    check_runs(pytester)


def test_a_body_with_ops_is_counted_only_where_that_is_asked(
    pytester: pytest.Pytester, suite: Suite, once: None
) -> None:
    source = "from pytest_opprof.backends import fake\n" + PLAIN
    pytester.makepyfile(test_m=source.replace("    known", "    fake.launch('Add')\n    known"), tokenizer=AT_ONCE)
    suite("--opprof-update").assert_outcomes(passed=1)
    assert "python_calls" not in str(window(pytester, ".json"))


def with_ops(ops: int) -> str:
    return "import numpy as np\n" + PLAIN.replace("    known", f"    for _ in range({ops}): np.abs(-1)\n    known")


@pytest.mark.parametrize(("ops", "outcome"), [(10_000, "failed"), (10_001, "passed")])
def test_a_body_with_few_ops_of_numpy_is_counted_by_an_update_and_by_runs_after_it(
    pytester: pytest.Pytester, suite: Suite, once: None, ops: int, outcome: str
) -> None:
    # No calls: from Python 3.12 on those of a ufunc count, and 50 are less than 1 % of 10,000.
    adding = with_ops(ops).replace("np.abs(-1)", "ONE + ONE").replace("as np\n", "as np\nONE = np.ones(1)\n", 1)
    pytester.makepyfile(test_m=adding, tokenizer=AT_ONCE)
    suite("--opprof-update", "--opprof-backend=numpy").assert_outcomes(passed=1)
    suite("--opprof", "--opprof-backend=numpy").assert_outcomes(passed=1)
    pytester.makepyfile(tokenizer=ONE_BY_ONE)
    result = suite("--opprof", "--opprof-backend=numpy")
    result.assert_outcomes(**{outcome: 1})
    assert ("`to_ids` at tokenizer.py:5 calls" in result.stdout.str()) is (outcome == "failed")


def test_calls_that_the_baseline_has_are_counted_beside_more_ops_than_few(
    pytester: pytest.Pytester, suite: Suite, once: None
) -> None:
    pytester.makepyfile(test_m=with_ops(990), tokenizer=AT_ONCE)
    suite("--opprof-update", "--opprof-backend=numpy")
    pytester.makepyfile(test_m=with_ops(1_010), tokenizer=ONE_BY_ONE)
    result = suite("--opprof", "--opprof-backend=numpy")
    result.stdout.fnmatch_lines(["  Abs: 1010 calls (baseline: 990)*", "  calls of Python functions: *"])


def test_a_baseline_of_ops_that_has_no_calls_is_compared_without_them(
    pytester: pytest.Pytester, suite: Suite, once: None
) -> None:
    pytester.makepyfile(test_m=with_ops(9), tokenizer=AT_ONCE)
    suite("--opprof-update", "--opprof-backend=numpy", "--no-opprof-python")
    pytester.makepyfile(tokenizer=ONE_BY_ONE)
    suite("--opprof", "--opprof-backend=numpy").assert_outcomes(passed=1)
    suite("--opprof-update", "--opprof-backend=numpy").assert_outcomes(passed=1)
    assert window(pytester, ".json")["facts"]


@pytest.mark.parametrize("no", ["--no-opprof-python", "-oopprof_python=false", "mark"])
def test_counting_can_be_switched_off(pytester: pytest.Pytester, suite: Suite, once: None, no: str) -> None:
    source = TEST.replace("python=True", "python=False") if no == "mark" else PLAIN
    pytester.makepyfile(test_m=source, tokenizer=AT_ONCE)
    suite("--opprof-update", *([] if no == "mark" else [no])).assert_outcomes(passed=1)
    assert "python_calls" not in str(window(pytester, ".json"))


def test_a_body_without_ops_that_cannot_run_twice_passes_and_starts_no_process(
    pytester: pytest.Pytester, suite: Suite, once: None, no_process: None
) -> None:
    pytester.makepyfile(
        test_m="""
        import pytest
        @pytest.mark.opprof
        def test_ids(tmp_path):
            (tmp_path / "new").mkdir()
        """
    )
    result = suite("--opprof-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*were not counted: the body cannot run twice: FileExistsError: *"])
    result = suite("--opprof", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*in a fresh process*")
    result.stdout.no_fnmatch_line("*not counted*")


@pytest.mark.parametrize(
    ("body", "why_not_again", "calls"),
    [
        ('(tmp_path / "new").mkdir()', "", "were not counted: the body cannot run twice: FileExistsError"),
        ("pass", "its subtests would be reported twice", "are not compared: this run could not count them"),
    ],
)
def test_a_body_without_ops_that_can_no_longer_run_twice_says_that_its_calls_and_memory_are_not_compared(
    pytester: pytest.Pytester,
    suite: Suite,
    monkeypatch: pytest.MonkeyPatch,
    no_process: None,
    body: str,
    why_not_again: str,
    calls: str,
) -> None:
    test = "import pytest\n@pytest.mark.opprof\ndef test_ids(tmp_path):\n    [str(i) for i in range(99)]\n"
    pytester.makepyfile(test_m=test)
    suite("--opprof-update").assert_outcomes(passed=1)
    monkeypatch.setattr(body_module, "why_not_again", lambda test: why_not_again)
    pytester.makepyfile(test_m=f"{test}    {body}\n")
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines_random(
        [f"*calls of Python functions {calls}*", "*peak memory of the host is not compared: this run could not *"]
    )


def test_a_limit_on_an_op_that_never_runs_stays_an_error_where_calls_are_counted(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.op_budget(Cast=1)\ndef test_a():\n    sorted([2, 1])\n")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*nothing was recorded*"])


def test_the_lines_that_run_in_place_of_ops_are_named(
    pytester: pytest.Pytester, suite: Suite, once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sampler, "lines", lambda sampler: [Where("91% of the time is at tokenizer.py:6 in to_ids `x`")])
    source = "from pytest_opprof.backends import fake\n" + PLAIN
    pytester.makepyfile(test_m=source.replace("    known", "    fake.launch('Add')\n    known"), tokenizer=ONE_BY_ONE)
    suite("--opprof-update").assert_outcomes(passed=1)
    pytester.makepyfile(test_m=source)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  nothing was recorded, 1 call of 1 op in the baseline",
            "    91% of the time is at tokenizer.py:6 in to_ids *",
        ]
    )
