from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.baselines.entry import Baselines, WindowBaseline
from pytest_opprof.baselines.files import file as baselines_file
from pytest_opprof.baselines.files import paths
from pytest_opprof.baselines.files.file_types import CallsFile, TimesFile
from pytest_opprof.baselines.store import Store
from pytest_opprof.errors import BaselineError
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import OUTSIDE, ProcessTimes
from pytest_opprof.results import document as results_document
from pytest_opprof.results.json_schema import problems
from pytest_opprof.verdict.quantities import FACTS
from pytest_opprof.verdict.times.coarse import Coarse

from ..whole_entry import lacking, whole

HERE = "CPU, 2 cores"
TORCH = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
SOME = Baselines(
    TORCH,
    {
        "test_b[fp16]": {"body": WindowBaseline({"MatMul": OpCounts(Range(3)), "Cast": OpCounts(Range(10, 12))})},
        "TestA::test_a": {
            "prefill": WindowBaseline(
                {"Add": OpCounts(Range(1))},
                {
                    HERE: (
                        ProcessTimes(
                            (50_449, 50_449),
                            {"Add": (41_234, 40_999), OUTSIDE: (9_216, 9_450)},
                            (0, 7_125),
                            (30_120, 29_000),
                            1,
                        ),
                        ProcessTimes(
                            (51_000, 52_000),
                            {"Add": (41_000, 40_000), OUTSIDE: (10_000, 12_000)},
                            (0, 0),
                            (31_000, 30_000),
                            1,
                        ),
                    )
                },
            )
        },
    },
)

HEAD = """\
{
 "environment": {
  "arch": "x86_64",
  "device": "cpu",
  "frameworks": {
   "torch": "2.13.0"
  },
  "timing": ""
 },
"""
CALLS = f"""{HEAD}\
 "schema": 4,
 "tests": {{
  "TestA::test_a": {{
   "prefill": {{
    "ops": {{
     "Add": {{"calls": 1}}
    }}
   }}
  }},
  "test_b[fp16]": {{
   "body": {{
    "ops": {{
     "Cast": {{"calls": [10, 12]}},
     "MatMul": {{"calls": 3}}
    }}
   }}
  }}
 }}
}}
"""
TIMES = f"""{HEAD}\
 "schema": 1,
 "times": {{
  "TestA::test_a": {{
   "prefill": {{
    "CPU, 2 cores": {{
     "calls_digest": "8662b8db544c",
     "ops_us": {{
      "(outside ops)": [[9.22, 9.45], [10, 12]],
      "Add": [[41.2, 41], [41, 40]]
     }},
     "threads": 1,
     "total_us": [[50.4, 50.4], [51, 52]],
     "wait_us": [[0, 7.12], [0, 0]],
     "yardstick_us": [[30.1, 29], [31, 30]]
    }}
   }}
  }}
 }}
}}
"""
TEST_A, TEST_B = SOME.tests["TestA::test_a"], SOME.tests["test_b[fp16]"]
MORE_MATMUL = WindowBaseline({"MatMul": OpCounts(Range(4)), "Cast": OpCounts(Range(10, 12))})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return the file of calls of SOME."""
    path = paths.path_of(tmp_path, TORCH, "tests/test_model.py")
    baselines_file.save(path, SOME)
    return path


def texts(path: Path) -> list[str]:
    """Return what the files of calls and of times hold."""
    return [each.read_text(encoding="utf-8") for each in (path, paths.times_of(path)) if each.exists()]


def test_files_are_sorted_with_one_op_a_line_and_times_rounded_to_what_is_meaningful(saved: Path) -> None:
    assert texts(saved) == [CALLS, TIMES]


def test_files_that_were_written_are_read_back_and_would_be_written_alike(saved: Path) -> None:
    content = baselines_file.load(saved)
    assert content.unused_times == ()
    assert baselines_file.save(saved, content) == []
    for each in (saved, paths.times_of(saved)):
        each.unlink()
    assert baselines_file.save(saved, content) == [saved, paths.times_of(saved)]
    assert texts(saved) == [CALLS, TIMES]


def test_only_the_files_themselves_are_left_behind_and_none_with_nothing_in_it(saved: Path) -> None:
    assert sorted(os.listdir(saved.parent)) == ["test_model.py.json", "test_model.py.times.json"]
    assert baselines_file.save(saved, Baselines(TORCH, {"test_b[fp16]": TEST_B})) == [saved, paths.times_of(saved)]
    assert os.listdir(saved.parent) == ["test_model.py.json"]
    assert baselines_file.save(saved, Baselines(TORCH)) == [saved]
    assert os.listdir(saved.parent) == []


def test_a_changed_count_is_one_changed_line_of_the_file_that_is_reviewed(saved: Path) -> None:
    new = Baselines(TORCH, {**SOME.tests, "test_b[fp16]": {"body": MORE_MATMUL}})
    assert baselines_file.save(saved, new) == [saved]
    assert texts(saved) == [CALLS.replace('"MatMul": {"calls": 3}', '"MatMul": {"calls": 4}'), TIMES]


def test_calls_in_a_layout_of_somebodys_own_stay_as_they_are_where_only_times_change(saved: Path) -> None:
    text = json.dumps(json.loads(CALLS), indent=4)
    saved.write_text(text)
    paths.times_of(saved).unlink()
    assert baselines_file.save(saved, SOME) == [paths.times_of(saved)]
    assert texts(saved) == [text, TIMES]


def test_a_file_that_cannot_be_written_is_left_as_it_was(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BaselineError, match=r"test_model.py.json: cannot be written: No space left on device"):
        baselines_file.save(saved, Baselines(TORCH, {**SOME.tests, "test_b[fp16]": {"body": MORE_MATMUL}}))
    assert texts(saved) == [CALLS, TIMES]
    assert sorted(os.listdir(saved.parent)) == ["test_model.py.json", "test_model.py.times.json"]


def test_an_interruption_between_both_files_leaves_times_that_are_not_used(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_file = os.replace

    def interrupted(source: Path, target: Path) -> None:
        if target == saved:
            raise KeyboardInterrupt
        replace_file(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        baselines_file.save(saved, Baselines(TORCH, {"TestA::test_a": {"prefill": MORE_CALLS}}))
    assert texts(saved)[0] == CALLS
    assert texts(saved)[1] != TIMES
    left = baselines_file.load(saved)
    entry = left.tests["TestA::test_a"]["prefill"]
    assert (entry.ops, entry.times, set(entry.mismatched)) == ({"Add": OpCounts(Range(1))}, {}, {HERE})
    assert len(left.unused_times) == 1


MORE_CALLS = WindowBaseline({"Add": OpCounts(Range(2))}, TEST_A["prefill"].times)


@pytest.mark.processes
def test_sound_files_are_read_without_json_schema(saved: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from pytest_opprof.baselines import store
store.file.load(Path({str(saved)!r}))
assert "jsonschema" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_file_of_times_is_no_times(saved: Path) -> None:
    paths.times_of(saved).unlink()
    content = baselines_file.load(saved)
    assert content.unused_times == ()
    assert content.tests == {
        "TestA::test_a": {"prefill": WindowBaseline({"Add": OpCounts(Range(1))})},
        "test_b[fp16]": TEST_B,
    }


def test_times_of_other_calls_are_not_used_and_that_is_said(saved: Path) -> None:
    saved.write_text(CALLS.replace('"Add": {"calls": 1}', '"Add": {"calls": 2}'))
    content = baselines_file.load(saved)
    entry = content.tests["TestA::test_a"]["prefill"]
    assert (entry.ops, entry.times, set(entry.mismatched)) == ({"Add": OpCounts(Range(2))}, {}, {HERE})
    assert content.unused_times == (
        "['times']['TestA::test_a']['prefill']['CPU, 2 cores']: belongs to other calls; pytest"
        " --opprof-update records it again;"
        " opprof baselines prune removes it",
    )


def test_times_of_other_calls_come_back_with_these_though_another_test_was_written_meanwhile(
    saved: Path, tmp_path: Path
) -> None:
    before = baselines_file.load(saved).tests["TestA::test_a"]
    saved.write_text(CALLS.replace('"Add": {"calls": 1}', '"Add": {"calls": 2}'))
    store = Store(tmp_path)
    store.put(TORCH, "tests/test_model.py", "test_new", "body", WindowBaseline({"Add": OpCounts(Range(1))}))
    store.save()
    saved.write_text(saved.read_text().replace('"Add": {"calls": 2}', '"Add": {"calls": 1}'))
    content = baselines_file.load(saved)
    assert content.tests["TestA::test_a"] == before
    assert content.tests.keys() == {"TestA::test_a", "test_b[fp16]", "test_new"}
    assert content.unused_times == ()


def test_times_of_one_machine_may_be_of_these_calls_and_those_of_another_not(saved: Path) -> None:
    # A merge can take one machine from each side.
    document = json.loads(TIMES)
    machines = document["times"]["TestA::test_a"]["prefill"]
    machines["Other"] = {**machines[HERE], "calls_digest": "0"}
    paths.times_of(saved).write_text(json.dumps(document))
    entry = baselines_file.load(saved).tests["TestA::test_a"]["prefill"]
    assert (set(entry.times), set(entry.mismatched)) == ({HERE}, {"Other"})


def test_each_field_of_an_entry_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = whole(1)
    ranks = {str(rank): replace(whole(rank + 1), times={}, coarse={}, mismatched={}) for rank in range(2)}
    windows = {"body": one, "of ranks": replace(ranks["0"], ranks=ranks)}
    assert lacking(*windows.values()) == set()
    path = tmp_path / "test_a.py.json"
    baselines_file.save(path, Baselines(replace(TORCH, ranks=2), {"test_a": windows}))
    assert baselines_file.load(path).tests == {"test_a": windows}


FACTS_KEPT = {"grad_nodes": Range(0, 3), "peak_memory": Range(4096, 8192, varies=True)}


def test_facts_of_a_window_stand_below_its_calls_and_its_times_stay_of_these_calls(saved: Path) -> None:
    prefill = TEST_A["prefill"]
    with_facts = WindowBaseline(prefill.ops, prefill.times, facts=FACTS_KEPT)
    new = Baselines(TORCH, {**SOME.tests, "TestA::test_a": {"prefill": with_facts}})
    assert baselines_file.save(saved, new) == [saved]
    assert texts(saved)[1] == TIMES
    (kept,) = json.loads(texts(saved)[0])["tests"]["TestA::test_a"].values()
    assert kept == {
        "ops": {"Add": {"calls": 1}},
        "facts": {"grad_nodes": [0, 3], "peak_memory": {"varies": [4096, 8192]}},
    }
    read = baselines_file.load(saved).tests["TestA::test_a"]["prefill"]
    assert (read.facts, set(read.times), read.mismatched) == (FACTS_KEPT, {HERE}, {})


@pytest.mark.parametrize(
    ("there", "instead"), [('"TestA::test_a"', '"test_c"'), ('"prefill"', '"decode"')], ids=["test", "window"]
)
def test_times_without_calls_are_not_used_and_that_is_said(saved: Path, there: str, instead: str) -> None:
    paths.times_of(saved).write_text(TIMES.replace(there, instead))
    content = baselines_file.load(saved)
    assert content.tests["TestA::test_a"]["prefill"] == WindowBaseline({"Add": OpCounts(Range(1))})
    (unused,) = content.unused_times
    assert unused.endswith("has no calls; opprof baselines prune removes it")


def calls(edit: Callable[[dict[str, dict[str, object]]], object]) -> bytes:
    document = json.loads(CALLS)
    edit(document["tests"]["test_b[fp16]"]["body"]["ops"])
    return json.dumps(document).encode()


def facts(**kept: object) -> bytes:
    document = json.loads(CALLS)
    document["tests"]["test_b[fp16]"]["body"]["facts"] = kept
    return json.dumps(document).encode()


def times(edit: Callable[[dict[str, list[object]]], object]) -> bytes:
    document = json.loads(TIMES)
    edit(document["times"]["TestA::test_a"]["prefill"][HERE])
    return json.dumps(document).encode()


BROKEN = [
    (b"", r":1: is not JSON: Expecting value"),
    (CALLS[:200].encode(), r":\d+: is not JSON"),
    (b"\xff\xfe{}", r"is not UTF-8 text \(byte 0\)"),
    ("\ufeff{}".encode(), r"is not JSON: Unexpected UTF-8 BOM"),
    (b"[1]", r"is no (baseline file|file of baseline times): it holds a list"),
    (b"{}", r"has no schema version, so it is not a baseline file"),
    (b'{"schema": true}', r"has no schema version"),
    (b'{"schema": 99}', r"has schema version 99, this pytest-opprof reads \d. Upgrade pytest-opprof"),
    (b'{"schema": 2, "schema": 2}', r"the key 'schema' occurs twice"),
    (b'{"schema": NaN}', r"NaN is no number"),
    (b"[" * 100_000, r"is not JSON"),
    (b'{"schema": ' + b"9" * 10_000 + b"}", r"is not JSON|has schema version"),
    (
        b'{"a": 1,\n<<<<<<< HEAD\n"b": 2\n=======\n"b": 3\n>>>>>>> other\n}',
        r":2: has git merge conflict markers",
    ),
]
BROKEN_CALLS = [
    (CALLS.replace("[10, 12]", "[12, 10]").encode(), r"\['Cast'\]\['calls'\]: is \[12, 10\]: the least comes first"),
    (CALLS.replace('"tests"', '"cases"').encode(), r"the file: "),
    (
        calls(lambda c: c["Cast"].update(calls="x")),
        r"\['ops'\]\['Cast'\]\['calls'\]: is .x.; allowed: a whole number from 0 to 10.*, .least, most. or ",
    ),
    (calls(lambda c: c["Cast"].update(calls=-1)), r"\['ops'\]\['Cast'\]"),
    (calls(lambda c: c["Cast"].update(calls=[1, 2, 3])), r"\['ops'\]\['Cast'\]"),
    (calls(lambda c: c["Cast"].update(calls=10**400)), r"\['ops'\]\['Cast'\]"),
    (
        calls(lambda c: c["Cast"].update(calls=1.0)),
        r"\['calls'\]: is 1.0; allowed: a whole number from 0",
    ),  # which JSON Schema takes for an integer
    (
        facts(grad_nods=3),
        r"\['test_b\[fp16\]'\]\['body'\]\['facts'\]: 'grad_nods' is not a known fact; known: calls, bytes, flops, ",
    ),
    (facts(grad_nodes=[3, 1]), r"\['facts'\]\['grad_nodes'\]: is \[3, 1\]: the least comes first"),
    (facts(grad_nodes=-1), r"\['facts'\]\['grad_nodes'\]"),
    (facts(held_memory=1.5), r"\['facts'\]|got `float`"),
    (TIMES.encode(), r"has schema version 1, "),
]
BROKEN_TIMES = [
    (TIMES.replace("41.2", "1e400").encode(), r"is Infinity; allowed: 1e\+15 or less"),
    (
        TIMES.replace('"Add": [[41.2', '"Mul": [[41.2').encode(),
        r"\['times'\]\['TestA::test_a'\]\['prefill'\]\['CPU, 2 cores'\]: 'Mul' has a time but no calls",
    ),
    (TIMES.replace("2.13.0", "2.14.0").encode(), r"\['environment'\]: is not that of the calls beside it"),
    (times(lambda t: t["total_us"].pop()), r"\['CPU, 2 cores'\]: the numbers of processes or rounds differ"),
    (times(lambda t: t["ops_us"]["Add"][1].pop()), r"the numbers of processes or rounds differ"),
    (times(lambda t: t["ops_us"].update(Add=[[1]])), r"the numbers of processes or rounds differ"),
    (times(lambda t: t["wait_us"].pop()), r"the numbers of processes or rounds differ"),
    (times(lambda t: t["yardstick_us"].pop()), r"the numbers of processes or rounds differ"),
    (times(lambda t: t.pop("threads")), r"the key 'threads' is missing"),
    (times(lambda t: t.pop("calls_digest")), r"the key 'calls_digest' is missing"),
    (times(lambda t: t.update(threads=-1)), r"\['threads'\]: is -1; allowed: 0 or more"),
    (times(lambda t: t.update(total_us=[])), r"\['total_us'\]: is \[\]; allowed: a list of 1 or more"),
    (times(lambda t: t.update(total_us=[[], []])), r"\['total_us'\]\[0\]: is \[\]; allowed: a list of 1 or more"),
    (times(lambda t: t["ops_us"].update(Add=[41.2, 41])), r"\['Add'\]\[0\]: is 41.2; allowed: a list"),
    (times(lambda t: t.update(wait_us=None)), r"\['wait_us'\]: is null; allowed: a list"),
    (times(lambda t: t.update(device_us=[1])), r"the key 'device_us' is unknown; known: calls_digest, ops_us, "),
    (CALLS.encode(), r"has schema version 4, this pytest-opprof reads 1"),
]


@pytest.mark.parametrize(
    ("of_times", "content", "message"),
    [*((False, *each) for each in BROKEN + BROKEN_CALLS), *((True, *each) for each in BROKEN + BROKEN_TIMES)],
)
def test_a_broken_file_is_one_clear_error(saved: Path, of_times: bool, content: bytes, message: str) -> None:
    broken = paths.times_of(saved) if of_times else saved
    broken.write_bytes(content)
    with pytest.raises(BaselineError, match=message) as error:
        baselines_file.load(saved)
    assert str(error.value).startswith(f"{broken}:")
    assert "\n" not in str(error.value)
    assert broken.read_bytes() == content


@pytest.mark.parametrize("of_times", [False, True])
def test_a_file_of_any_size_is_refused_without_being_read(saved: Path, of_times: bool) -> None:
    with (paths.times_of(saved) if of_times else saved).open("wb") as file:
        file.truncate(results_document.MAX_BYTES + 1)
    with pytest.raises(BaselineError, match="larger than 64 MiB"):
        baselines_file.load(saved)


@pytest.mark.parametrize("of_times", [False, True])
@pytest.mark.parametrize("made", ["pipe", "device"])
def test_what_is_no_regular_file_is_refused_without_being_read(saved: Path, made: str, of_times: bool) -> None:
    path = paths.times_of(saved) if of_times else saved
    path.unlink(missing_ok=True)
    if made == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")  # as a repository may bring it
    with pytest.raises(BaselineError, match=rf"{path.name}: is no regular file, so it is no .*\. Delete it$"):
        baselines_file.load(saved)


def test_a_file_whose_size_nobody_tells_is_read_as_far_as_it_may_be_long(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (told := Path("/proc/self/status")).exists():
        pytest.skip("this system has no such files")
    monkeypatch.setattr(results_document, "MAX_BYTES", 10)
    saved.unlink()
    saved.symlink_to(told)
    with pytest.raises(BaselineError, match="larger than"):
        baselines_file.load(saved)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"a\.json: cannot be read: No such file"):
        baselines_file.load(tmp_path / "a.json")


names = st.text(max_size=12)
calls = st.builds(lambda least, more: OpCounts(Range(least, least + more)), st.integers(1, 10**6), st.integers(0, 9))


facts_kept = st.dictionaries(
    st.sampled_from(list(FACTS)),
    st.builds(
        lambda least, more, varies: Range(least, least + more, varies and more > 0),
        st.integers(0, 10**17),
        st.integers(0, 10**17),
        st.booleans(),
    ),
)
rounded_ns = st.builds(lambda digits, power: digits * 10**power, st.integers(0, 999), st.integers(0, 9))
"""Of three digits, which is what a file keeps."""


@st.composite
def entries(draw: st.DrawFn) -> WindowBaseline:
    counted = draw(st.dictionaries(names, calls, max_size=4))
    rounds, processes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    samples = st.lists(rounded_ns, min_size=rounds, max_size=rounds).map(tuple)
    waits = draw(st.sampled_from([samples, st.just(())]))
    yardstick = draw(st.sampled_from([samples, st.just(())]))
    threads = draw(st.integers(0, 64))
    timed = [*counted, *draw(st.sampled_from([[], [OUTSIDE]]))]
    measured = tuple(
        ProcessTimes(draw(samples), {op: draw(samples) for op in timed}, draw(waits), draw(yardstick), threads)
        for _ in range(processes)
    )
    return WindowBaseline(counted, {HERE: measured} if draw(st.booleans()) else {}, facts=draw(facts_kept))


@pytest.mark.slow
@given(st.dictionaries(names, st.dictionaries(names, entries(), min_size=1, max_size=2), min_size=1, max_size=3))
def test_any_baselines_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, tests: dict[str, dict[str, WindowBaseline]]
) -> None:
    path = tmp_path_factory.mktemp("round-trip") / "a.json"
    written = baselines_file.save(path, Baselines(TORCH, tests))
    once = baselines_file.load(path)
    assert (once.tests, once.unused_times) == (tests, ())
    assert baselines_file.save(path, once) == []
    for each, kind in zip(written, (CallsFile, TimesFile)):
        assert list(problems(json.loads(each.read_text(encoding="utf-8")), kind)) == []


@given(st.binary(max_size=200))
def test_any_bytes_are_a_baseline_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "a.json"
    path.write_bytes(content)
    for load in (baselines_file.load, baselines_file.load_times):
        with pytest.raises(BaselineError):
            load(path)


# --- coarse times

TENTHS = st.integers(0, 10**9).map(lambda each: each * 100_000)
SPANS = st.tuples(TENTHS, TENTHS).map(lambda each: (min(each), max(each)))
ONE = st.builds(Coarse, SPANS, SPANS, st.integers(1, 100))
COARSE = st.builds(
    Coarse,
    SPANS,
    SPANS,
    st.integers(1, 100),
    first=st.none() | ONE,
    unrecorded=st.none() | ONE,
    repeated_ns=st.none() | SPANS,
)


@given(st.dictionaries(st.text(min_size=1), COARSE, max_size=3))
def test_coarse_times_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, times: dict[str, Coarse]
) -> None:
    path = paths.path_of(tmp_path_factory.mktemp("coarse"), TORCH, "test_m.py")
    entry = WindowBaseline({"Add": OpCounts(Range(1))}, coarse=times)
    baselines_file.save(path, Baselines(TORCH, {"test_a": {"body": entry}}))
    assert paths.times_of(path).exists() is bool(times)
    assert baselines_file.load(path).tests["test_a"]["body"] == entry


def test_a_time_whose_least_is_more_than_its_most_is_one_clear_error(tmp_path: Path) -> None:
    path = paths.path_of(tmp_path, TORCH, "test_m.py")
    entry = WindowBaseline({"Add": OpCounts(Range(1))}, coarse={HERE: Coarse((1_000_000, 2_000_000), (0, 0))})
    baselines_file.save(path, Baselines(TORCH, {"test_a": {"body": entry}}))
    times = paths.times_of(path)
    times.write_text(times.read_text().replace('"cpu_ms": [1, 2]', '"cpu_ms": [3, 2]'))
    with pytest.raises(BaselineError, match=r"\['coarse'\]\['test_a'\]\['body'\].*: has .*: the least comes first"):
        baselines_file.load(path)
