from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pytest_opprof.errors import UsageError
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.site_calls import SiteCalls, SourceLine
from pytest_opprof.report.escaping import markdown as escaped
from pytest_opprof.report.escaping import terminal as clean
from pytest_opprof.report.failure import Shown, failure
from pytest_opprof.report.markdown import MOST_BYTES, append, markdown
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.run_result import Stale
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.results.window_result import GrownLine, WindowNumbers
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.findings import Finding
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import Status, TimingVerdict, Verdict

from ..conftest import profile_of
from .made_runs import record_of, run

CAST = ({"Cast": 1, "Add": 2}, {"Cast": 3, "Add": 2})


def test_many_failures_of_one_op_are_one_row() -> None:
    tests = [record_of(f"t.py::test_step[{n}]", {"Cast": 1, "Add": 1}, {"Cast": 4, "Add": 1}) for n in range(11)]
    lines = markdown(
        run(*tests, record_of("t.py::test_b", {"Add": 9}, {"Add": 2}), record_of("t.py::test_c", *[{"Add": 1}] * 2))
    )
    lines = lines.splitlines()
    assert lines[0] == "## opprof: 11 of 13 tests exceed their budget or baseline"
    assert lines[2] == "Tests: 11 with more calls, 1 improved, 1 ok."
    assert lines[6].startswith("| <code>Cast</code> | ▲ more calls | 11 | +33 | ████████████████ |")
    assert lines[7].startswith("| <code>Add</code> | ▼ fewer calls | 1 | -7 | ███")
    assert sum(line.startswith("<details>") for line in lines) == 1
    assert "Shown: <code>&#91;0&#93;</code>; <code>&#91;1&#93;</code>, " in "\n".join(lines)
    assert lines[-1] == "To accept all of it: <code>pytest --opprof-update t.py</code>"


def test_the_line_that_asks_for_more_in_most_tests_stands_beside_the_op() -> None:
    test = record_of("t.py::a", {"Cast": 1}, {"Cast": 3})
    grown = {"Cast": (GrownLine(SourceLine("a|b.py", 7, "f", "x"), 2),)}
    test.windows = [structs.replace(window, grown=grown) for window in test.windows]
    assert "| 1 | +2 | ████████████████ | <code>a&#124;b.py:7</code> |" in markdown(run(test))


def test_a_function_is_told_with_its_findings_ops_lines_and_command() -> None:
    test = record_of("t.py::test_a", *CAST)
    sites = {"Cast": (SiteCalls(3, (SourceLine("model.py", 40, "forward", "x.astype(f8) @ w"),)),)}
    test.windows = [structs.replace(window, sites=sites) for window in test.windows]
    details = markdown(run(test)).partition("<details>")[2]
    assert details.startswith("<summary>▲ <code>t.py::test_a</code>: Cast: 3 calls (baseline: 1)</summary>")
    assert "| <code>Cast</code> | 1 → 3 | 1 us → 3 us" not in details  # one round: nothing to compare times with
    assert "| <code>Cast</code> | 1 → 3 |" in details
    assert "| <code>Add</code> | 2 |" in details
    line = "model.py:40 in forward  x.astype(f8) &#64;&#8203; w"
    assert f"- <code>Cast</code>: 3 calls from <code>{line}</code>" in details
    assert "To accept this change: <code>pytest t.py::test_a --opprof-update</code>" in details


def test_it_says_what_the_terminal_says_of_a_finding() -> None:
    base, now = ({"Cast": OpCounts(Range(calls))} for calls in (1, 3))
    numbers = WindowNumbers.of("body", profile_of([("Cast", 1000)] * 3))
    judged = JudgedWindow(
        numbers,
        diff=compare((base, {}), (now, {}), TimingVerdict(Verdict.INCOMPARABLE, "one round"), STORED),
        looked="not confirmed in a fresh process: it was lost",
        sites_lost="the 60 s limit was reached",
        trace_lacks="work of a GPU",
    )
    told = "\n".join(line.text for line in failure("t.py::a", [judged], "", Shown(top=1)))
    test = record_of("t.py::a", *CAST)
    test.windows = [judged.result("CPU", parallel=False, compared=True)]
    text = markdown(run(test))
    assert "- not confirmed in a fresh process: it was lost\n" in text
    assert "- source lines for Cast are unknown: the 60 s limit was reached\n" in text
    assert "- no trace: work of a GPU\n" in text
    for said in (judged.looked, judged.sites_lost, judged.trace_lacks):
        assert said in told
        assert said in text
    passes = replace(judged, diff=None).result("CPU", parallel=False, compared=False)
    assert (passes.looked, passes.sites_lost) == ("", "")  # nothing failed, so nobody needs them


def test_a_growth_beyond_budget_and_baseline_is_told_once_with_both_remedies() -> None:
    test = record_of("t.py::test_a", *CAST, Cast=2)
    (finding,) = test.windows[0].findings
    assert (finding.text, finding.over_budget) == ("Cast: 3 calls (budget: 2, baseline: 1)", True)
    assert test.status == Status.OVER_BUDGET
    text = markdown(run(test))
    assert "<summary>▲ <code>t.py::test_a</code>: Cast: 3 calls (budget: 2, baseline: 1)</summary>" in text
    assert "| <code>Cast</code> | 1 → 3 |  | over budget, more calls |" in text
    assert "| <code>Cast</code> | ▲ over budget, more calls | 1 |" in text
    update = "<code>pytest t.py::test_a --opprof-update</code>"
    assert f"raise the limit in its op_budget mark, then {update}" in text


def test_lines_that_ask_for_more_come_first() -> None:
    test = record_of("t.py::test_a", *CAST)
    old, grown, new = (SourceLine("model.py", number, "forward", f"line {number}") for number in (3, 5, 7))
    sites = {"Cast": (SiteCalls(6, (old,)), SiteCalls(2, (grown,)), SiteCalls(1, (new,)))}
    more = {"Cast": (GrownLine(grown, 1), GrownLine(new, 1, is_new=True))}
    test.windows = [structs.replace(window, sites=sites, grown=more) for window in test.windows]
    lines = [line for line in markdown(run(test)).splitlines() if line.startswith("- ")]
    assert lines == [
        "- <code>Cast</code>: +1 more from <code>model.py:5 in forward  line 5</code>",
        "- <code>Cast</code>: +1 new line <code>model.py:7 in forward  line 7</code>",
        "- <code>Cast</code>: 6 calls from <code>model.py:3 in forward  line 3</code>",
    ]


def test_a_broken_budget_is_met_in_its_mark() -> None:
    details = markdown(run(record_of("t.py::a", None, {"Cast": 3}, Cast=1))).partition("<details>")[2]
    assert "| <code>Cast</code> | 3 | 3 us | over budget |" in details
    assert "To accept this change: raise the limit in its op_budget mark\n" in details


def test_a_new_op_and_one_that_is_gone_show_both_counts() -> None:
    found = markdown(run(record_of("t.py::a", {"Mul": 2, "Add": 1}, {"Cast": 3, "Add": 1})))
    assert "| <code>Cast</code> | 0 → 3 |  | new |" in found
    assert "| <code>Mul</code> | 2 → 0 |  | gone |" in found


def test_consequences_stand_below_their_cause() -> None:
    test = record_of("t.py::a", *CAST)
    (window,), (cast,) = test.windows, test.findings
    wider = Finding("wider dtypes", None, "  Add now runs in float64 (baseline: float32)")
    other = Finding("new", "Mul", "Mul: 1 call (baseline: 0)", "Mul 0 -> 1")
    test.windows = [structs.replace(window, findings=(cast, wider, other))]
    found = markdown(run(test))
    assert "\n- Cast: 3 calls (baseline: 1)\n  - Add now runs in float64 (baseline: float32)\n- Mul: 1 call" in found
    assert "<summary>▲ <code>t.py::a</code>: Cast: 3 calls (baseline: 1); Mul: 1 call (baseline: 0)</summary>" in found


def test_of_tests_that_fail_for_the_same_the_one_with_the_most_calls_is_shown() -> None:
    tests = [record_of(f"t.py::a[{n}]", {"Cast": 1}, {"Cast": 1 + n}) for n in (1, 3, 2)]
    told = "Shown: <code>&#91;3&#93;</code>; <code>&#91;2&#93;</code>, <code>&#91;1&#93;</code> fail for the same"
    assert told in markdown(run(*tests))


def test_other_causes_of_the_same_function_are_told_apart() -> None:
    found = markdown(run(record_of("t.py::a[1]", *CAST), record_of("t.py::a[2]", {"Add": 1}, {"Add": 2})))
    assert found.count("<details>") == 2


def test_a_change_that_was_accepted_or_is_expected_to_fail_is_not_worse() -> None:
    test = record_of("t.py::a", *CAST)
    test.outcome = "skipped"  # xfail
    found = markdown(run(test))
    assert found.startswith("## opprof: none of 1 test exceeds its budget or baseline\n")
    assert "<details>" not in found


def test_nothing_that_went_wrong_is_left_out() -> None:
    strict = TestRecord(id="t.py::new", outcome="failed", status=Status.NO_BASELINE)
    found = markdown(run(strict, stale=[Stale("t.py::gone")], interrupted=True, errors=["no <core>"]))
    assert found.startswith("## opprof: 1 error, 1 test measured\n")
    assert "1 without baseline." in found
    assert "1 not compared with v1." in markdown(run(strict, against="v1"))
    assert "1 test failed for other reasons; see the log: <code>t.py::new</code>." in found
    assert "**The run was interrupted: tests may be missing.**" in found
    assert "1 stale baseline: `opprof baselines prune`" in found
    assert "**error:** no &#60;core&#62;" in found
    assert markdown(run()).startswith("## opprof: nothing measured\n")


def test_compared_with_a_revision_nothing_is_to_be_updated() -> None:
    found = markdown(run(record_of("t.py::a", *CAST), against="main"))
    assert found.startswith("## opprof: 1 of 1 test exceeds its budget or base, compared with <code>main</code>\n")
    assert "--opprof-update" not in found


def test_it_is_cut_by_whole_functions_and_says_which_are_left_out() -> None:
    whole = run(*(record_of(f"t.py::test_{n}", *CAST) for n in range(40)))
    most = 9_000
    found = markdown(whole, most)
    assert len(found.encode()) <= most < len(markdown(whole).encode())
    told = found.count("<details>")
    assert 0 < told == found.count("</details>")
    assert f"Left out for their size: {40 - told} failing functions, <code>t.py::test_{told}</code>" in found
    assert f"and {40 - told - 5} more. The log has them." in found
    assert "| <code>Cast</code> | ▲ more calls | 40 | +80 |" in found


def test_it_is_appended_and_what_is_there_counts(tmp_path: Path) -> None:
    path = tmp_path / "new" / "summary.md"
    whole = run(record_of("t.py::a", *CAST))
    append(path, whole)
    assert path.read_text(encoding="utf-8") == markdown(whole)
    path.write_text("x" * (MOST_BYTES - 2300))
    append(path, whole)
    said = path.read_text(encoding="utf-8")[MOST_BYTES - 2300 :]
    assert said.startswith("\n## opprof: 1 of 1 test")
    assert "Left out for their size: 1 failing function, <code>t.py::a</code>." in said
    with pytest.raises(UsageError, match=r"--opprof-summary: .*new cannot be written: Is a directory"):
        append(path.parent, whole)


ANY = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("@|<>`*_[]\\~$#&:/\n\x1b")))
MARKUP = re.compile(r"&#\d+;")


@given(ANY)
def test_escaped_text_is_read_as_it_was(text: str) -> None:
    assert html.unescape(escaped(text).replace("&#8203;", "")) == clean(text)


@given(ANY)
def test_escaped_text_has_no_markup_and_mentions_nobody(text: str) -> None:
    found = escaped(text)
    assert not set("@|<>`*[]\\~$\n") & set(found)
    rest = MARKUP.sub("", found)
    assert not set("&#") & set(rest)
    assert "://" not in found
    assert all(each.start() and each.end() < len(found) for each in re.finditer("_", found))  # inside a word
    assert not re.search(r"@\w", html.unescape(found))


@given(ANY)
def test_a_test_of_any_name_leaves_the_table_and_the_blocks_whole(name: str) -> None:
    found = markdown(run(record_of(f"t.py::test_{name}", {"Add": 1}, {"Add": 1, name or "Cast": 2})))
    for line in found.splitlines():
        if line.startswith("|"):
            assert line.count("|") in (5, 6)
    for tag in ("details", "summary"):
        assert found.count(f"<{tag}>") == found.count(f"</{tag}>") == 1
    assert set(re.findall(r"<[^>]*>", found)) <= {
        f"<{slash}{tag}>" for slash in ("", "/") for tag in ("details", "summary", "code")
    }
