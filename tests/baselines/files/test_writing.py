"""Who writes baselines writes alone, leaves nothing that git adds, and writes nowhere else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from pytest_opprof.baselines.entry import Baselines, WindowBaseline
from pytest_opprof.baselines.files import file, paths, writing
from pytest_opprof.baselines.store import Store
from pytest_opprof.errors import BaselineError, UsageError
from pytest_opprof.machine import atomic_write
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range

HERE = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
ONE = WindowBaseline({"Add": OpCounts(Range(1))})
UNSHARE = ["unshare", "-p", "-f", "--mount-proc"]
"""Starts a process in a pid namespace of its own, as a container does; only root may."""
WRITES = """
import sys
from pathlib import Path
from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.environment import Environment
from pytest_opprof.baselines.store import Store
for number in range(120):
    store = Store(Path(sys.argv[1]))
    store.put(Environment((("torch", "2.13.0"),), "cpu", "x86_64"), "test_a.py", f"test_{sys.argv[2]}_{number}", "body",
        WindowBaseline({"Add": OpCounts(Range(1))}))
    assert not store.save().errors
"""


def put(root: Path, module: str = "test_a.py", test: str = "test_x") -> Store:
    store = Store(root)
    store.put(HERE, module, test, "body", ONE)
    return store


def can_unshare() -> bool:
    return bool(shutil.which("unshare")) and subprocess.run([*UNSHARE, "true"], capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("prefix", [[], UNSHARE], ids=["here", "in pid namespaces"])
def test_writers_with_their_own_temporary_folders_lose_nothing_of_each_other(tmp_path: Path, prefix: list[str]) -> None:
    if prefix and not can_unshare():
        pytest.skip("only root can start processes in a pid namespace, on Linux")
    writers = []
    for name in "xy":
        (tmp_path / name).mkdir()
        command = [*prefix, sys.executable, "-c", WRITES, str(tmp_path / "baselines"), name]
        writers.append(subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path / name)}))
    assert [writer.wait() for writer in writers] == [0, 0]
    content = file.load(paths.path_of(tmp_path / "baselines", HERE, "test_a.py"))
    assert content.tests.keys() == {f"test_{writer}_{number}" for writer in "xy" for number in range(120)}


@pytest.mark.processes
def test_what_a_killed_writer_left_goes_with_the_next_and_is_nothing_for_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    killed = (
        "import os, signal; from pathlib import Path; from pytest_opprof.machine import atomic_write;"
        "from tests.baselines.files.test_writing import put; import sys;"
        f"atomic_write.os.replace = lambda *paths: os.kill(os.getpid(), {int(signal.SIGKILL)});"
        "put(Path('baselines')).save()"
    )
    path = os.pathsep.join([os.getcwd(), *sys.path])
    done = subprocess.run([sys.executable, "-c", killed], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    root = tmp_path / "baselines"

    def unfinished() -> list[Path]:
        return list(root.rglob(f"*{atomic_write.UNFINISHED}"))

    assert (done.returncode, len(unfinished())) == (-signal.SIGKILL, 1)
    assert list(paths.files(root)) == []
    told = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=tmp_path, capture_output=True, text=True)
    assert told.stdout == ""
    put(root).save()
    assert unfinished() == []
    told = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=tmp_path, capture_output=True, text=True)
    assert told.stdout == f"?? baselines/{HERE.folder}/test_a.py.json\n"


def test_the_lock_of_another_user_in_the_temporary_folder_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "not there"))
    assert put(tmp_path / "baselines").save().files


def test_where_no_lock_can_be_had_one_sentence_says_so(tmp_path: Path) -> None:
    (tmp_path / ".opprof" / "lock").mkdir(parents=True)
    with pytest.raises(BaselineError, match=r"lock: cannot be locked: Is a directory; no baselines were written$"):
        put(tmp_path).save()


def test_the_lock_is_no_link_that_a_repository_brings(tmp_path: Path) -> None:
    root, mine = tmp_path / "baselines", tmp_path / "mine"
    for folder in (root, mine):
        folder.mkdir()
    (mine / f".keep{atomic_write.UNFINISHED}").touch()
    (root / ".opprof").symlink_to(mine)
    with pytest.raises(BaselineError, match=r"cannot be locked: the folder is a link; remove it"):
        put(root).save()
    assert [each.name for each in mine.iterdir()] == [f".keep{atomic_write.UNFINISHED}"]
    (root / ".opprof").unlink()
    (root / ".opprof").mkdir()
    (mine / "text").write_text("kept")
    (root / ".opprof" / "lock").symlink_to(mine / "text")
    with pytest.raises(BaselineError, match=r"cannot be locked"):
        put(root).save()
    assert (mine / "text").read_text() == "kept"


@pytest.mark.parametrize("letters", [10, 200, 234, 243])
def test_a_name_is_as_long_as_the_system_lets_it_be(tmp_path: Path, letters: int) -> None:
    assert len(put(tmp_path, "t" * letters).save().files) == 1


class TestOneThatCannotBeWritten:
    LONG = "t" * 251

    def test_keeps_no_other_from_being_written(self, tmp_path: Path) -> None:
        store = put(tmp_path, self.LONG)
        store.put(HERE, "test_b.py", "test_x", "body", ONE)
        saved = store.save()
        assert [path.name for path in saved.files] == ["test_b.py.json"]
        (error,) = saved.errors.values()
        assert error == f"{paths.path_of(tmp_path, HERE, self.LONG)}: cannot be written: File name too long"

    def test_takes_nothing_away_where_its_entries_were(self, tmp_path: Path) -> None:
        put(tmp_path).save()
        store = Store(tmp_path)
        assert store.move("test_a.py", self.LONG) == 1
        assert store.save().errors
        assert Store(tmp_path).entry(HERE, "test_a.py", "test_x", "body") == ONE


class TestCheckWritable:
    def test_a_folder_that_can_be_written_to_stays_as_it_is(self, tmp_path: Path) -> None:
        writing.check_writable(tmp_path / "not" / "there")
        writing.check_writable(tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_where_nothing_can_be_written_nothing_is_measured(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(UsageError, match=r"no baselines can be written to .*file: Not a directory\. Nothing was m"):
            writing.check_writable(tmp_path / "file")

    def test_a_disk_that_is_full_is_noticed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not os.path.exists("/dev/full"):
            pytest.skip("this system has no file that is always full")
        full = partial(open, "/dev/full", "wb", buffering=0)
        monkeypatch.setattr("tempfile.TemporaryFile", lambda dir: full())
        with pytest.raises(UsageError, match=r"No space left on device\. Nothing was measured; make room"):
            writing.check_writable(tmp_path)

    def test_a_folder_of_an_environment_counts_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (path,) = put(tmp_path).save().files
        monkeypatch.setattr(os, "access", lambda folder, mode: folder != path.parent)  # root may write anywhere
        with pytest.raises(UsageError, match=r"you may not write there, or the disk is mounted read-only"):
            writing.check_writable(tmp_path)


def test_nothing_is_written_or_removed_where_a_link_leads_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    file.save(paths.path_of(outside, HERE, "test_a.py"), Baselines(HERE, {"test_x": {"body": ONE}}))
    root = tmp_path / "baselines"
    root.mkdir()
    (root / HERE.folder).symlink_to(outside / HERE.folder)
    dropping, store = Store(root), put(root, "test_b.py")
    dropping.drop(HERE, "test_a.py", "test_x", "body")
    for saved in (dropping.save(), store.save()):
        (error,) = saved.errors.values()
        assert f"a link leads to {outside / HERE.folder}, outside of {root}" in error
        assert saved.files == []
    with pytest.raises(BaselineError, match="a link leads to"):
        store.remove([root / HERE.folder / "test_a.py.json"])
    assert [path.name for path in (outside / HERE.folder).iterdir()] == ["test_a.py.json"]


def test_a_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / HERE.folder).symlink_to("shared")
    assert put(tmp_path).save().files
    assert (tmp_path / "shared" / "test_a.py.json").exists()


def test_a_folder_that_its_mode_forbids_to_write_has_one_clear_error_or_root_writes_it(tmp_path: Path) -> None:
    """Containers run as root, whom no mode stops; the lock had the mode 0444, which filelock refuses."""
    root = tmp_path / "baselines"
    root.mkdir()
    root.chmod(0o555)
    is_root = os.geteuid() == 0
    try:
        with nullcontext() if is_root else pytest.raises(BaselineError, match="baselines"), writing.writing(root):
            assert is_root
    finally:
        root.chmod(0o755)
