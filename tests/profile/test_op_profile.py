from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import UsageError
from pytest_opprof.ops.names import Kind
from pytest_opprof.ops.signature import Signature
from pytest_opprof.profile.columns import ABSENT
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.assembly import assemble, joined
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.memory import MemoryUse
from pytest_opprof.profile.op_profile import OpProfile

from ..conftest import ENVIRONMENT, Launch, profile_of

launches = st.lists(
    st.tuples(st.sampled_from(["Add", "aten::mm", "MatMul", "mylib::x"]), st.integers(0, 10**6)), max_size=8
)


def test_ops_come_with_the_most_expensive_first() -> None:
    profile = profile_of([("Add", 5), ("MatMul", 30), ("Add", 6)])
    assert [(s.op, s.calls, s.device_ns) for s in profile.ops] == [("MatMul", (1,), (30,)), ("Add", (2,), (11,))]
    assert profile.top(1)[0].op == "MatMul"


def test_self_times_add_up_to_the_total() -> None:
    log = EventLog(ENVIRONMENT)
    outer = log.add(log.name("aten::linear"), 100)
    inner = log.add(log.name("aten::addmm"), 70, outer)
    log.add(log.name("aten::copy_", ("float32", "float16")), 20, inner)
    profile = assemble([(log.freeze(), {0: 0})], [500])
    assert {s.op: s.device_ns for s in profile.ops} == {"MatMul": (80,), "Cast": (20,)}
    assert profile.total.device_ns == (100,)
    assert profile.host_ns == (500,)


def test_an_inside_that_seems_longer_than_its_outside_leaves_no_negative_time() -> None:
    log = EventLog(ENVIRONMENT)
    log.add(log.name("aten::sub"), 13, log.add(log.name("aten::add"), 10))
    assert log.freeze().columns.device_ns.tolist() == [0, 13]


def test_raw_names_count_as_the_profiler_reports_them() -> None:
    log = EventLog(ENVIRONMENT)
    outer = log.add(log.name("aten::linear"), 100)
    log.add(log.name("aten::addmm"), 70, outer)
    profile = assemble([(log.freeze(), {0: 0})], [1])
    assert profile.stats("MatMul").calls == (1,)
    assert profile.stats("aten::linear").calls == (1,)
    assert profile.stats("aten::addmm").calls == (1,)
    assert profile.stats("aten::addmm").device_ns == (70,)


def test_an_op_without_a_canonical_name_is_asked_for_by_its_raw_name_and_counts_all_events() -> None:
    log = EventLog(ENVIRONMENT)
    log.add(log.name("aten::to"), 3)
    log.add(log.name("aten::copy_", ("float32", "float16")), 4, log.add(log.name("aten::to"), 10))
    profile = assemble([(log.freeze(), {0: 0})], [1])
    assert {s.op: s.calls for s in profile.ops} == {"Cast": (1,)}
    assert profile.stats("aten::to").calls == (2,)
    assert profile.stats("aten::to").device_ns == (9,)


def test_a_glob_that_matches_canonical_ops_means_those_and_any_other_raw_names() -> None:
    profile = profile_of([("aten::sum", 1), ("aten::mean", 2), ("aten::conv2d", 3), ("aten::mm", 4)])
    assert profile.stats("Reduce*").calls == (2,)
    assert profile.stats("aten::*m*").calls == (3,)
    assert profile.stats("aten::*_pool*").calls == (0,)
    assert profile.stats("Thin*", {"mylib::zap": "Thing"}).calls == (0,)
    assert profile.stats("mine::*", known=["mine::op"]).calls == (0,)
    with pytest.raises(UsageError, match=r"'aten::\*cnov\*' matches no op"):
        profile.stats("aten::*cnov*")


def test_an_op_that_did_not_run_is_zero_and_one_that_means_nothing_is_an_error() -> None:
    profile = profile_of([("Add", 1)])
    assert profile.stats("Cast").calls == (0,)
    assert profile.stats("aten::mm").calls == (0,)
    assert profile.stats("mylib::gone", known=["mylib::gone"]).calls == (0,)
    assert profile.stats("mylib::mine", aliases={"mylib::mine": "Mine"}).calls == (0,)
    with pytest.raises(UsageError, match=r"unknown op 'Csat': did you mean 'Cast'\?"):
        profile.stats("Csat")


def test_a_raw_name_that_the_framework_has_is_no_mistake() -> None:
    log = EventLog(ENVIRONMENT, knows=lambda name: name == "aten::rare")
    log.add(log.name("Add"), 1)
    profile = assemble([(log.freeze(), {0: 0})], [1])
    assert profile.stats("aten::rare").calls == (0,)
    with pytest.raises(UsageError):
        profile.stats("aten::rarer")


def test_what_the_source_does_not_know_is_absent_not_zero() -> None:
    log = EventLog(ENVIRONMENT)
    log.add(log.name("Cast"), ABSENT)
    log.add(log.name("Add"), 7, nbytes=64)
    log.add(log.name("Add"), 7, nbytes=ABSENT)
    profile = assemble([(log.freeze(), {0: 0})], [1])
    assert profile.stats("Cast").device_ns is None
    assert profile.stats("Cast").calls == (1,)
    assert profile.stats("Add").bytes is None
    assert profile.total.device_ns == (14,)
    assert profile.columns.flops is None
    assert profile.memory is None


def test_flops_are_those_of_the_outermost_event_that_has_them() -> None:
    log = EventLog(ENVIRONMENT)
    log.knows_flops = True
    outer = log.add(log.name("aten::conv2d"), 9)
    inner = log.add(log.name("aten::convolution"), 9, outer)
    log.computed(outer, 100)
    log.computed(inner, 100)
    assert assemble([(log.freeze(), {0: 0})], [1]).total.flops == (100,)


@pytest.mark.parametrize(
    ("of_cell", "inside", "expected"), [(None, None, None), (40, None, (140,)), (None, 40, (140,))]
)
def test_a_recurrent_layer_without_flops_leaves_all_unknown(
    of_cell: int | None, inside: int | None, expected: tuple[int, ...] | None
) -> None:
    log = EventLog(ENVIRONMENT)
    log.knows_flops = True
    log.computed(log.add(log.name("aten::mm"), 9), 100)
    cell = log.add(log.name("aten::lstm_cell"), 9)
    product = log.add(log.name("aten::mm"), 9, cell)
    for event, flops in ((cell, of_cell), (product, inside)):
        if flops is not None:
            log.computed(event, flops)
    assert assemble([(log.freeze(), {0: 0})], [1]).total.flops == expected


def test_flops_of_half_the_backends_are_unknown() -> None:
    with_flops, without = EventLog(ENVIRONMENT), EventLog(ENVIRONMENT)
    with_flops.knows_flops = True
    for log in (with_flops, without):
        log.add(log.name("Add"), 1)
    both = assemble([(with_flops.freeze(), {0: 0}), (without.freeze(), {0: 0})], [1])
    assert both.columns.flops is None
    assert both.stats("Add").calls == (2,)


def test_peak_memory_is_the_highest_level_above_the_beginning_of_a_step() -> None:
    log = EventLog(ENVIRONMENT)
    log.knows_memory = True
    for sizes in ([100, -100, 60], [500, -560]):
        log.mark()
        for size in sizes:
            log.allocated(size)
    profile = assemble([(log.freeze(), {1: 0, 2: 1})], [1, 1])
    assert profile.memory == (MemoryUse(100, 60, 2), MemoryUse(500, -60, 1))
    together = assemble([(log.freeze(), {1: 0, 2: 0})], [1])
    assert together.memory == (MemoryUse(560, 0, 3),)


def test_allocations_of_unknown_size_are_counted_and_leave_the_peak_unknown() -> None:
    log = EventLog(ENVIRONMENT)
    log.knows_memory = True
    log.allocated(100)
    log.mark()
    log.allocated(None)
    profile = assemble([(log.freeze(), {0: 0, 1: 1})], [1, 1])
    assert (profile.allocations, profile.peak_memory) == ((1, 1), None)
    assert MemoryUse(5, allocations=None).then(MemoryUse(0, 0, 1)).allocations is None


def test_intervals_outside_every_step_and_a_step_cut_short_are_left_out() -> None:
    log = EventLog(ENVIRONMENT)
    for _ in range(4):
        log.add(log.name("Add"), 1)
        log.mark()
    profile = assemble([(log.freeze(), {1: 0, 2: 1, 3: 2})], [1, 1])
    assert profile.stats("Add").calls == (1, 1)


def test_a_window_of_two_backends_has_both_frameworks() -> None:
    other = Environment((("numpy", "2.1.0"),), "cpu", "x86_64")
    logs = [EventLog(ENVIRONMENT), EventLog(other)]
    for log in logs:
        log.add(log.name("Cast"), 1)
    profile = assemble([(log.freeze(), {0: 0}) for log in logs], [1])
    assert str(profile.environment) == "fake 1 + numpy 2.1.0, cpu+fake, async"
    assert profile.stats("Cast").calls == (2,)


def test_a_backend_that_recorded_nothing_is_not_part_of_the_environment() -> None:
    log, idle = EventLog(ENVIRONMENT), EventLog(Environment((("numpy", "2.1.0"),)))
    log.add(log.name("Add"), 1)
    assert assemble([(idle.freeze(), {0: 0}), (log.freeze(), {0: 0})], [1]).environment == ENVIRONMENT


def counts(profile: OpProfile) -> dict[str, tuple[int, ...]]:
    return {stats.op: stats.calls for stats in profile.ops}


@given(st.lists(launches, min_size=1, max_size=4))
def test_joined_rounds_are_the_rounds(rounds: list[list[Launch]]) -> None:
    together = profile_of(*rounds)
    apart = joined([profile_of(launched) for launched in rounds])
    assert counts(apart) == counts(together)
    assert apart.total.device_ns == together.total.device_ns
    assert apart.steps == len(rounds)


NESTABLE = ["aten::linear", "aten::addmm", "aten::relu", "aten::t", "aten::empty", "mylib::x", "mylib::y", "aten::to"]


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Draw events as (raw name, parent, duration) that last longer than what is inside them."""
    parents = [draw(st.integers(-1, index - 1)) for index in range(draw(st.integers(1, 20)))]
    own = [draw(st.integers(0, 1000)) for _ in parents]
    total = list(own)
    for event in range(len(parents) - 1, -1, -1):
        if parents[event] >= 0:
            total[parents[event]] += total[event]
    return [(draw(st.sampled_from(NESTABLE)), parent, ns) for parent, ns in zip(parents, total)]


@given(nested())
def test_op_times_add_up_to_the_time_of_the_outermost(events: list[tuple[str, int, int]]) -> None:
    log = EventLog(ENVIRONMENT)
    outermost = sum(ns for _, parent, ns in events if parent < 0)
    around = log.add(log.name("mylib::around"), outermost)
    for raw, parent, ns in events:
        log.add(log.name(raw), ns, around if parent < 0 else around + 1 + parent)
    profile = log.freeze()
    assert sum(sum(stats.device_ns or ()) for stats in profile.ops) == outermost
    assert profile.total.device_ns == (outermost,)


@given(nested(), st.data())
def test_parts_without_a_time_of_their_own_change_no_total(
    events: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    log = EventLog(ENVIRONMENT)
    outermost = sum(ns for _, parent, ns in events if parent < 0)
    around = log.add(log.name("mylib::around"), outermost)
    for raw, parent, ns in events:
        known = data.draw(st.booleans())
        log.add(log.name(raw), ns if known else ABSENT, around if parent < 0 else around + 1 + parent)
    assert log.freeze().total.device_ns == (outermost,)


def test_a_part_of_a_fused_kernel_counts_and_its_time_is_unknown_and_the_kernel_keeps_all_of_it() -> None:
    log = EventLog(ENVIRONMENT)
    fusion = log.add(log.name("ynn_fusion"), 66)
    for _ in range(2):
        log.add(log.name("Cast"), ABSENT, fusion)
    log.add(log.name("MatMul"), ABSENT, fusion)
    log.add(log.name("MatMul"), 30)
    profile = log.freeze()
    assert {stats.op: (stats.calls, stats.device_ns) for stats in profile.ops} == {
        "ynn_fusion": ((1,), (66,)),
        "Cast": ((2,), None),
        "MatMul": ((2,), None),
    }
    assert profile.total.device_ns == (96,)


def test_what_is_timed_inside_a_part_without_a_time_is_taken_from_the_one_around_it() -> None:
    log = EventLog(ENVIRONMENT)
    outer = log.add(log.name("mylib::outer"), 100)
    part = log.add(log.name("mylib::part"), ABSENT, outer)
    log.add(log.name("Cast"), 30, log.add(log.name("mylib::inner_part"), ABSENT, part))
    profile = log.freeze()
    assert (profile.stats("mylib::outer").device_ns, profile.stats("Cast").device_ns) == ((70,), (30,))
    assert profile.total.device_ns == (100,)


def test_what_is_no_op_takes_its_time_outside_of_ops() -> None:
    log = EventLog(ENVIRONMENT)
    log.add(log.name("aten::mm"), 10)
    log.add(log.name("aten::to"), 3)
    profile = log.freeze()
    assert profile.total.device_ns == (10,)
    assert (profile.total.calls, profile.stats("aten::to").calls) == ((1,), (1,))
    assert profile.stats("aten::to").device_ns == (3,)


def test_time_that_compiling_took_of_an_op_is_not_its() -> None:
    log = EventLog(ENVIRONMENT)
    graph = log.add(log.name("Torch-Compiled Region: 0/0"), 1_000)
    log.add(log.name("_compile.compile_inner (dynamo_timed)"), ABSENT, graph)
    log.compiling(graph, 900)
    log.add(log.name("aten::mm"), 40, graph)
    profile = log.freeze()
    assert {stats.op: (stats.calls, stats.device_ns) for stats in profile.ops} == {
        "torch::graph": ((1,), (60,)),
        "torch::compile": ((1,), None),
        "MatMul": ((1,), (40,)),
    }
    assert profile.total.device_ns == (100,)


@given(launches, st.randoms())
def test_the_order_of_events_does_not_change_the_numbers(launched: list[Launch], random: object) -> None:
    shuffled = list(launched)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert profile_of(launched).ops == profile_of(shuffled).ops


def test_a_time_or_a_flop_count_that_only_some_calls_have_is_unknown() -> None:
    log = EventLog(ENVIRONMENT)
    log.knows_flops = True
    log.computed(log.add(log.name("aten::mm"), 10), 100)
    log.add(log.name("Cast"), 1_000)
    log.add(log.name("Cast"), ABSENT)
    log.add(log.name("aten::relu"), 5)
    profile = log.freeze()
    assert profile.stats("Cast").device_ns is None
    assert profile.stats("Relu").flops is None
    assert profile.stats("MatMul").flops == (100,)
    assert profile.stats("Exp").flops == (0,)
    assert (profile.total.device_ns, profile.total.flops) == ((1_015,), (100,))


def test_a_wrapper_that_works_itself_is_an_op_where_its_backend_says_so() -> None:
    log = EventLog(ENVIRONMENT)
    for kind in (Kind.WRAPPER, Kind.GRAPH):
        outside = log.add(log.name("MineBackward", kind=kind), 90)
        log.add(log.name("aten::mm"), 40, outside)
        log.add(log.name("aten::t"), 10, outside)
    assert {stats.op: (stats.calls, stats.device_ns) for stats in log.freeze().ops} == {
        "MatMul": ((2,), (120,)),
        "Transpose": ((2,), (20,)),
        "MineBackward": ((1,), (40,)),
    }


def test_what_disturbed_any_part_of_a_window_disturbed_the_window() -> None:
    def part(*what: str) -> OpProfile:
        log = EventLog(ENVIRONMENT)
        log.disturbed += what
        return log.freeze()

    window = assemble([(part("a"), {0: 0}), (part(), {0: 0}), (part("b", "a"), {0: 1})], [1, 1])
    assert window.disturbed == joined([window, window]).disturbed == ("a", "b")
    assert joined([part(), part()]).disturbed == ()


def _with_dtypes() -> OpProfile:
    log = EventLog(Environment((("made", "1"),)))
    single = Signature(("Float", "Float"), None, ((2, 3), (3, 4)))
    scaled = Signature(("float32", "float64"), ("float32",), ((2, 3), ()), ((2, 3),))
    for _ in range(2):
        log.add(log.name("aten::mm", signature=single), 10, nbytes=72)
    log.add(log.name("aten::mm", signature=Signature(("double", "double"))), 10, nbytes=144)
    log.add(log.name("aten::mul", signature=scaled), 10)
    log.add(log.name("aten::copy_", ("float32", "bfloat16")), 10)
    log.add(log.name("Synchronize", signature=Signature((), ())), 10)
    return log.freeze()


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("MatMul[float64]", 1),
        ("MatMul[float32]", 2),
        ("MatMul[Float]", 2),
        ("MatMul[bf16]", 0),
        ("MatMul[float*]", 3),
        ("aten::mm[float64]", 1),
        ("aten::m*[float64]", 1),
        ("Mul[float64]", 0),
        ("Cast[float32->bfloat16]", 1),
        ("Cast[* -> bfloat16]", 1),
        ("Cast[*->float64]", 0),
        ("Cast[bfloat16]", 1),
        ("*[float64]", 1),
        ("*[float32]", 4),
        ("Relu[float64]", 0),
    ],
)
def test_calls_can_be_asked_for_by_dtype(name: str, calls: int) -> None:
    found = _with_dtypes().stats(name)
    assert (found.op, found.calls, found.device_ns) == (name, (calls,), None)


def test_a_dtype_that_nobody_knows_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown dtype 'flaot64': did you mean 'float64' or 'float16'\?"):
        _with_dtypes().stats("MatMul[flaot64]")
    with pytest.raises(UsageError, match=r"unknown op 'MatMil'"):
        _with_dtypes().stats("MatMil[float64]")


def test_dtypes_that_are_not_told_are_an_error_and_no_zero() -> None:
    log = EventLog(Environment((("made", "1"),)))
    log.add(log.name("aten::mm"), 10)
    profile = log.freeze()
    message = r"'MatMul\[float64\]' cannot be counted: made does not tell the dtypes of MatMul"
    with pytest.raises(UsageError, match=message):
        profile.stats("MatMul[float64]")
    with pytest.raises(UsageError, match=r"does not tell the dtypes of MatMul"):
        profile.stats("*[float64]")
    assert profile.stats("Cast[float64]").calls == (0,)
    assert profile.calls_by_dtype == {}


def test_calls_are_told_apart_by_what_they_read_and_write() -> None:
    assert _with_dtypes().calls_by_dtype == {
        "MatMul": {"float32": (2,), "float64": (1,)},
        "Mul": {"float32": (1,)},
        "Cast": {"float32->bfloat16": (1,)},
    }
    assert _with_dtypes().stats("MatMul").bytes == (288,)


def test_a_glob_with_a_set_of_letters_is_still_a_glob() -> None:
    assert _with_dtypes().stats("aten::m[mx]").calls == (3,)


def test_a_cast_of_one_number_inside_an_op_is_a_part_of_it() -> None:
    log = EventLog(Environment((("made", "1"),)))
    number = Signature(("float64",), ("float32",), ((),), ((),))
    inside = log.name("aten::copy_", ("float64", "float32"), signature=number)
    of_data = log.name(
        "aten::copy_", ("float64", "float32"), signature=Signature(("float64",), ("float32",), ((3,),), ((3,),))
    )
    outer = log.add(log.name("aten::mul"), 10)
    log.add(inside, 2, outer)
    log.add(of_data, 2, outer)
    log.add(inside, 2)
    assert {stats.op: stats.calls for stats in log.freeze().ops} == {"Mul": (1,), "Cast": (2,)}
