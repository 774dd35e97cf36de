from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.baselines import file as baselines_file
from pytest_opprof.baselines import place
from pytest_opprof.baselines.entry import Baselines, Entry
from pytest_opprof.errors import BaselineError
from pytest_opprof.profile.calls import Calls
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.timings import OUTSIDE, Run, run_of
from pytest_opprof.results import document as results_document

from ..conftest import ENVIRONMENT, profile_of

HERE = "CPU, 2 cores"
TORCH = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
SOME = Baselines(
    TORCH,
    {
        "test_b[fp16]": {"body": Entry({"MatMul": Calls(3, 3), "Cast": Calls(10, 12)})},
        "TestA::test_a": {
            "prefill": Entry(
                {"Add": Calls(1, 1)},
                {
                    HERE: (
                        Run(
                            (50_449, 50_449),
                            {"Add": (41_234, 40_999), OUTSIDE: (9_216, 9_450)},
                            (0, 7_125),
                            (30_120, 29_000),
                            1,
                        ),
                        Run(
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

TEXT = """\
{
 "environment": {
  "arch": "x86_64",
  "device": "cpu",
  "frameworks": {
   "torch": "2.13.0"
  },
  "timing": ""
 },
 "schema": 2,
 "tests": {
  "TestA::test_a": {
   "prefill": {
    "calls": {
     "Add": 1
    },
    "times": {
     "CPU, 2 cores": {
      "ops_us": {
       "(outside ops)": [[9.22, 9.45], [10, 12]],
       "Add": [[41.2, 41], [41, 40]]
      },
      "threads": 1,
      "total_us": [[50.4, 50.4], [51, 52]],
      "wait_us": [[0, 7.12], [0, 0]],
      "yardstick_us": [[30.1, 29], [31, 30]]
     }
    }
   }
  },
  "test_b[fp16]": {
   "body": {
    "calls": {
     "Cast": [10, 12],
     "MatMul": 3
    }
   }
  }
 }
}
"""


def test_a_file_is_sorted_with_one_op_a_line_and_times_rounded_to_what_is_meaningful() -> None:
    assert baselines_file.dump(SOME) == TEXT


def test_a_file_that_was_written_is_read_back(tmp_path: Path) -> None:
    path = place.path_of(tmp_path, TORCH, "tests/test_model.py")
    assert path == tmp_path / "torch-2.13.0-cpu-x86_64" / "tests" / "test_model.py.json"
    baselines_file.save(path, SOME)
    assert baselines_file.dump(baselines_file.load(path)) == TEXT
    assert list(place.files(tmp_path)) == [path]
    assert place.module_of(tmp_path, path) == "tests/test_model.py"


@pytest.mark.parametrize("module", ["test_a.py", "a/b/test_c.py", "../up/test_d.py", "../../test_e.py", "README.md"])
def test_a_module_outside_the_root_directory_does_not_lead_out_of_the_folder(tmp_path: Path, module: str) -> None:
    path = place.path_of(tmp_path, TORCH, module)
    assert path.resolve().is_relative_to(tmp_path.resolve())
    assert place.module_of(tmp_path, path) == module


def test_only_the_file_itself_is_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "env" / "test_a.py.json"
    baselines_file.save(path, SOME)
    baselines_file.save(path, Baselines(TORCH))
    assert os.listdir(path.parent) == ["test_a.py.json"]


def test_a_file_that_cannot_be_written_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "env" / "test_a.py.json"
    baselines_file.save(path, SOME)

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BaselineError, match=r"test_a.py.json: cannot be written: No space left on device"):
        baselines_file.save(path, Baselines(TORCH))
    assert path.read_text() == TEXT
    assert os.listdir(path.parent) == ["test_a.py.json"]


def edited(edit: Callable[[dict[str, object]], object]) -> bytes:
    document = json.loads(TEXT)
    edit(document)
    return json.dumps(document).encode()


def times(edit: Callable[[dict[str, list[object]]], object]) -> bytes:
    return edited(lambda d: edit(d["tests"]["TestA::test_a"]["prefill"]["times"][HERE]))  # type: ignore[index]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"a.json:1: is not JSON: Expecting value"),
        (TEXT[:200].encode(), r"a.json:\d+: is not JSON"),
        (b"\xff\xfe{}", r"is not UTF-8 text \(byte 0\)"),
        ("﻿{}".encode(), r"is not JSON: Unexpected UTF-8 BOM"),
        (b"[1]", r"is no baseline file: it holds a list"),
        (b"{}", r"has no schema version; this is no baseline file"),
        (b'{"schema": true}', r"has no schema version"),
        (b'{"schema": 99}', r"has schema version 99, this pytest-opprof reads up to 2. Upgrade pytest-opprof"),
        (b'{"schema": 2, "schema": 2}', r"the key 'schema' is there twice"),
        (b'{"schema": NaN}', r"NaN is no number"),
        (b"[" * 100_000, r"is not JSON"),
        (b'{"schema": ' + b"9" * 10_000 + b"}", r"is not JSON|has schema version"),
        (
            b'{"a": 1,\n<<<<<<< HEAD\n"b": 2\n=======\n"b": 3\n>>>>>>> other\n}',
            r"a.json:2: has git merge conflict markers",
        ),
        (TEXT.replace("41.2", "1e400").encode(), r"inf is greater than the maximum"),
        (TEXT.replace("[10, 12]", "[12, 10]").encode(), r"\['Cast'\]: the range is empty"),
        (
            TEXT.replace('"Add": [[41.2', '"Mul": [[41.2').encode(),
            r"\['TestA::test_a'\]\['prefill'\]\['times'\]\['CPU, 2 cores'\]: 'Mul' is timed, but has no calls",
        ),
        (edited(lambda d: d.pop("tests")), r"the file: 'tests' is a required property"),
        (edited(lambda d: d["tests"]["test_b[fp16]"]["body"]["calls"].update(Cast="x")), r"\['calls'\]\['Cast'\]"),  # type: ignore[index]
        (edited(lambda d: d["tests"]["test_b[fp16]"]["body"]["calls"].update(Cast=-1)), r"\['calls'\]\['Cast'\]"),  # type: ignore[index]
        (times(lambda t: t["total_us"].pop()), r"\['CPU, 2 cores'\]: the numbers of processes or rounds differ"),
        (times(lambda t: t["ops_us"]["Add"][1].pop()), r"the numbers of processes or rounds differ"),
        (times(lambda t: t["ops_us"].update(Add=[[1]])), r"the numbers of processes or rounds differ"),
        (times(lambda t: t["wait_us"].pop()), r"the numbers of processes or rounds differ"),
        (times(lambda t: t["yardstick_us"].pop()), r"the numbers of processes or rounds differ"),
        (times(lambda t: t.pop("threads")), r"'threads' is a required property"),
        (times(lambda t: t.update(threads=-1)), r"\['threads'\]: -1 is less than the minimum"),
        (times(lambda t: t.update(total_us=[])), r"\['total_us'\]: \[\] should be non-empty"),
        (times(lambda t: t.update(total_us=[[], []])), r"\['total_us'\]\[0\]: \[\] should be non-empty"),
        (times(lambda t: t["ops_us"].update(Add=[41.2, 41])), r"\['Add'\]\[0\]: 41.2 is not of type 'array'"),
        (times(lambda t: t.update(device_us=[1])), r"'device_us' was unexpected"),
    ],
)
def test_a_broken_file_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(BaselineError, match=message) as error:
        baselines_file.load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == content


def test_a_file_of_any_size_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(results_document.MAX_BYTES + 1)
    with pytest.raises(BaselineError, match="larger than 64 MiB"):
        baselines_file.load(path)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"a\.json: cannot be read: No such file"):
        baselines_file.load(tmp_path / "a.json")


OLD_TEXT = """\
{
 "environment": {"arch": "x86_64", "device": "cpu", "frameworks": {"torch": "2.13.0"}, "timing": ""},
 "schema": 1,
 "tests": {
  "TestA::test_a": {"prefill": {"calls": {"Add": 1}, "device_us": {"CPU, 2 cores": {"Add": [41.2, 41]}}}},
  "test_b[fp16]": {"body": {"calls": {"Cast": [10, 12], "MatMul": 3}}}
 }
}
"""


def test_an_older_schema_keeps_its_calls_and_loses_the_times_of_its_one_process(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(OLD_TEXT)
    content = baselines_file.load(path)
    assert content.environment == SOME.environment
    assert content.tests == {
        test: {window: Entry(entry.calls) for window, entry in windows.items()} for test, windows in SOME.tests.items()
    }
    assert '"schema": 2' in baselines_file.dump(content)
    assert path.read_text() == OLD_TEXT  # reading rewrites nothing


@pytest.mark.parametrize(
    ("there", "instead", "message"),
    [
        ('"calls": {"Add": 1}', '"calls": {"Add": 0}', r"\['calls'\]\['Add'\]"),
        ('"tests": {', '"tests": 7, "x": {', r"the file: "),
        ('"TestA::test_a": {', '"TestA::test_a": [], "x": {', r"\['tests'\]\['TestA::test_a'\]"),
    ],
)
def test_an_older_file_that_is_broken_is_one_clear_error(
    tmp_path: Path, there: str, instead: str, message: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(OLD_TEXT.replace(there, instead))
    with pytest.raises(BaselineError, match=message):
        baselines_file.load(path)


def test_upgrades_go_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text(OLD_TEXT.replace('"tests"', '"cases"'))
    oldest = json.loads(path.read_text()) | {"schema": 1}
    monkeypatch.setattr(baselines_file, "SCHEMA", 3)
    monkeypatch.setattr(
        baselines_file,
        "_UPGRADES",
        {1: lambda old: {**old, "second": old.pop("cases")}, 2: lambda old: {**old, "tests": old.pop("second")}},
    )
    assert baselines_file._upgraded(oldest, path)["schema"] == 3
    assert "test_b[fp16]" in baselines_file._upgraded(json.loads(path.read_text()), path)["tests"]


def test_an_entry_keeps_the_fewest_and_the_most_calls_and_the_time_of_each_round() -> None:
    profile = profile_of([("Cast", 5), ("Add", 7)], [("Cast", 6), ("Cast", 7), ("Add", 8)])
    entry = Entry.of(replace(profile, yardstick_ns=(9, 8)), HERE, threads=1)
    assert entry.calls == {"Cast": Calls(1, 2), "Add": Calls(1, 1)}
    assert entry.times == {HERE: (Run((12, 21), {"Cast": (5, 13), "Add": (7, 8)}, threads=1),)}
    assert str(entry.calls["Cast"]) == "1..2"


CPU = replace(ENVIRONMENT, device="cpu")


def test_what_the_host_waited_for_is_kept_for_a_cpu_and_not_for_an_accelerator() -> None:
    profile = replace(profile_of([("Add", 4_000)]), wait_ns=(3,), yardstick_ns=(9,))
    on_accelerator, on_cpu = run_of(profile), run_of(replace(profile, environment=CPU))
    assert on_accelerator == Run((4_000,), {"Add": (4_000,)})
    assert on_cpu is not None
    assert (on_cpu.wait_ns, on_cpu.yardstick_ns) == ((3,), (9,))


def test_on_a_cpu_the_whole_is_wall_time_and_what_its_ops_do_not_take_is_outside() -> None:
    profile = profile_of([("Add", 4_000)], [("Add", 11_000)], environment=CPU)  # of 10 us each
    run = run_of(profile)
    assert run is not None
    assert run.total_ns == (10_000, 10_000)
    assert run.ops_ns == {"Add": (4_000, 11_000), OUTSIDE: (6_000, 0)}
    of_ops = run_of(profile, wall=False)
    assert of_ops is not None
    assert (of_ops.total_ns, set(of_ops.ops_ns)) == ((4_000, 11_000), {"Add"})


def test_wall_time_that_is_not_known_is_no_whole() -> None:
    run = run_of(replace(profile_of([("Add", 4_000)], environment=CPU), host_ns=(-1,)))
    assert run is not None
    assert (run.total_ns, set(run.ops_ns)) == ((4_000,), {"Add"})


def test_a_profile_without_times_has_none_to_keep() -> None:
    profile = profile_of([("Add", -1)])
    assert run_of(profile) is None
    assert Entry.of(profile, HERE).times == {}


def runs(ns: int, rounds: int = 10, processes: int = 3, threads: int = 1) -> tuple[Run, ...]:
    return (Run((ns,) * rounds, {"Add": (ns,) * rounds}, threads=threads),) * processes


OLD = Entry({"Add": Calls(1, 1)}, {HERE: runs(10), "Other": runs(99)})


def test_an_update_with_other_calls_drops_every_time() -> None:
    now = Entry({"Add": Calls(2, 2)}, {HERE: runs(20)})
    assert OLD.updated(now, HERE, times_changed=False) == now


def test_an_update_with_the_same_calls_and_no_news_changes_nothing() -> None:
    assert OLD.updated(Entry(OLD.calls, {HERE: runs(11)}), HERE, times_changed=False) == OLD


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        (runs(10), runs(30), True),
        (runs(10), runs(10, rounds=30), False),
        (runs(10), runs(10, threads=0), False),
        (runs(10, processes=2), runs(10), False),
        ((), runs(10), False),
    ],
    ids=["slower", "other rounds", "other threads", "too few processes", "none"],
)
def test_an_update_of_times_keeps_those_of_other_machines(
    before: tuple[Run, ...], now: tuple[Run, ...], changed: bool
) -> None:
    old = Entry(OLD.calls, {HERE: before, "Other": runs(99)} if before else {"Other": runs(99)})
    assert old.updated(Entry(OLD.calls, {HERE: now}), HERE, changed).times == {HERE: now, "Other": runs(99)}


def test_times_of_too_few_rounds_to_be_judged_are_not_taken_again_for_more_processes() -> None:
    old = Entry(OLD.calls, {HERE: runs(10, rounds=9, processes=1)})
    assert old.updated(Entry(OLD.calls, {HERE: runs(11, rounds=9, processes=1)}), HERE, times_changed=False) == old


def test_an_update_on_another_machine_is_kept_beside() -> None:
    now = Entry(OLD.calls, {"Third": runs(5)})
    assert set(OLD.updated(now, "Third", times_changed=False).times) == {HERE, "Other", "Third"}


def test_an_update_without_times_keeps_those_there_are() -> None:
    assert OLD.updated(Entry(OLD.calls), HERE, times_changed=True) == OLD


names = st.text(max_size=12)
calls = st.builds(lambda least, more: Calls(least, least + more), st.integers(1, 10**6), st.integers(0, 9))


rounded_ns = st.builds(lambda digits, power: digits * 10**power, st.integers(0, 999), st.integers(0, 9))
"""Of three digits, which is what a file keeps."""


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    counted = draw(st.dictionaries(names, calls, max_size=4))
    rounds, processes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    samples = st.lists(rounded_ns, min_size=rounds, max_size=rounds).map(tuple)
    waits = draw(st.sampled_from([samples, st.just(())]))
    yardstick = draw(st.sampled_from([samples, st.just(())]))
    threads = draw(st.integers(0, 64))
    timed = [*counted, *draw(st.sampled_from([[], [OUTSIDE]]))]
    measured = tuple(
        Run(draw(samples), {op: draw(samples) for op in timed}, draw(waits), draw(yardstick), threads)
        for _ in range(processes)
    )
    return Entry(counted, {HERE: measured} if draw(st.booleans()) else {})


@given(st.dictionaries(names, st.dictionaries(names, entries(), min_size=1, max_size=2), max_size=3))
def test_any_baselines_survive_a_round_trip(tmp_path_factory: pytest.TempPathFactory, tests: dict[str, object]) -> None:
    path = tmp_path_factory.mktemp("round-trip") / "a.json"
    baselines_file.save(path, Baselines(TORCH, tests))  # type: ignore[arg-type]
    once = baselines_file.load(path)
    assert once.tests == tests
    assert baselines_file.dump(once) == path.read_text(encoding="utf-8")
    assert list(baselines_file.problems(json.loads(path.read_text(encoding="utf-8")))) == []


@given(st.binary(max_size=200))
def test_any_bytes_are_a_baseline_or_a_baseline_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "a.json"
    path.write_bytes(content)
    with pytest.raises(BaselineError):
        baselines_file.load(path)
