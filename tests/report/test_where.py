from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.site_calls import SiteCalls, SourceLine, kept_sites
from pytest_opprof.report.failure import Shown, failure
from pytest_opprof.report.where import where
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.window_result import WindowNumbers
from pytest_opprof.verdict.budgets import Budget
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.times.stored_rule import judge
from pytest_opprof.verdict.tolerances import STORED

from ..conftest import profile_of

TEST = SourceLine("test_m.py", 9, "test_a", "step(model)")
MORE = "-v shows them"


def line(number: int, text: str = "", function: str = "forward") -> SourceLine:
    return SourceLine("nets.py", number, function, text or f"line {number}")


def at(number: int, calls: int = 1, **how: object) -> SiteCalls:
    """Return calls of a line of its own, called by the test."""
    return SiteCalls(calls, (line(number), TEST), **how)  # type: ignore[arg-type]


Sites = Mapping[str, tuple[SiteCalls, ...]]


def profile(**calls: int) -> OpProfile:
    return profile_of([(op, 1_000) for op, number in calls.items() for _ in range(number)])


def window(
    now: Mapping[str, int],
    sites: Sites,
    base: Mapping[str, int] | None = None,
    before: Sites | None = None,
    **budget: int,
) -> JudgedWindow:
    """Return a window with these calls *now*, and in its *base*, and its *sites* as *before*."""
    found = profile(**now)
    numbers = WindowNumbers.of("body", found)
    diff = None
    if base is not None:
        entry = WindowBaseline.of(profile(**base), "")
        diff = compare((entry.ops, {}), (numbers.counts, {}), judge((), ()), STORED)
    return JudgedWindow(
        structs.replace(numbers, sites=dict(sites)),
        Budget.parse([], budget).check(found),
        diff,
        base_sites=None if before is None else kept_sites(before),
    )


def text(window: JudgedWindow, every_line: bool = False) -> str:
    return "\n".join(line.text for line in where(window, every_line=every_line, more=MORE))


def test_each_line_is_told_with_its_calls_the_most_first() -> None:
    sites = {"Cast": (at(3), at(7, 4), SiteCalls(2, (line(7), SourceLine("other.py", 1, "f", ""))), at(5, 2))}
    assert text(window({"Cast": 9}, sites, Cast=1)) == (
        """
where Cast comes from (9 calls):
     6  nets.py:7 in forward  `line 7`
     2  nets.py:5 in forward  `line 5`
     1  nets.py:3 in forward  `line 3`"""
    )


def test_what_grew_comes_first_with_what_it_was_and_new_lines_are_called_so() -> None:
    before = {"Cast": (at(3, 4), at(5, 1))}
    sites = {"Cast": (at(3, 4), at(5, 3), at(8))}
    assert text(window({"Cast": 8}, sites, {"Cast": 5}, before)) == (
        """
where Cast comes from (8 calls, baseline: 5):
    +2  nets.py:5 in forward  `line 5`  1 -> 3
            +2 from test_m.py:9 in test_a  `step(model)`
    +1  nets.py:8 in forward  `line 8`  (new)
     4  nets.py:3 in forward  `line 3`"""
    )


def test_a_helper_that_grew_names_the_line_that_calls_it() -> None:
    helper = line(2, "return x.float()", "as_float")
    old, new = (SiteCalls(1, (helper, line(number), TEST)) for number in (20, 30))
    assert text(window({"Cast": 2}, {"Cast": (old, new)}, {"Cast": 1}, {"Cast": (old,)})) == (
        """
where Cast comes from (2 calls, baseline: 1):
    +1  nets.py:2 in as_float  `return x.float()`  1 -> 2
            +1 from nets.py:30 in forward  `line 30`  (new)"""
    )


def test_backward_dtypes_and_packages_are_noted() -> None:
    sites = {
        "Cast": (
            at(3, 2, dtypes="float32->bfloat16"),
            at(3, 1, dtypes="bfloat16->float32", is_backward=True),
            at(5, 1, dtypes="bfloat16->float32", is_backward=True),
            at(6, 1, dtypes="float32->bfloat16", via="einops/einops.py:9 in rearrange"),
        )
    }
    assert text(window({"Cast": 5}, sites, Cast=0)) == (
        """
where Cast comes from (5 calls):
     3  nets.py:3 in forward  `line 3`  (float32->bfloat16, bfloat16->float32; 1 of them backward)
     1  nets.py:5 in forward  `line 5`  (bfloat16->float32; backward)
     1  nets.py:6 in forward  `line 6`  via einops/einops.py:9 in rearrange  (float32->bfloat16)"""
    )


def test_dtypes_that_are_all_the_same_are_not_repeated() -> None:
    sites = {"Cast": (at(3, dtypes="float32->bfloat16"), at(5, dtypes="float32->bfloat16"))}
    assert "float32" not in text(window({"Cast": 2}, sites, Cast=0))


def test_five_lines_are_shown_and_all_with_a_word() -> None:
    failing = window({"Cast": 7}, {"Cast": tuple(map(at, range(1, 8)))}, Cast=0)
    lines = text(failing).splitlines()
    assert lines[-1] == "... and 2 more lines (-v shows them)"
    assert len(lines) == 1 + 1 + 5 + 1
    assert text(failing, every_line=True).count("nets.py") == 7


def test_what_nobody_knows_the_line_of_is_told_as_such() -> None:
    sites = {"Cast": (SiteCalls(1, ()), at(3))}
    expected = """
where Cast comes from (2 calls):
     1  no line of the program, or none that is known
     1  nets.py:3 in forward  `line 3`"""
    assert text(window({"Cast": 2}, sites, Cast=0)) == expected
    grown = text(window({"Cast": 2}, sites, {"Cast": 1}, {"Cast": (at(3),)}))
    assert "no line of the program, or none that is known" in grown


def test_calls_of_another_look_say_with_how_many_it_failed() -> None:
    sites = {"Cast": (at(3, 2),)}
    assert "(2 calls; 3 when it failed)" in text(window({"Cast": 3}, sites, Cast=0))
    assert "(2 calls, baseline: 1; 3 when it failed)" in text(window({"Cast": 3}, sites, {"Cast": 1}))
    assert "(2 calls, baseline: 0)" in text(window({"Cast": 2}, sites, {}))


def test_many_ops_are_told_line_by_line_in_the_order_of_the_program() -> None:
    ops = ["Cast", "MatMul", "Softmax", "Mul"]
    sites = {op: (at(5),) for op in ops} | {"Cast": (at(7), at(5, 2))}
    now = dict.fromkeys(ops, 1) | {"Cast": 3}
    failing = window(now, sites, {})
    assert text(failing) == (
        """
where they come from:
  nets.py:5 in forward  `line 5`
      Cast 2, MatMul 1, Mul 1, Softmax 1
  nets.py:7 in forward  `line 7`
      Cast 1"""
    )
    assert text(failing, every_line=True) == (
        """
where Cast comes from (3 calls, baseline: 0):
     2  nets.py:5 in forward  `line 5`
     1  nets.py:7 in forward  `line 7`

where MatMul, Mul and Softmax come from (each 1 call, baseline: 0):
     1  nets.py:5 in forward  `line 5`"""
    )


def test_of_many_ops_the_lines_that_ask_for_more_say_how_many_more() -> None:
    ops = ["Cast", "MatMul", "Softmax", "Mul"]
    before = {op: (at(5),) for op in ops}
    sites = {op: (at(5, 3),) for op in ops} | {"Cast": (at(5), at(7, 2))}
    failing = window(dict.fromkeys(ops, 3), sites, dict.fromkeys(ops, 1), before)
    assert text(failing) == (
        """
where they come from:
  nets.py:5 in forward  `line 5`
      MatMul +2, Mul +2, Softmax +2
  nets.py:7 in forward  `line 7`  (new)
      Cast +2"""
    )


def with_work(calls: int, flops: int | None, nbytes: int | None) -> OpCounts:
    known = [None if each is None else Range(each, each) for each in (nbytes, flops)]
    return OpCounts(Range(calls), bytes=known[0], flops=known[1])


def working(
    before: tuple[tuple[int, int | None, int | None], ...], now: tuple[tuple[int, int | None, int | None], ...]
) -> JudgedWindow:
    """Return a window whose lines 1, 2, ... do products of these calls, FLOPs and bytes."""
    sites, ops = [], []
    for side in (before, now):
        sites.append({"MatMul": tuple(at(n, c, flops=f, bytes=b) for n, (c, f, b) in enumerate(side, 1))})
        calls, flops, nbytes = (sum(each or 0 for each in column) for column in zip(*side))
        ops.append(({"MatMul": with_work(calls, flops, nbytes)}, {}))
    numbers = structs.replace(WindowNumbers.of("body", profile(MatMul=1)), sites=sites[1])
    diff = compare(*ops, judge((), ()), STORED)
    return JudgedWindow(numbers, (), diff, base_sites=kept_sites(sites[0]))


def test_more_work_with_as_many_calls_has_the_line_that_does_more() -> None:
    """As where the last layer of a language model is computed for all positions: one line of seven, one call of 52."""
    same = tuple((calls, 40_000, 800) for calls in (12, 12, 9, 8, 7, 3))
    failing = working((*same, (1, 5_000, 800)), (*same, (1, 80_000, 900)))
    lines = text(failing).splitlines()
    assert lines[1] == "where MatMul comes from (52 calls):"
    assert lines[2] == "+75 kFLOP  nets.py:7 in forward  `line 7`  5 kFLOP -> 80 kFLOP"
    assert lines[-1] == "... and 2 more lines (-v shows them)"
    (grown,) = failing.grown_lines.grown(["MatMul"])["MatMul"]
    assert (str(grown), grown.line.line) == ("+75 kFLOP", 7)


def test_a_peak_of_memory_has_the_lines_of_the_memory_in_use_then() -> None:
    before = {"peak_memory": (at(1, bytes=4 << 20), at(2, 3, bytes=1 << 20))}
    now = {"peak_memory": (at(1, bytes=4 << 20), at(2, 3, bytes=9 << 20))}
    found = profile(Add=1)
    ops = WindowNumbers.of("body", found).counts
    facts = [{"peak_memory": Range(sum(each.bytes or 0 for each in side["peak_memory"]))} for side in (before, now)]
    diff = compare((ops, facts[0]), (ops, facts[1]), judge((), ()), STORED)
    numbers = structs.replace(WindowNumbers.of("body", found), sites=now)
    failing = JudgedWindow(numbers, (), diff, base_sites=kept_sites(before))
    assert [each.text for each in failing.told] == ["peak memory: 13 MiB (baseline: 5 MiB) at nets.py:2"]
    assert text(failing) == (
        """
where peak memory comes from (13 MiB):
+8 MiB  nets.py:2 in forward  `line 2`  1 MiB -> 9 MiB
        +8 MiB from test_m.py:9 in test_a  `step(model)`
 4 MiB  nets.py:1 in forward  `line 1`"""
    )


@pytest.mark.parametrize(("peak", "line"), [(20, " at nets.py:2"), (22, "")])
def test_a_line_that_holds_a_small_part_of_a_higher_peak_is_not_its_cause(peak: int, line: str) -> None:
    """PyTorch's lines held 4.5 of 36 MiB beside NumPy's arrays (stable-baselines3)."""
    before, now = {"peak_memory": (at(2, bytes=1 << 20),)}, {"peak_memory": (at(2, bytes=9 << 20),)}
    found = profile(Add=1)
    ops = WindowNumbers.of("body", found).counts
    ranges = ({"peak_memory": Range(each << 20)} for each in (5, peak))
    diff = compare(*((ops, each) for each in ranges), judge((), ()), STORED)
    numbers = structs.replace(WindowNumbers.of("body", found), sites=now, facts={"peak_memory": (peak << 20,)})
    failing = JudgedWindow(numbers, (), diff, base_sites=kept_sites(before))
    assert [each.text for each in failing.told] == [f"peak memory: {peak} MiB (baseline: 5 MiB){line}"]


@pytest.mark.parametrize(("held", "line"), [(13, ", 13 MiB of it at nets.py:2"), (11, "")])
def test_where_the_bases_lines_of_a_peak_are_unknown_a_line_that_holds_more_than_all_did_is_named(
    held: int, line: str
) -> None:
    now = {"peak_memory": (at(1, bytes=(20 - held) << 20), at(2, bytes=held << 20))}
    found = profile(Add=1)
    ops = WindowNumbers.of("body", found).counts
    diff = compare(*((ops, {"peak_memory": Range(each << 20)}) for each in (12, 20)), judge((), ()), STORED)
    numbers = structs.replace(WindowNumbers.of("body", found), sites=now, facts={"peak_memory": (20 << 20,)})
    for unknown in (
        JudgedWindow(numbers, (), diff),
        JudgedWindow(numbers, (), diff, base_sites={}, uncompared=frozenset(["peak_memory"])),
    ):
        assert [each.text for each in unknown.told] == [f"peak memory: 20 MiB (baseline: 12 MiB){line}"]


@pytest.mark.parametrize(("calls", "of"), [(2, "Cast comes"), (1, "allocations come")])
def test_lines_of_memory_that_are_as_before_are_told_only_where_no_others_are(calls: int, of: str) -> None:
    before = {"allocations": (at(1),), "Cast": (at(3),)}
    found = profile(Cast=calls)
    sides = [
        (WindowNumbers.of("body", of_side).counts, {"held_memory": Range(nbytes)})
        for of_side, nbytes in ((profile(Cast=1), 0), (found, 1 << 17))
    ]
    diff = compare(*sides, judge((), ()), STORED)
    numbers = structs.replace(WindowNumbers.of("body", found), sites={**before, "Cast": (at(3, calls),)})
    failing = JudgedWindow(numbers, (), diff, base_sites=kept_sites(before))
    (title,) = (line for line in text(failing).splitlines() if line.startswith("where"))
    assert title.startswith(f"where {of} from")


def test_bytes_tell_the_line_where_flops_did_not_grow() -> None:
    failing = working(((2, 0, 4096), (2, 0, 4096)), ((2, 0, 4096), (2, 0, 8192)))
    assert "+4 KiB  nets.py:2 in forward  `line 2`  4 KiB -> 8 KiB" in text(failing)


def test_of_a_baseline_without_work_by_line_those_come_first_that_do_most() -> None:
    failing = working(((3, 0, 9_000), (1, 5_000, 800)), ((3, 0, 9_000), (1, 80_000, 900)))
    failing = replace(failing, base_sites=kept_sites({"MatMul": (at(1, 3), at(2, 1))}))
    assert text(failing).splitlines()[2] == "     1  nets.py:2 in forward  `line 2`"


def test_of_many_lines_that_grew_the_one_that_grew_most_comes_first() -> None:
    ops = [f"Op{number}" for number in range(7)]
    sites = {op: (at(number, 21 if op == "Op6" else 1),) for number, op in enumerate(ops)}
    failing = window(dict.fromkeys(ops, 1), sites, {}, {})
    assert text(failing).splitlines()[2:4] == ["  nets.py:6 in forward  `line 6`  (new)", "      Op6 +21"]


def test_many_ops_of_one_line_are_one_finding() -> None:
    ops = ["Cast", "MatMul", "Softmax", "Mul"]
    before = {op: (at(5),) for op in ops}
    failing = window(dict.fromkeys(ops, 3), {op: (at(5, 3),) for op in ops}, dict.fromkeys(ops, 1), before)
    line = "nets.py:5 in forward  `line 5`"
    assert [str(each) for each in failing.told] == [
        f"4 ops, 8 calls more from {line}",
        *(f"  {op}: 3 calls (baseline: 1)" for op in sorted(ops)),
    ]
    assert [each.short for each in failing.told if not each.adds] == ["4 ops +8 calls at nets.py:5"]
    message = failure("test_m.py::test_a", [failing], "", Shown())
    assert message[1] == (f"  4 ops, 8 calls more from {line}", "worse")
    for other in (
        window(dict.fromkeys(ops[:2], 3), {op: (at(5, 3),) for op in ops}, dict.fromkeys(ops[:2], 1), before),
        replace(failing, base_sites=None),
    ):
        assert not any(each.adds for each in other.told)


def test_a_line_with_a_part_of_the_calls_is_told_with_its_part() -> None:
    ops = ["Cast", "MatMul", "Softmax"]
    before, now = ({op: (at(5, five), at(8, eight)) for op in ops} for five, eight in ((1, 1), (3, 2)))
    failing = window(dict.fromkeys(ops, 5), now, dict.fromkeys(ops, 2), before)
    assert str(failing.told[0]) == "3 ops, 6 of 9 calls more from nets.py:5 in forward  `line 5`"
    assert failing.told[0].short == "3 ops +9 calls, 6 of them at nets.py:5"
    # A line that makes few of the extra calls joins none: the ops have their own lines.
    sites = {op: (*now[op], SiteCalls(500, (line(40 + number),))) for number, op in enumerate(ops)}
    failing = window(dict.fromkeys(ops, 505), sites, dict.fromkeys(ops, 2), before)
    assert [str(each) for each in failing.told] == [
        f"{op}: 505 calls (baseline: 2), 500 of the 503 extra calls at nets.py:{40 + number}"
        for number, op in enumerate(ops)
    ]
    failing = window({"Cast": 5}, {"Cast": now["Cast"]}, {"Cast": 2}, {"Cast": before["Cast"]})
    assert str(failing.told[0]) == "Cast: 5 calls (baseline: 2), 2 of the 3 extra calls at nets.py:5"
    assert failing.told[0].short == "Cast 2 -> 5, 2 of the 3 extra calls at nets.py:5"


def test_a_new_line_that_calls_a_helper_is_the_cause_of_all_its_ops() -> None:
    ops = ["Cast", "MatMul", "Softmax"]
    inner = {op: line(number, f"{op}(x)", "helper") for number, op in enumerate(ops, 1)}
    before = {op: (SiteCalls(1, (inner[op], line(30), TEST)),) for op in ops}
    now = {op: (*before[op], SiteCalls(2, (inner[op], line(31, "again = helper(x)"), TEST))) for op in ops}
    failing = window(dict.fromkeys(ops, 3), now, dict.fromkeys(ops, 1), before)
    assert str(failing.told[0]) == "3 ops, 6 calls more from nets.py:31 in forward  `again = helper(x)`"


def called_from(
    ops: Sequence[str], calls: int, outer: Sequence[SourceLine], functions: Sequence[str]
) -> dict[str, tuple[SiteCalls, ...]]:
    """Return a line for each op in its function, called from the *outer* lines."""
    return {
        op: (SiteCalls(calls, (line(number, f"{op}(x)", function), *outer)),)
        for number, (op, function) in enumerate(zip(ops, functions))
    }


def test_of_many_functions_the_innermost_line_that_leads_to_them_is_the_cause() -> None:
    """jax_cosmo's integrand has 19 ops in five functions, each called by `odeint` once more for a lost cache."""
    ops = ["Add", "Cast", "Div", "Exp", "Mul"]
    outer = (line(30, "y = integral(x)"), line(40, "distance(x)"), TEST)

    def told(number: int, outer: Sequence[SourceLine], functions: Sequence[str]) -> list[str]:
        before, now = (called_from(ops[:number], calls, outer, functions) for calls in (1, 4))
        return [str(each) for each in window(dict.fromkeys(now, 4), now, dict.fromkeys(now, 1), before).told]

    assert told(5, outer, "fgghh")[0] == "5 ops, 15 calls more from nets.py:30 in forward  `y = integral(x)`"
    own = [f"{op}: 4 calls (baseline: 1) at nets.py:{number}" for number, op in enumerate(ops)]
    assert told(5, (TEST,), "fgghh") == own  # the test's own line leads to everything, which says nothing
    assert told(5, outer, "ggggg") == own  # the change is in the one function that has the lines
    assert told(4, outer, "fghh") == own[:4]


def test_the_line_that_leads_to_all_leads_to_lines_whose_callers_are_unchanged_too() -> None:
    """tinygp's `predict` lost its jit: what was traced once by these lines runs op by op now, by each of them."""
    ops = ["Add", "Cast", "Div", "Exp", "Mul"]
    root = line(30, "cond = self.condition(y)")
    inner = [line(60 + number, "inner(x)", f"of_{f}") for number, f in enumerate("fghij")]
    before = {"Relu": tuple(SiteCalls(1, (each, root, TEST)) for each in inner)}
    now = {
        op: (SiteCalls(3, (line(number, f"{op}(x)", f), at, root, TEST)),)
        for number, (op, f, at) in enumerate(zip(ops, "fghij", inner))
    }
    found = window(dict.fromkeys(ops, 3), now, {}, before).told
    assert str(found[0]) == "5 ops, 15 calls more from nets.py:30 in forward  `cond = self.condition(y)`"


def test_a_function_whose_lines_run_several_times_as_often_is_the_cause_where_no_line_leads_to_all() -> None:
    """A cache of e3nn's coefficients is lost: ten ops of three functions, by three lines of the cached one."""
    ops = ["Add", "Cast", "Div", "Exp", "Mul"]
    by = [(line(number, function="cached"), TEST) for number in (31, 32, 33)]
    once = [called_from(ops, 1, outer, "fghii") for outer in by]
    sites = [{op: tuple(structs.replace(each[op][0], calls=calls) for each in once) for op in ops} for calls in (2, 60)]
    now, base = (dict.fromkeys(ops, calls) for calls in (180, 6))

    def told(now: Mapping[str, int], then: Sites) -> Sequence[str]:
        return [str(each) for each in window(now, then, base, sites[0]).told]

    first, *_, last = told(now, sites[1])
    assert first == "5 ops, 870 calls more in `cached` at nets.py:31, whose lines run 30 times as often"
    assert last == "  Mul: 180 calls (baseline: 6)"
    # Each line has a factor of its own.
    other = {op: tuple(structs.replace(each, calls=9 * at) for each in sites[1][op]) for at, op in enumerate(ops, 1)}
    assert not any("whose lines run" in each for each in told({op: 27 * at for at, op in enumerate(ops, 1)}, other))


def test_a_recursion_leads_to_its_calls_once() -> None:
    ops = ["Add", "Cast", "Div", "Exp", "Mul"]
    again, entry, other = line(12, "rec(x, n - 1)", "rec"), line(14, "rec(x, 3)"), line(16, "other()")
    sites = []
    for calls in (1, 2):
        deep = called_from(ops, calls, (again, again, again, entry, TEST), "fgghh")
        flat = called_from(ops, calls, (other, TEST), "fgghh")
        sites.append({op: (*deep[op], *flat[op]) for op in ops})
    failing = window(dict.fromkeys(ops, 4), sites[1], dict.fromkeys(ops, 2), sites[0])
    assert not any("more from" in str(each) for each in failing.told)


def test_a_helper_that_ran_no_op_before_is_told_with_the_line_that_calls_it() -> None:
    before = {"Relu": (SiteCalls(1, (line(20), TEST)),)}
    added = SiteCalls(1, (line(3, "y = x.float()", "helper"), line(21, "x = helper(x)"), TEST))
    failing = window({"Relu": 1, "Cast": 1}, {**before, "Cast": (added,)}, {"Relu": 1}, before)
    assert str(failing.told[0]) == "Cast: 1 call (baseline: 0) at nets.py:21"
    assert text(failing).splitlines()[2:] == [
        "    +1  nets.py:3 in helper  `y = x.float()`  (new)",
        "            +1 from nets.py:21 in forward  `x = helper(x)`  (new)",
    ]


def test_a_line_in_a_file_that_changed_is_the_cause_before_one_that_it_calls() -> None:
    # tensorly's kernel called another helper; its lines run more often, too, and did not change.
    ops = ["Cast", "MatMul", "Softmax"]
    kernel, helper = SourceLine("kernel.py", 74, "mttkrp", "multi(x)"), line(71, "dot(x, y)", "mode_dot")
    before = {op: (SiteCalls(1, (helper, line(30), TEST)),) for op in ops}
    now = {op: (SiteCalls(9, (helper, kernel, TEST)),) for op in ops}
    cases = (((), helper), (("kernel.py",), kernel), (("docs.md",), helper))
    for files, cause in cases:
        for names in (ops, ops[:1]):
            failing = window(dict.fromkeys(names, 9), {op: now[op] for op in names}, dict.fromkeys(names, 1), before)
            told = replace(failing, changed=dict.fromkeys(files, ())).told[0]
            assert (told.line, f"{cause.file}:{cause.line}" in told.text) == (cause, True)


def test_a_line_that_changed_is_the_cause_before_others_in_files_that_did() -> None:
    before = {"Cast": (SiteCalls(1, (line(3, "cast(x)", "helper"), line(30), TEST)),)}
    now = {"Cast": (SiteCalls(4, (line(3, "cast(x)", "helper"), line(30), TEST)),)}
    failing = window({"Cast": 4}, now, {"Cast": 1}, before)
    for ranges, cause in (([], 3), ([range(1, 2)], 3), ([range(2, 4)], 3), ([range(29, 31)], 30), ([range(1, 99)], 3)):
        assert f"nets.py:{cause}" in replace(failing, changed={"nets.py": ranges}).told[0].text


def test_ops_of_changed_lines_come_first_in_findings_and_in_lines() -> None:
    sites = {"Cast": (at(3, 9),), "Mul": (at(5, 2),), "Neg": (at(7, 2),), "Relu": (at(9, 2),)}
    now = {"Cast": 9, "Mul": 2, "Neg": 2, "Relu": 2}
    failing = window(
        now, sites, dict.fromkeys(now, 1), {op: (at(each.lines[0].line),) for op, (each,) in sites.items()}
    )
    assert [each.op for each in failing.told] == ["Cast", "Mul", "Neg", "Relu"]
    changed = replace(failing, changed={"nets.py": [range(7, 8)]})
    assert [each.op for each in changed.told] == ["Neg", "Cast", "Mul", "Relu"]
    for each, first in ((failing, 3), (changed, 7)):
        assert text(each).splitlines()[2].startswith(f"  nets.py:{first} in forward")


def test_why_nothing_is_known_is_told_for_the_ops_that_are_asked_for() -> None:
    failing = replace(window({"Cast": 1}, {}, {}, Cast=0), sites_lost="it broke")
    assert text(failing) == "\nsource lines for Cast are unknown: it broke"
    assert text(replace(window({"Cast": 1}, {}, {"Cast": 1}), sites_lost="it broke")) == ""


def test_why_new_lines_are_not_known_is_told() -> None:
    failing = replace(window({"Cast": 1}, {"Cast": (at(3),)}, {}), base_sites_lost="nobody recorded them")
    assert text(failing).splitlines()[-1] == "it is unknown which of these lines are new: nobody recorded them"


def test_ops_that_are_as_before_and_limits_of_the_whole_window_have_no_lines() -> None:
    sites = {"Cast": (at(3),), "Add": (at(5),)}
    assert "Add" not in text(window({"Cast": 1, "Add": 1}, sites, {"Add": 1}))
    assert text(window({"Add": 2}, {"Add": (at(5, 2),)}, calls=1)) == ""


def test_lines_that_say_the_same_are_told_once() -> None:
    """Which of them is new, nothing tells."""
    twins = [SiteCalls(1, (line(number, "x = x.float()"), TEST)) for number in (3, 5)]
    assert text(window({"Cast": 2}, {"Cast": tuple(twins)}, {"Cast": 1}, {"Cast": (twins[0],)})) == (
        """
where Cast comes from (2 calls, baseline: 1):
    +1  nets.py:5 in forward  `x = x.float()`  1 -> 2
            +1 from test_m.py:9 in test_a  `step(model)`"""
    )
