from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_opprof.baselines import file, paths
from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.errors import BaselineError

from .test_file import CALLS, HERE, SOME, TIMES, texts

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


def test_schema_1_keeps_its_calls_and_loses_the_times_of_its_one_process(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(OLD_TEXT)
    content = file.load(path)
    assert content.environment == SOME.environment
    assert content.tests == {
        test: {window: WindowBaseline(entry.calls) for window, entry in windows.items()}
        for test, windows in SOME.tests.items()
    }
    assert texts(path) == [OLD_TEXT]  # reading rewrites nothing
    file.save(path, content)
    assert texts(path) == [CALLS]


@pytest.mark.parametrize(
    ("there", "instead", "message"),
    [
        ('"calls": {"Add": 1}', '"calls": {"Add": 0}', r"\['calls'\]\['Add'\]"),
        ('"tests": {', '"tests": 7, "x": {', r"\['tests'\]: 7 is not of type 'object'"),
        ('"TestA::test_a": {', '"TestA::test_a": [], "x": {', r"\['tests'\]\['TestA::test_a'\]"),
    ],
)
def test_a_file_of_schema_1_that_is_broken_is_one_clear_error(
    tmp_path: Path, there: str, instead: str, message: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(OLD_TEXT.replace(there, instead))
    with pytest.raises(BaselineError, match=message):
        file.load(path)


def schema_2() -> str:
    """Return SOME as version 2 had it: times in the entry of their window."""
    document = json.loads(CALLS) | {"schema": 2}
    machines = json.loads(TIMES)["times"]["TestA::test_a"]["prefill"]
    del machines[HERE]["calls_digest"]
    document["tests"]["TestA::test_a"]["prefill"]["times"] = machines
    document["tests"]["test_b[fp16]"]["body"]["times"] = {}
    return json.dumps(document)


def test_schema_2_had_times_in_the_file_of_calls_and_is_split_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(schema_2())
    content = file.load(path)
    assert content.unused_times == ()
    assert texts(path) == [schema_2()]  # reading rewrites nothing
    assert file.save(path, content) == [path, paths.times_of(path)]
    assert texts(path) == [CALLS, TIMES]


def test_times_beside_a_file_that_has_its_own_are_not_used_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(schema_2())
    paths.times_of(path).write_text(TIMES.replace("41.2", "1"))
    content = file.load(path)
    assert content.tests["TestA::test_a"]["prefill"].times[HERE][0].ops_ns["Add"][0] == 41_200
    assert content.unused_times == ("a.json is of an older schema, and has times itself; an update replaces both",)


@pytest.mark.parametrize(
    ("there", "instead", "message"),
    [
        ('"threads": 1', '"threads": -1', r"\['threads'\]: -1 is less than the minimum"),
        ('"times": {}', '"times": 7', r"\['times'\]\['test_b\[fp16\]'\]\['body'\]: 7 is not of type 'object'"),
        ('"times": {}', '"times": {"Other": 7}', r"\['body'\]\['Other'\]: 7 is not of type 'object'"),
        ('"calls": {"Add": 1}', '"calls": {"Mul": 1}', r"'Add' is timed, but has no calls"),
        ('"schema": 2', '"schema": 2, "times": {}', r"the file: .*'times' was unexpected"),
    ],
)
def test_a_file_of_schema_2_that_is_broken_is_one_clear_error(
    tmp_path: Path, there: str, instead: str, message: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(schema_2().replace(there, instead))
    with pytest.raises(BaselineError, match=message) as error:
        file.load(path)
    assert str(error.value).startswith(f"{path}: ")
