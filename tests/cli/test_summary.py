from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import pytest_opprof
from pytest_opprof.cli.main import main
from pytest_opprof.profile.site_calls import SourceLine
from pytest_opprof.report import exports
from pytest_opprof.report.markdown import LEAST_BYTES, markdown
from pytest_opprof.results import run_result
from pytest_opprof.results.test_result import TestRecord

from ..report.made_runs import record_of, run

CAST = ({"Cast": 1, "Add": 2}, {"Cast": 3, "Add": 2})
QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string"},
            "check_name": {"type": "string"},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^[^./]"},
                    "lines": {"type": "object", "required": ["begin"], "properties": {"begin": {"type": "integer"}}},
                },
            },
        },
    },
}
"""What GitLab's documentation asks of a code quality report."""
LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)\{{{LABEL}(?:,{LABEL})*\}} (\d+(?:\.\d+)?)")
DESCRIPTOR = re.compile(r"# (?:TYPE ([\w:]+) gauge|UNIT ([\w:]+) seconds|HELP ([\w:]+) \S.*)")
"""Of the grammar of OpenMetrics 1.0, as far as gauges with labels need it."""


def timed(test: TestRecord, rounds: int = 10) -> TestRecord:
    """Return the test as if its windows had been measured in so many rounds."""
    windows = [structs.replace(each, rounds=rounds, host_ns=tuple(range(5, 5 + rounds))) for each in test.windows]
    return structs.replace(test, windows=windows)


@pytest.fixture
def run_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    run_result.write(
        Path("run.json"), run(record_of("t.py::a[x]", *CAST, Cast=2), record_of("t.py::b", *[{"Add": 1}] * 2))
    )
    return "run.json"


def test_markdown_of_a_file_is_what_the_run_itself_says(run_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", run_json]) == 0
    whole = run(record_of("t.py::a[x]", *CAST, Cast=2), record_of("t.py::b", *[{"Add": 1}] * 2))
    assert capsys.readouterr().out == markdown(whole)


def test_markdown_is_cut_for_a_comment(run_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_result.write(Path(run_json), run(*(record_of(f"t.py::test_{n}", *CAST) for n in range(40))))
    assert main(["summary", run_json, "--max-bytes", str(LEAST_BYTES)]) == 0
    out = capsys.readouterr().out
    assert len(out.encode()) <= LEAST_BYTES
    assert "Left out for their size: " in out


@pytest.mark.parametrize("words", [["--max-bytes", "8191"], ["--max-bytes", "60000", "--format", "benchmark"]])
def test_a_size_is_one_of_markdown_and_large_enough(
    run_json: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", run_json, *words]) == 2
    assert capsys.readouterr().err == f"opprof: --max-bytes {words[1]}: wants --format markdown, and at least 8192\n"


def test_code_quality_has_an_entry_for_each_finding(run_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", run_json, "--format=code-quality"]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, QUALITY)
    accept = "raise the limit in its op_budget mark, then pytest 't.py::a[x]' --opprof-update"
    assert [(each["description"], each["check_name"]) for each in found] == [
        (f"t.py::a[x]: Cast: 3 calls (budget: 2, baseline: 1) (to accept: {accept})", "opprof more calls")
    ]
    assert found[0]["location"] == {"path": "t.py", "lines": {"begin": 7}}


def test_code_quality_points_at_the_line_that_causes_the_finding() -> None:
    record = record_of("t.py::a", {"Cast": 1}, {"Cast": 3})
    line = SourceLine("nets.py", 31, "forward", "x = x.double()")
    (window,) = record.windows
    located = tuple(structs.replace(each, line=line) for each in window.findings)
    record.windows = [structs.replace(window, findings=located)]
    (found,) = json.loads(exports.code_quality(run(record)))
    assert found["location"] == {"path": "nets.py", "lines": {"begin": 31}}
    assert "`x = x.double()`" in found["description"]


def test_a_fingerprint_stays_while_numbers_change() -> None:
    def fingerprints(test: str, now: int) -> list[str]:
        whole = run(record_of(test, {"Cast": 1, "Add": 1}, {"Cast": now, "Add": now}, Cast=1))
        return [each["fingerprint"] for each in json.loads(exports.code_quality(whole))]

    assert fingerprints("t.py::a", 3) == fingerprints("t.py::a", 5)
    assert len({*fingerprints("t.py::a", 3), *fingerprints("t.py::b", 3)}) == 4


def test_openmetrics_has_calls_of_all_and_times_of_many_rounds(
    run_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", run_json, "--format=openmetrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'opprof_calls{test="t.py::a[x]",window="body",op="Cast"} 3' in lines
    assert not any(line.startswith("opprof_wall_seconds{") for line in lines)
    whole = run(timed(record_of("t.py::a", *CAST)))
    assert 'opprof_wall_seconds{test="t.py::a",window="body"} 0.000000005' in exports.openmetrics(whole).splitlines()


@given(st.text(min_size=1), st.text(st.sampled_from('a"\\\n{},=# '), min_size=1))
def test_openmetrics_keeps_to_its_grammar(name: str, op: str) -> None:
    text = exports.openmetrics(run(timed(record_of(f"t.py::{name}", {"Add": 1}, {op: 2, "Add": 1}))))
    assert text.endswith("\n# EOF\n")
    family, seen = "", []
    for line in text.removesuffix("# EOF\n").removesuffix("\n").split("\n"):
        found = DESCRIPTOR.fullmatch(line) or SAMPLE.fullmatch(line)
        assert found, line
        named = next(filter(None, found.groups()))
        if named != family:
            assert named not in seen  # the lines of a family stand together
            family = named
            seen.append(family)
    assert seen == ["opprof_calls", "opprof_wall_seconds"]


def test_the_series_of_github_action_benchmark(run_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", run_json, "--format=benchmark"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"name": "t.py::a[x] calls", "unit": "calls", "value": 5},
        {"name": "t.py::b calls", "unit": "calls", "value": 1},
    ]
    assert json.loads(exports.benchmark(run(timed(record_of("t.py::a", *CAST)))))[1] == {
        "name": "t.py::a time",
        "unit": "ns",
        "value": 5,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "run.json: cannot be read: No such file or directory"),
        ('{"schema": 4, "tests": 1}', "run.json: is no valid file of --opprof-json: "),
        (
            '{"environment": {}, "schema": 4, "tests": {}}',
            "run.json: is a baseline file; name the JSON of pytest --opprof",
        ),
    ],
)
def test_another_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("run.json").write_text(text)
    assert main(["summary", "run.json"]) == 2
    assert capsys.readouterr().err.startswith(f"opprof: {said}")


def test_a_run_appends_its_summary_and_its_json_gives_the_same(
    pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    test = "import pytest\nfrom pytest_opprof.backends import fake\n\n@pytest.mark.op_budget(Cast=1)\ndef test_a():\n"
    pytester.makepyfile(test_m=f"{test}    fake.launch('Cast')\n    fake.launch('Cast')\n")
    found = pytester.path / "summary.md"
    found.write_text("Before\n")
    assert suite("--opprof", "--opprof-summary=summary.md", "--opprof-json=run.json").ret == 1
    said = found.read_text(encoding="utf-8")
    assert said.startswith("Before\n## opprof: 1 of 1 test exceeds its budget or baseline\n")
    assert "<summary>▲ <code>test_m.py::test_a</code>: Cast: 2 calls (budget: 1)</summary>" in said
    capsys.readouterr()
    assert main(["summary", "run.json"]) == 0
    assert capsys.readouterr().out == said.removeprefix("Before\n")
    document = json.loads(Path("run.json").read_text())
    schema = Path(pytest_opprof.__file__).parent / "schema" / "run-4.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    assert document["tests"][0]["line"] == 4
    assert document["tests"][0]["windows"][0]["findings"] == [
        {"rule": "calls", "op": "Cast", "text": "Cast: 2 calls (budget: 1)", "short": "Cast 2, budget 1"}
    ]


@pytest.mark.processes
def test_with_workers_it_is_appended_once(pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult]) -> None:
    pytester.makepyfile(
        "import pytest\nfrom pytest_opprof.backends import fake\n\n@pytest.mark.parametrize('n', range(4))\n"
        "@pytest.mark.op_budget(Cast=1)\ndef test_a(n):\n    fake.launch('Cast')\n"
    )
    assert suite("--opprof", "-n2", "--opprof-summary=s.md").ret == 0
    head, _, tests = (pytester.path / "s.md").read_text(encoding="utf-8").partition("\n\n")
    assert head == "## opprof: none of 4 tests exceeds its budget or baseline"
    assert tests == "Tests: 4 within their budget and without baseline.\n"


def test_a_variable_that_is_not_set_is_an_error(suite: Callable[..., pytest.RunResult]) -> None:
    found = suite("--opprof", "--opprof-summary=")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(["*--opprof-summary is empty: is the variable that names the file set?*"])


def test_what_cannot_be_written_fails_the_run(
    pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile("def test_a(): pass")
    found = suite("--opprof", "--opprof-summary=.")
    assert found.ret == pytest.ExitCode.TESTS_FAILED
    found.stdout.fnmatch_lines(["opprof: error: --opprof-summary: * cannot be written: Is a directory"])


def test_shards_are_one_run(run_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    tests = [record_of("t.py::a[x]", *CAST, Cast=2), record_of("t.py::b", *[{"Add": 1}] * 2)]
    for name, test in zip("12", tests):
        run_result.write(Path(f"run-{name}.json"), run(test))
    assert main(["summary", "run-1.json", "run-2.json"]) == 0
    assert capsys.readouterr().out == markdown(run(*tests))
