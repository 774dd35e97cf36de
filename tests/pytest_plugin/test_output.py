"""What a run prints, by verbosity, and what it writes with --opprof-json."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

import pytest_opprof

from ..conftest import thrice

Suite = Callable[..., pytest.RunResult]
MODEL = """
import pytest
from pytest_opprof.backends import fake
OPS = {ops}
def work():
    for n, op in enumerate(OPS): fake.launch(op, device_ns=1_000 + n)
@pytest.mark.op_budget(Cast={limit})
def test_broken(): work()
@pytest.mark.opprof
def test_fine(): work()
"""
MANY = [f"mylib::op{n}" for n in range(9)]


@pytest.fixture
def broken(pytester: pytest.Pytester, suite: Suite) -> Suite:
    pytester.makepyfile(test_m=MODEL.format(ops=[*MANY, "Cast"], limit=1))
    suite("--opprof-update")
    pytester.makepyfile(test_m=MODEL.format(ops=[*MANY, "Cast"], limit=0))
    return suite


def test_by_default_a_failing_test_shows_what_broke_and_the_top_ops(broken: Suite) -> None:
    result = broken("--opprof")
    result.stdout.fnmatch_lines(["Cast *over budget*", "... and 5 more ops (-v shows them)"])
    result.stdout.no_fnmatch_line("window *")


CASTS = """
import pytest
from pytest_opprof.backends import fake
def work(casts):
    for _ in range(casts): fake.launch("Cast", device_ns=1_000)
@pytest.mark.xfail
@pytest.mark.parametrize("n", [1])
@pytest.mark.op_budget(Cast=0)
def test_known(n): work(n)
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.op_budget(Cast=0)
def test_a(n): work(n)
@pytest.mark.op_budget(Cast=0)
def test_b(): work(4)
"""


def test_of_tests_that_fail_for_the_same_cause_the_first_shows_the_table(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(test_m=CASTS)
    result = suite("--opprof")
    result.assert_outcomes(failed=4, xfailed=1)
    same = "  (the same cause as test_m.py::test_a[1], which shows ops and lines; -v shows them)"
    result.stdout.fnmatch_lines(
        [
            "*: test_m.py::test_a[[]1]*",
            "Cast *1*over budget",
            "*: test_m.py::test_a[[]2]*",
            "  Cast: 2 calls (budget: 0)",
            same.replace("[", "[[]"),
            "",
            "to accept this change: *",
            "*: test_m.py::test_b *",
            "Cast *4*over budget",
        ]
    )
    assert result.stdout.lines.count(same) == 2
    assert sum(line.startswith("Cast ") for line in result.stdout.lines) == 2
    assert sum(line.startswith("Cast ") for line in suite("--opprof", "-v").stdout.lines) == 4


def test_top_sets_how_many_ops_are_shown(broken: Suite, pytester: pytest.Pytester) -> None:
    broken("--opprof", "--opprof-top=2").stdout.fnmatch_lines(["... and 8 more ops*"])
    broken("--opprof", "-o", "opprof_top=3").stdout.fnmatch_lines(["... and 7 more ops*"])
    pytester.makepyfile(
        test_m=MODEL.format(ops=[*MANY, "Cast"], limit=0).replace(
            "@pytest.mark.op_b", "@pytest.mark.opprof(top=4)\n@pytest.mark.op_b"
        )
    )
    broken("--opprof").stdout.fnmatch_lines(["... and 6 more ops*"])


def test_q_prints_only_failures_and_one_line(broken: Suite) -> None:
    result = broken("--opprof", "-q")
    result.stdout.fnmatch_lines(
        ["  Cast: 1 call (budget: 0)", "opprof: 2 tests measured, 1 ok, 1 over budget, no times judged"]
    )
    result.stdout.no_fnmatch_line("*---- opprof ----*")


def test_q_of_a_run_that_passes_is_one_line(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=MODEL.format(ops=["Cast"], limit=1))
    lines = suite("--opprof", "-q").stdout.lines
    assert [line for line in lines if "opprof" in line or "baseline" in line] == [
        "opprof: 2 tests measured, 0 ok, 1 without baseline, 1 within its budget and without baseline"
    ]


def test_v_shows_every_op_of_failing_tests(broken: Suite) -> None:
    result = broken("--opprof", "-v")
    for op in MANY:
        result.stdout.fnmatch_lines([f"{op} *"])
    result.stdout.no_fnmatch_line("... and*")


def test_vv_shows_every_op_of_every_test(broken: Suite) -> None:
    at_the_end = broken("--opprof", "-vv").stdout.str().split("- opprof -")[1].split("short test summary")[0]
    assert at_the_end.count("mylib::op3 ") == 2


def test_tests_without_a_baseline_are_listed_shortly(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m="import pytest\nfrom pytest_opprof.backends import fake\n"
        "@pytest.mark.opprof\n@pytest.mark.parametrize('n', range(9))\ndef test_a(n): fake.launch('Add')\n"
    )
    suite("--opprof").stdout.fnmatch_lines(["no baseline for fake 1*: *[[]0[]], *[[]1[]], *[[]2[]] and 6 more"])
    every = [f"  test_m.py::test_a[[]{number}[]]" for number in range(9)]
    suite("--opprof", "-v").stdout.fnmatch_lines(["no baseline for fake 1*:", *every], consecutive=True)


def test_the_header_says_what_measures_and_where_baselines_are(broken: Suite) -> None:
    broken("--opprof").stdout.fnmatch_lines(
        ["opprof: backend fake, timing async, 1 thread where times are judged, baselines in *baselines"]
    )
    broken("--opprof-update").stdout.fnmatch_lines(["opprof: backend fake, *, updating them"])
    broken("--opprof-update-new").stdout.fnmatch_lines(["opprof: backend fake, *, adding new ones"])


def run_json(path: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads(path.read_text())
    schema = json.loads((Path(pytest_opprof.__file__).parent / "schema" / "run-4.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    return document


def test_everything_measured_is_written_as_json_by_its_schema(broken: Suite, pytester: pytest.Pytester) -> None:
    broken("--opprof", "--opprof-json=out/run.json")
    document = run_json(pytester.path / "out" / "run.json")
    assert document["summary"] == {"ok": 1, "over budget": 1}
    failing, fine = document["tests"]  # type: ignore[misc]
    assert (failing["id"], failing["outcome"], failing["status"]) == ("test_m.py::test_broken", "failed", "over budget")
    (window,) = failing["windows"]
    assert [each["text"] for each in window["findings"]] == ["Cast: 1 call (budget: 0)"]
    assert window["ops"]["Cast"] == {"calls": [1], "device_ns": [1009], "bytes": None, "flops": None}
    assert "kernels" not in window  # nothing told of any
    assert (fine["outcome"], fine["windows"][0]["verdict"]) == ("passed", "ok")


@pytest.mark.usefixtures("once")
def test_the_json_of_every_status_keeps_to_the_schema(pytester: pytest.Pytester, suite: Suite) -> None:
    template = """
import pytest
from pytest_opprof.backends import fake
pytestmark = pytest.mark.opprof
def test_more(): [fake.launch("Cast") for _ in range({more})]
def test_fewer(): [fake.launch("Cast") for _ in range({fewer})]
@pytest.mark.opprof(rounds=10)
def test_slower(): fake.launch("Cast", device_ns={slow})
@pytest.mark.op_budget(Csat=1)
def test_not_measured(): fake.launch("Cast")
@pytest.mark.opprof(baseline=False)
def test_no_baseline_wanted(): fake.launch("Cast")
@pytest.mark.op_budget(flops=10**9, peak_memory="1 GiB")
def test_everything(): fake.launch("Cast", flops=5, nbytes=8); fake.allocate(7)
"""
    pytester.makepyfile(test_m=template.format(more=1, fewer=2, slow=100_000))
    suite("--opprof-update")
    thrice(pytester)
    pytester.makepyfile(test_m=template.format(more=2, fewer=1, slow=400_000) + "def test_new(): fake.launch('Add')\n")
    suite("--opprof", "--opprof-json=run.json")
    document = run_json(pytester.path / "run.json")
    assert document["summary"] == {
        "improved": 1,
        "more calls": 1,
        "no baseline": 1,
        "not measured": 1,
        "ok": 2,
        "slower": 1,
    }


def test_json_that_cannot_be_written_fails_the_run_without_a_traceback(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=MODEL.format(ops=["Cast"], limit=1))
    pytester.path.joinpath("taken").write_text("")
    result = suite("--opprof", "--opprof-json=taken/run.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["opprof: error: --opprof-json: *run.json cannot be written: *"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_a_terminal_shows_what_is_worse_in_colour_and_junit_has_none(
    pytester: pytest.Pytester, suite: Suite, workers: list[str]
) -> None:
    pytester.makepyfile(
        "import pytest\nfrom pytest_opprof.backends import fake\n\n"
        "@pytest.mark.op_budget(Cast=0)\ndef test_a():\n    fake.launch('Cast')\n"
    )
    shown = suite("--opprof", "--color=yes", "--junitxml=junit.xml", *workers).stdout.str()
    assert "\x1b[31m  Cast: 1 call (budget: 0)\x1b[0m" in shown
    assert "#x1B" not in (pytester.path / "junit.xml").read_text(encoding="utf-8")
    plain = suite("--opprof", "--color=no", *workers).stdout.str()
    assert "\n  Cast: 1 call (budget: 0)\n" in plain


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_the_table_of_a_failing_test_fits_the_terminal(
    pytester: pytest.Pytester, suite: Suite, workers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "library::an_op_with_a_name_that_is_too_long_for_a_narrow_terminal"
    pytester.makepyfile(
        "import pytest\nfrom pytest_opprof.backends import fake\n\n"
        f"@pytest.mark.op_budget(calls=0)\ndef test_a():\n    fake.launch({name!r})\n"
    )
    for columns in (60, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = suite("--opprof", *workers).stdout.lines
        begin = next(number for number, line in enumerate(lines) if line.startswith("op  "))
        assert max(map(len, lines[begin : begin + 4])) <= columns
        assert (name in lines[begin + 2]) is (columns == 120)
