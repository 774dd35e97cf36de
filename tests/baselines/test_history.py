from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.baselines import git_log
from pytest_opprof.baselines.git_log import Commit, FileChange, is_cut, parsed
from pytest_opprof.baselines.history import History, OpHistory, blobs, history
from pytest_opprof.errors import UsageError

from ..git_history import HERE, Made, OfTests, calls_file, git

PATH = PurePosixPath(HERE, "test_a.py.json")


def of(*states: str | None) -> History:
    """Return the history of one file that was each of the texts, None where it was not there."""
    names = [f"{number:040}" if text else "" for number, text in enumerate(states, 1)]
    commits = [
        Commit(f"c{at}", at, f"Change {at}", at > 0, (FileChange(PATH, old, new),))
        for at, (old, new) in enumerate(zip(["", *names], names))
        if old != new
    ]
    return history(commits, [text.encode() for text in states if text])


def of_tests(*states: OfTests) -> History:
    return of(*(calls_file(tests) for tests in states))


def ops(found: History, environment: str = HERE, since: frozenset[str] | None = None) -> dict[str, OpHistory]:
    return {each.op: each for each in found.ops(environment, lambda test: True, since)}


def test_the_biggest_step_of_an_op_is_told_with_its_commit_and_tests() -> None:
    cast = ops(
        of_tests(
            {"t": {"Cast": 1}, "u": {"Cast": 2}},
            {"t": {"Cast": 2}, "u": {"Cast": 2}},
            {"t": {"Cast": 5}, "u": {"Cast": 6}},
        )
    )["Cast"]
    assert (cast.first, cast.now, dict(cast.totals)) == (3, 11, {1: 4, 2: 11})
    assert (cast.biggest.at, cast.biggest.calls, cast.biggest.tests) == (2, 7, ("test_a.py::t", "test_a.py::u"))


def test_an_op_that_stays_is_not_told_and_ops_come_by_the_size_of_their_steps() -> None:
    found = of_tests({"t": {"Add": 1, "Cast": 9, "MatMul": 2}}, {"t": {"Add": 3, "MatMul": 2, "Exp": 1}})
    assert list(ops(found)) == ["Cast", "Add", "Exp"]
    assert ops(found)["Cast"].now == 0


def test_calls_of_tests_that_come_and_go_are_told_apart_from_those_of_code() -> None:
    cast = ops(of_tests({"t": {"Cast": 1}}, {"t": {"Cast": 2}, "u": {"Cast": 50}}, {"t": {"Cast": 3}}))["Cast"]
    assert [(step.calls, step.arrived) for step in cast.steps] == [(1, 50), (1, -50)]
    assert (cast.first, cast.now, cast.arrived) == (1, 3, 0)


def test_a_renamed_function_is_gone_and_new_and_changes_nothing_in_sum() -> None:
    cast = ops(of_tests({"t": {"Cast": 4}}, {"u": {"Cast": 4}}))
    assert cast == {}


def test_what_grows_in_one_test_and_shrinks_in_another_is_a_step() -> None:
    cast = ops(of_tests({"t": {"Cast": 1}, "u": {"Cast": 2}}, {"t": {"Cast": 2}, "u": {"Cast": 1}}))["Cast"]
    assert [(step.calls, step.tests) for step in cast.steps] == [(0, ("test_a.py::t", "test_a.py::u"))]


def test_a_body_stands_for_the_windows_inside_it() -> None:
    before = {"body": {"ops": {"Cast": {"calls": 3}}}, "prefill": {"ops": {"Cast": {"calls": 2}}}}
    after = {"body": {"ops": {"Cast": {"calls": 5}}}, "prefill": {"ops": {"Cast": {"calls": 4}}}}
    assert ops(of_tests({"t": before}, {"t": after}))["Cast"].biggest.calls == 2
    apart = {"prefill": {"ops": {"Cast": {"calls": 2}}}, "decode": {"ops": {"Cast": {"calls": 1}}}}
    assert ops(of_tests({"t": apart}, {"t": {**apart, "decode": {"ops": {"Cast": {"calls": 4}}}}}))["Cast"].now == 6


def test_of_a_range_the_worst_round_counts() -> None:
    found = of_tests(
        {"t": {"Cast": [1, 3], "Add": 2}},
        {"t": {"body": {"ops": {"Cast": {"calls": {"varies": [2, 7]}}, "Add": {"calls": 2}}}}},
    )
    assert (ops(found)["Cast"].first, ops(found)["Cast"].now) == (3, 7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<<<<<<< HEAD\n{}", "cannot be read: JSON is malformed"),
        ("[]", "cannot be read: Expected `object`"),
        (calls_file({"t": {"Cast": 9}}, schema=3), "has schema version 3, this pytest-opprof reads 4"),
        ("[" * 100_000, "cannot be read: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_counts_as_not_changed(text: str, why: str) -> None:
    found = of(calls_file({"t": {"Cast": 1}}), text, calls_file({"t": {"Cast": 2}}))
    assert [each.startswith(f"{PATH} of c1 {why}") for each in found.unread] == [True]
    assert [(step.at, step.calls) for step in ops(found)["Cast"].steps] == [(2, 1)]


def test_a_renamed_file_keeps_its_tests_under_its_new_name() -> None:
    one, two = calls_file({"t": {"Cast": 1}}), calls_file({"t": {"Cast": 3}})
    old, new = PurePosixPath(HERE, "test_a.py.json"), PurePosixPath(HERE, "sub/test_b.py.json")
    commits = [
        Commit("0", 0, "", False, (FileChange(old, "", "a"),)),
        Commit("1", 1, "", True, (FileChange(old, "a", ""), FileChange(new, "", "a"))),
        Commit("2", 2, "", True, (FileChange(new, "a", "b"),)),
        Commit("3", 3, "", True, (FileChange(old, "", "a"),)),  # another test of the old name
    ]
    assert blobs(commits) == ["a", "b", "a"]
    found = history(commits, [each.encode() for each in (one, two, one)])
    assert {change.test for change in found.changes if change.at < 3} == {"sub/test_b.py::t"}
    (cast,) = found.ops(HERE, lambda test: test == "sub/test_b.py::t")
    assert (cast.first, cast.now, [step.at for step in cast.steps]) == (1, 3, [2])
    assert found.tests == {"sub/test_b.py::t", "test_a.py::t"}


def test_environments_are_never_joined() -> None:
    other = "torch-2.14.0-cpu-x86_64"
    commits = [
        Commit("0", 0, "", False, (FileChange(PATH, "", "a"),)),
        Commit("1", 1, "", True, (FileChange(PATH, "a", ""), FileChange(PurePosixPath(other, PATH.name), "", "b"))),
    ]
    new = calls_file({"t": {"Cast": 5}}, torch="2.14.0")
    found = history(commits, [calls_file({"t": {"Cast": 1}}).encode(), new.encode()])
    assert found.by_environment == {HERE: [0, 1], other: [1]}
    assert found.titles[other] == "torch 2.14.0, cpu (x86_64)"
    assert ops(found, other) == {}  # where it begins
    assert ops(found)["Cast"].now == 0


def test_since_a_revision_begins_with_what_was_there() -> None:
    states = [{"t": {"Cast": calls}} for calls in (1, 4, 5, 7)]
    cast = ops(of_tests(*states), since=frozenset(["c2", "c3"]))["Cast"]
    assert (cast.first, cast.now, [step.calls for step in cast.steps]) == (4, 7, [1, 2])


STATES = st.lists(
    st.dictionaries(st.sampled_from("tuv"), st.dictionaries(st.sampled_from(["Cast", "Add"]), st.integers(1, 9))),
    min_size=1,
    max_size=6,
)


@given(STATES)
def test_steps_add_up_from_the_first_number_to_the_last(states: Sequence[OfTests]) -> None:
    for op, found in ops(of_tests(*states)).items():
        assert found.first + sum(step.calls + step.arrived for step in found.steps) == found.now
        assert found.now == sum(each.get(op, 0) for each in states[-1].values())


@given(
    st.lists(st.tuples(st.text(st.characters(exclude_characters="\0")), st.lists(st.text("ab \n:\x01é", min_size=1))))
)
def test_any_subject_and_path_of_the_log_is_read_back(log: list[tuple[str, list[str]]]) -> None:
    text = "".join(
        f"h{at}\0{at}\0\0{subject}\0"
        + "".join(
            f"{'' if number else chr(10)}:000000 100644 {'0' * 40} {'b' * 40} A\0e/{path}.json\0"
            for number, path in enumerate(paths)
        )
        for at, (subject, paths) in enumerate(log)
    )
    told = [(each.subject, [str(file.path) for file in each.files]) for each in parsed(text)]
    assert told == [(subject, [f"e/{path}.json" for path in paths]) for subject, paths in log if paths]


def test_the_oldest_commit_of_a_shallow_clone_has_parents_that_are_not_there() -> None:
    oldest = [Commit("0", 0, "", False, ())]
    assert is_cut(oldest, b"tree 1\nparent 2\nauthor A\n\nSubject")
    assert not is_cut(oldest, b"tree 1\nauthor A\n\nSubject\nparent 2")
    assert not is_cut([Commit("0", 0, "", True, ())], b"tree 1\nparent 2\n\n")
    assert not is_cut([], b"")


def read(folder: Path) -> History:
    commits = git_log.commits(folder)
    return history(commits, git_log.objects(folder, blobs(commits)))


@pytest.mark.processes
def test_two_hundred_commits_of_a_real_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, cast = Made(tmp_path), 1
    for number in range(200):
        cast += number == 130
        made.baselines(f"Change {number}\n\nWhy it was made", {"t": {"Cast": 4 * cast, "Add": number + 1}})
        made.commit("Code", {"code.py": f"# {number}"})
    folder = made.done()
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as in a hook
    found = read(folder)
    assert len(found.commits) == 200
    assert found.commits[130].subject == "Change 130"
    assert [(step.at, step.calls) for step in ops(found)["Cast"].steps] == [(130, 4)]


@pytest.mark.processes
def test_a_merge_is_where_the_branch_came_to_be_there(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.baselines("Start", {"t": {"Cast": 1}})
    made.baselines("On the branch", {"t": {"Cast": 3}}, branch="feature", parents=("main",))
    made.commit("Meanwhile", {"code.py": ""})
    made.baselines("Merge the feature", {"t": {"Cast": 3}}, parents=("main", "feature"))
    found = read(made.done())
    assert [commit.subject for commit in found.commits] == ["Start", "Merge the feature"]
    assert ops(found)["Cast"].biggest.calls == 2


@pytest.mark.processes
def test_times_sites_and_other_files_are_no_calls(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.baselines("Start", {"t": {"Cast": 1}})
    made.commit("Times", {f"baselines/{HERE}/{name}": "{}" for name in ("a.py.times.json", "a.py.sites.json", "x.md")})
    made.commit("Elsewhere", {"baselines/lone.json": "{}", "other/a.py.json": "{}"})
    made.baselines("A module called times", {"t": {"Cast": 1}}, "pkg._times_")
    folder = made.done()
    (folder / HERE / "link.py.json").symlink_to("nowhere")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "A link")
    found = read(folder)
    assert [commit.subject for commit in found.commits] == ["Start", "A module called times", "A link"]
    assert found.tests == {"tests/test_a.py::t", "pkg.times::t"}


@pytest.mark.processes
def test_a_file_that_was_moved_and_one_that_was_deleted(tmp_path: Path) -> None:
    made, path = Made(tmp_path), f"baselines/{HERE}/test_old.py.json"
    made.baselines("Start", {"t": {"Cast": 1}}, "test_old.py")
    made.baselines("Move", {"t": {"Cast": 1}}, "test_new.py")
    made.commit("The rest of it", {path: None})
    made.baselines("Second", {"t": {"Cast": 2}}, "test_two.py")
    made.commit(
        "Rename", {f"baselines/{HERE}/test_2.py.json": calls_file({"t": {"Cast": 2}}), path.replace("old", "two"): None}
    )
    found = read(made.done())
    # In one commit it is a new name; in two it is a copy, and one that goes.
    assert found.tests == {"test_old.py::t", "test_new.py::t", "test_2.py::t"}
    assert [(step.calls, step.arrived) for step in ops(found)["Cast"].steps] == [(0, 1), (0, -1), (0, 2)]


@pytest.mark.processes
def test_after_a_revision_are_those_on_the_way_of_the_log(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for calls in (1, 2, 3):
        made.baselines(f"Calls {calls}", {"t": {"Cast": calls}})
    folder = made.done()
    names = [commit.name for commit in git_log.commits(folder)]
    assert git_log.after(folder, "HEAD~2") == {*names[1:]}
    with pytest.raises(UsageError, match="--since: '--all' is not a revision"):
        git_log.after(folder, "--all")


@pytest.mark.processes
def test_a_content_that_git_does_not_have_is_an_error(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.baselines("Start", {"t": {"Cast": 1}})
    folder = made.done()
    with pytest.raises(UsageError, match="opprof history: the repository has no object 1234"):
        list(git_log.objects(folder, ["1234" * 10]))
