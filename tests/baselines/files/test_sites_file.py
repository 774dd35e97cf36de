from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.baselines.files import file as baselines_file
from pytest_opprof.baselines.files import paths, sites_file
from pytest_opprof.baselines.files.file_types import SitesFile
from pytest_opprof.baselines.files.sites_file import ModuleSites
from pytest_opprof.baselines.store import Store
from pytest_opprof.errors import BaselineError
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.results import document as results_document
from pytest_opprof.results.json_schema import problems
from pytest_opprof.sites.places import Calls, Place, Site, WindowSites

TORCH = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
HELPER = Place("models.py", "as_float", "return x.float()")
NORM = Place("models.py", "Norm.forward", "y = as_float(x)")
STEP = Place("test_model.py", "test_step", "model(tokens).sum().backward()")
ADD = Place("test_model.py", "test_step", "total = total + 1")
STEP_SITES: WindowSites = {
    "Cast": {
        Site((HELPER, NORM, STEP)): Calls(2, 2),
        Site((HELPER, NORM, STEP), is_backward=True): Calls(1, 2),
        Site((ADD,)): Calls(1, 1),
    },
    "Add": {Site((ADD,)): Calls(0, 3)},
}
OTHER_SITES: WindowSites = {"Cast": {Site((HELPER,)): Calls(1, 1)}}
SOME = [("test_step[bf16]", "body", STEP_SITES), ("test_helper", "body", OTHER_SITES)]
KEPT = {"test_step[bf16]": {"body"}, "test_helper": {"body"}}
TEXT = """\
{
 "chains": {
  "170e3": ["d62e8"],
  "45856": ["d3e3d"],
  "6834e": ["d3e3d", "735ba", "5aa9b"]
 },
 "frames": {
  "5aa9b": ["test_model.py", "test_step", "model(tokens).sum().backward()"],
  "735ba": ["models.py", "Norm.forward", "y = as_float(x)"],
  "d3e3d": ["models.py", "as_float", "return x.float()"],
  "d62e8": ["test_model.py", "test_step", "total = total + 1"]
 },
 "schema": 1,
 "tests": {
  "test_helper": {
   "body": {
    "calls": {
     "45856": {"Cast": 1}
    }
   }
  },
  "test_step[bf16]": {
   "body": {
    "backward": {
     "6834e": {"Cast": [1, 2]}
    },
    "calls": {
     "170e3": {"Add": [0, 3], "Cast": 1},
     "6834e": {"Cast": 2}
    }
   }
  }
 }
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of calls beside that of the sites of SOME."""
    path = tmp_path / "test_model.py.json"
    assert sites_file.save(path, SOME, KEPT) == [paths.sites_of(path)]
    return path


def content(path: Path) -> ModuleSites:
    kept = sites_file.read(path)
    assert isinstance(kept, ModuleSites)
    return kept


def test_the_file_says_each_frame_once_and_no_line_number(path: Path) -> None:
    assert paths.sites_of(path).read_text(encoding="utf-8") == TEXT


def test_sites_are_read_back_by_test_and_window(path: Path) -> None:
    assert content(path).of("test_step[bf16]", "body") == STEP_SITES
    assert content(path).of("test_step[bf16]", "prefill") is None
    assert content(path).of("test_step", "body") is None


def test_a_window_without_ops_is_kept_as_one_that_was_looked_at(path: Path) -> None:
    sites_file.save(path, [("test_step[bf16]", "body", {})], KEPT)
    assert content(path).of("test_step[bf16]", "body") == {}


def test_what_changed_is_replaced_and_the_rest_stays(path: Path) -> None:
    sites_file.save(path, [("test_helper", "body", STEP_SITES)], KEPT)
    assert content(path).windows() == dict.fromkeys([("test_step[bf16]", "body"), ("test_helper", "body")], STEP_SITES)


def test_a_file_that_would_say_the_same_stays_as_it_is(path: Path) -> None:
    at = paths.sites_of(path)
    at.write_text(json.dumps(json.loads(TEXT)))
    before = at.stat()
    assert sites_file.save(path, SOME, KEPT) == sites_file.save(path, (), KEPT) == []
    after = at.stat()  # its time of access may differ: it was read
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)


def test_bytes_and_flops_are_kept_where_they_are_known(path: Path) -> None:
    product = {Site((ADD,)): Calls(2, 2, 96, 1_000), Site((ADD,), is_backward=True): Calls(1, 1, None, 500)}
    sites_file.save(path, [("test_helper", "body", {"MatMul": product})], {"test_helper": {"body"}})
    assert content(path).of("test_helper", "body") == {"MatMul": product}
    kept = json.loads(paths.sites_of(path).read_text(encoding="utf-8"))["tests"]["test_helper"]["body"]
    assert kept["work"] == {"170e3": {"MatMul": [96, 1_000]}}
    assert kept["backward_work"] == {"170e3": {"MatMul": [None, 500]}}


def test_one_line_more_changes_no_other_line_of_the_file(path: Path) -> None:
    new = Place("models.py", "Norm.forward", "return y.to(x.dtype)")
    more = {**STEP_SITES, "Cast": {**STEP_SITES["Cast"], Site((new, STEP)): Calls(2, 2)}}
    sites_file.save(path, [("test_step[bf16]", "body", more)], KEPT)
    lines = paths.sites_of(path).read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(TEXT.splitlines()) + 3
    assert {line.rstrip(",") for line in TEXT.splitlines()} < {line.rstrip(",") for line in lines}


def test_names_of_frames_are_longer_where_they_would_be_the_same(tmp_path: Path) -> None:
    places = [Place("a.py", "f", f"x{number} = y") for number in range(3_000)]  # some four share five letters
    sites = {"Cast": {Site((place,)): Calls(1, 1) for place in places}}
    sites_file.save(tmp_path / "a.json", [("test_a", "body", sites)], {"test_a": {"body"}})
    kept = content(tmp_path / "a.json")
    assert kept.of("test_a", "body") == sites
    assert {5, 6} <= {len(name) for name in kept.file.frames} <= {5, 6, 7}


class TestStale:
    def test_sites_of_tests_and_windows_without_calls_are_dropped(self, path: Path) -> None:
        assert sites_file.save(path, (), {"test_helper": {"body"}, "test_step[bf16]": {"prefill"}}) != []
        assert content(path).windows() == {("test_helper", "body"): OTHER_SITES}
        assert set(content(path).file.frames.values()).isdisjoint([ADD])

    def test_a_file_that_has_none_left_is_removed(self, path: Path) -> None:
        assert sites_file.save(path, (), {}) == [paths.sites_of(path)]
        assert list(path.parent.iterdir()) == []

    def test_nothing_is_written_where_there_was_nothing(self, tmp_path: Path) -> None:
        assert sites_file.save(tmp_path / "test_a.py.json", (), KEPT) == []
        assert sites_file.save(tmp_path / "test_a.py.json", SOME, {}) == []
        assert list(tmp_path.iterdir()) == []


def changed(**keys: Any) -> bytes:
    return json.dumps({**json.loads(TEXT), **keys}).encode()


def window(kept: object) -> bytes:
    return changed(tests={"test_helper": {"body": kept}})


BROKEN = [
    (b"", r":1: is not JSON: Expecting value"),
    (TEXT[:300].encode(), r":\d+: is not JSON"),
    (b"\xff\xfe{}", r"is not UTF-8 text"),
    (b"[" * 100_000, r"is not JSON"),
    (b"[1]", r"is no file of call sites: it holds a list"),
    (b"{}", r"has no schema version"),
    (changed(schema=2), r"has schema version 2, this pytest-opprof reads 1. Upgrade pytest-opprof"),
    (b'{"a": 1,\n<<<<<<< HEAD\n"b": 2\n=======\n"b": 3\n>>>>>>> other\n}', r":2: has git merge conflict markers"),
    (changed(more=1), "the key 'more' is unknown; known: chains, frames, schema, tests"),
    (changed(tests=None), r"\['tests'\]: is null; allowed: an object"),
    (
        changed(frames={"1daa2": ["a.py", "f"]}),
        r"\['frames'\]\['1daa2'\]: is \[\"a.py\", \"f\"\]; allowed: a list of 3 or more",
    ),
    (changed(chains={"45856": ["d3e3d"] * 1001}), r"allowed: a list of at most 1000"),
    (changed(chains={"4" * 10**6: ["0"]}), r"\['chains'\]\['4{100,200}\. Restore the file"),
    (changed(chains={"45856": ["d3e3d", "0"]}), r"\['chains'\]\['45856'\]: there is no frame '0'"),
    (window({"calls": {"0": {"Cast": 1}}}), r"\['tests'\]\['test_helper'\]\['body'\]: there is no chain '0'"),
    (window({"backward": {"0": {"Cast": 1}}}), r"there is no chain '0'"),
    (window({"calls": {"45856": {"Cast": [2, 1]}}}), r"\['body'\]: 'Cast' has \[2, 1\] calls: the least comes first"),
    (window({"calls": {"45856": {"Cast": True}}}), r"is true; allowed: a whole number from 1 to 1e\+15 or a list"),
    (window({"calls": {"45856": {"Cast": 0}}}), r"is 0; allowed: a whole number from 1 to 1e\+15 or a list"),
    (window({"calls": {"45856": {"Cast": 10**400}}}), r"is 10{59}\.\.\.; allowed: "),
]


@pytest.mark.parametrize(("broken", "problem"), BROKEN)
def test_a_file_that_cannot_be_read_is_a_reason_in_words_and_no_failure(
    path: Path, broken: bytes, problem: str
) -> None:
    at = paths.sites_of(path)
    at.write_bytes(broken)
    with pytest.raises(BaselineError, match=problem) as error:
        sites_file.load(at)
    assert sites_file.read(path) == f"no source lines are stored: {error.value}"
    assert str(error.value).startswith(f"{at}:")
    assert "\n" not in str(error.value)
    assert sites_file.save(path, (), KEPT) == []
    assert at.read_bytes() == broken
    assert sites_file.save(path, SOME, KEPT) == [at]
    assert at.read_text(encoding="utf-8") == TEXT


def test_a_missing_file_is_a_reason_with_what_to_do(tmp_path: Path) -> None:
    at = tmp_path / "test_a.py.sites.json"
    said = f"no source lines are stored: {at} does not exist; pytest --opprof-update writes it"
    assert sites_file.read(tmp_path / "test_a.py.json") == said


def test_a_file_of_any_size_is_refused_without_being_read(path: Path) -> None:
    with paths.sites_of(path).open("wb") as file:
        file.truncate(results_document.MAX_BYTES + 1)
    assert "larger than 64 MiB" in str(sites_file.read(path))


def test_a_file_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("")
    with pytest.raises(BaselineError, match=r"test_a\.py\.sites\.json: cannot be written: "):
        sites_file.save(tmp_path / "folder" / "test_a.py.json", SOME, KEPT)


texts = st.text(max_size=8)
places = st.builds(Place, texts, texts, texts)
work = st.none() | st.integers(0, 10**18)
calls = st.builds(
    lambda least, more, *work: Calls(least, least + more, *work), st.integers(0, 10**6), st.integers(0, 2), work, work
)
of_op = st.dictionaries(st.builds(Site, st.lists(places, max_size=3).map(tuple), st.booleans()), calls, max_size=3)
changes = st.lists(st.tuples(texts, texts, st.dictionaries(texts, of_op, max_size=3)), max_size=3)


def without_zero(sites: WindowSites) -> WindowSites:
    kept = {op: {site: calls for site, calls in of_op.items() if calls.most} for op, of_op in sites.items()}
    return {op: of_op for op, of_op in kept.items() if of_op}


@pytest.mark.slow
@given(changes)
def test_any_sites_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, changes: list[sites_file.SiteChange]
) -> None:
    path = tmp_path_factory.mktemp("round-trip") / "a.json"
    kept: dict[str, set[str]] = {}
    for test, name, _ in changes:
        kept.setdefault(test, set()).add(name)
    written = sites_file.save(path, changes, kept)
    expected = {(test, name): without_zero(sites) for test, name, sites in changes}
    assert bool(written) is bool(expected)
    if written:
        assert content(path).windows() == expected
        assert list(problems(json.loads(written[0].read_text(encoding="utf-8")), SitesFile)) == []


@given(st.binary(max_size=60), st.integers(0, len(TEXT)), st.integers(0, 60))
def test_any_bytes_anywhere_are_sites_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory, some: bytes, start: int, length: int
) -> None:
    path = tmp_path_factory.mktemp("bytes") / "a.json"
    text = TEXT.encode()
    paths.sites_of(path).write_bytes(text[:start] + some + text[start + length :])
    kept = sites_file.read(path)
    if isinstance(kept, str):
        assert kept.startswith("no source lines are stored: ")
    else:
        kept.windows()


WRITES = """
import sys
from pathlib import Path
from pytest_opprof.baselines.files import sites_file
from pytest_opprof.sites.places import Calls, Place, Site
places = {Place(f"a{number % 3}.py", f"f{number % 5}", f"x{number} = y") for number in range(100)}
sites = {Site((place,), way): Calls(1, 2) for place in places for way in (True, False)}
ops = {op: sites for op in {"Cast", "Add", "Mul"}}
tests = {f"test_{number}" for number in range(4)}
sites_file.save(Path(sys.argv[1]), [(test, "body", ops) for test in tests], {test: {"body"} for test in tests})
"""


@pytest.mark.processes
def test_processes_of_other_hash_seeds_write_the_same_bytes(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        command = [sys.executable, "-c", WRITES, str(tmp_path / f"{seed}.json")]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
    one, other = (paths.sites_of(tmp_path / f"{seed}.json").read_bytes() for seed in ("1", "2"))
    assert one == other


class TestStore:
    """Sites come and go with the calls of their window."""

    CALLS = WindowBaseline({"Cast": OpCounts(Range(5))})

    def recorded(self, root: Path, *tests: str) -> Store:
        store = Store(root)
        for test in tests:
            store.put(TORCH, "test_a.py", test, "body", self.CALLS)
            store.put_sites(TORCH, "test_a.py", test, "body", OTHER_SITES)
        path = paths.path_of(root, TORCH, "test_a.py")
        assert store.save().files == [path, paths.sites_of(path)]
        return Store(root)

    def sites(self, root: Path, module: str = "test_a.py", test: str = "test_x") -> WindowSites | str:
        return Store(root).sites(TORCH, module, test, "body")

    def test_sites_that_were_put_are_found_by_the_next_run(self, tmp_path: Path) -> None:
        self.recorded(tmp_path, "test_x")
        assert self.sites(tmp_path) == OTHER_SITES
        assert list(paths.files(tmp_path)) == [paths.path_of(tmp_path, TORCH, "test_a.py")]

    def test_a_window_that_has_none_is_told_why(self, tmp_path: Path) -> None:
        self.recorded(tmp_path, "test_x")
        assert "has none for this window; pytest --opprof-update adds them" in str(self.sites(tmp_path, test="test_y"))
        assert "does not exist; pytest" in str(self.sites(tmp_path, module="test_b.py"))

    def test_sites_alone_may_change(self, tmp_path: Path) -> None:
        store = self.recorded(tmp_path, "test_x", "test_y")
        store.put_sites(TORCH, "test_a.py", "test_x", "body", STEP_SITES)
        assert store.save().files == [paths.sites_of(paths.path_of(tmp_path, TORCH, "test_a.py"))]
        assert store.sites(TORCH, "test_a.py", "test_x", "body") == STEP_SITES
        assert self.sites(tmp_path, test="test_y") == OTHER_SITES

    def test_sites_of_a_test_that_was_dropped_go(self, tmp_path: Path) -> None:
        store = self.recorded(tmp_path, "test_x", "test_y")
        store.drop_tests(paths.path_of(tmp_path, TORCH, "test_a.py"), ["test_x"])
        store.save()
        assert "has none for this window" in str(self.sites(tmp_path))
        assert self.sites(tmp_path, test="test_y") == OTHER_SITES
        store.drop_tests(paths.path_of(tmp_path, TORCH, "test_a.py"), ["test_y"])
        store.save()
        assert list(tmp_path.rglob("*.json")) == []

    def test_sites_move_with_their_test(self, tmp_path: Path) -> None:
        store = self.recorded(tmp_path, "test_x")
        assert store.move("test_a.py", "tests/test_b.py") == 1
        store.save()
        assert self.sites(tmp_path, "tests/test_b.py") == OTHER_SITES
        assert "does not exist; pytest" in str(self.sites(tmp_path))

    def test_sites_are_found_where_the_calls_of_the_window_are(self, tmp_path: Path) -> None:
        self.recorded(tmp_path, "test_x")
        more = Environment((("numpy", "2.0.0"), ("torch", "2.13.0")), "cpu", "x86_64")
        assert Store(tmp_path).entry(more, "test_a.py", "test_x", "body") == self.CALLS
        assert Store(tmp_path).sites(more, "test_a.py", "test_x", "body") == OTHER_SITES

    def test_a_broken_file_of_sites_stops_no_update_of_calls(self, tmp_path: Path) -> None:
        store = self.recorded(tmp_path, "test_x")
        path = paths.path_of(tmp_path, TORCH, "test_a.py")
        paths.sites_of(path).write_text("{")
        assert "is not JSON" in str(store.sites(TORCH, "test_a.py", "test_x", "body"))
        store.put(TORCH, "test_a.py", "test_x", "body", WindowBaseline({"Cast": OpCounts(Range(6))}))
        assert store.save().files == [path]
        assert baselines_file.load(path).tests["test_x"]["body"].ops["Cast"].calls.most == 6
