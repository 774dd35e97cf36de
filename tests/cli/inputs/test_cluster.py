"""Ranks read by a real Dask cluster of two processes on this machine say what one machine says, byte for byte."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.cli.main import main

from ...conftest import HERE
from .test_remote import bucket, err, needed, out

__all__ = ["bucket"]
pytestmark = [pytest.mark.remote, pytest.mark.processes, pytest.mark.slow]
TRACE = HERE / "data" / "torch-cpu" / "train_step.pt.trace.json.gz"
RANKS = 6


def with_environment(variables: dict[str, str]) -> None:
    os.environ.update(variables)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    (distributed,) = needed("distributed")
    # None would ask for port 8787, which another worker of this suite may hold.
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as found:
        yield found


@pytest.fixture
def on(cluster: Any) -> str:
    return "--on=" + cluster.scheduler_address.replace("tcp", "dask")


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """A folder of ranks that differ, and a file that is no profile."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    text = gzip.decompress(TRACE.read_bytes()).decode()
    for rank in range(RANKS):
        other = text.replace('"name": "aten::mul"', '"name": "aten::div"', rank)
        other = other.replace("{", f'{{"distributedInfo": {{"rank": {rank}, "world_size": {RANKS}}}, ', 1)
        (folder / f"rank{rank}.pt.trace.json").write_text(other)
    (folder / "README").write_text("of a training run")
    return folder


@pytest.mark.parametrize("words", [["--format=json"], ["--format=csv"], [], ["--by=dtype", "--top=3"]])
def test_a_cluster_says_what_one_machine_says(
    ranks: Path, on: str, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert out(capsys, "show", ranks, "--rank=all", *words, on) == out(capsys, "show", ranks, "--rank=all", *words)


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    ranks: Path, cluster: Any, on: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from distributed import Client, WorkerPlugin

    class Killer(WorkerPlugin):
        def transition(self, key: object, start: str, finish: str, **more: object) -> None:
            killed = tmp_path / "killed"
            if finish == "executing" and "_versioned" in str(key) and not killed.exists():
                killed.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)

    with Client(cluster, set_as_default=False) as client:
        client.register_plugin(Killer(), name="killer")
        found = out(capsys, "show", ranks, "--rank=all", "--format=json", on)
        client.unregister_worker_plugin("killer")
    assert int((tmp_path / "killed").read_text()) != os.getpid()
    assert found == out(capsys, "show", ranks, "--rank=all", "--format=json")


def test_workers_copy_what_a_url_names_each_its_part(
    bucket: Any, ranks: Path, cluster: Any, on: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from distributed import Client

    bucket.put(str(ranks), "traces/run", recursive=True)
    # Workers are processes of their own: their environment is not that of this test.
    aws = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2)  # one was killed, and is started anew
        client.run(with_environment, aws)
    local = out(capsys, "show", ranks, "--rank=all", "--format=json").replace(str(ranks), "s3://traces/run")
    assert out(capsys, "show", "s3://traces/run", "--rank=all", "--format=json", on) == local
    assert out(capsys, "show", "s3://traces/run", "--rank=3", "--format=json", on) == out(
        capsys, "show", ranks, "--rank=3", "--format=json"
    )
    compared = out(capsys, "diff", ranks, ranks, "--rank=all", "--format=json").replace(str(ranks), "s3://traces/run")
    assert out(capsys, "diff", "s3://traces/run", "s3://traces/run", "--rank=all", "--format=json", on) == compared
    said = err(capsys, "diff", "s3://traces/run", "s3://traces/run", "--rank=3", on)
    assert "when everything ran is read on this machine: leave out --on" in said
    bucket.pipe("traces/run/rank9.pt.trace.json", b"")
    assert "rank9.pt.trace.json: is empty or broken" in err(capsys, "show", "s3://traces/run", "--rank=all", on)
    assert main(["show", "s3://traces/run", "--rank=all", "--format=json", "--partial", on]) == 0
    shown = capsys.readouterr()
    assert shown.out == local
    assert shown.err.startswith("opprof: left out: s3://traces/run/rank9.pt.trace.json: is empty or broken.")


def test_check_judges_all_ranks(ranks: Path, on: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", str(ranks), "--rank=all", "--budget=Mul=17"]
    assert main(words) == 1
    alone = capsys.readouterr()
    assert main([*words, on]) == 1
    assert capsys.readouterr() == alone
    assert alone.out.count("op budget exceeded") == RANKS


@pytest.mark.parametrize("words", [[], ["--format=json"], ["--by=dtype", "--top=0"]])
def test_diff_compares_all_ranks_of_two_folders(
    ranks: Path, on: str, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    now = shutil.copytree(ranks, ranks.parent / "now")
    changed = now / "rank4.pt.trace.json"
    changed.write_text(changed.read_text().replace('"aten::add_"', '"aten::sub_"'))
    asked = ["diff", str(ranks), str(now), "--rank=all", *words]
    assert main(asked) == 1
    alone = capsys.readouterr()
    assert main([*asked, on]) == 1
    assert capsys.readouterr() == alone
    assert "rank 4" in alone.out


def test_diff_compares_one_rank(ranks: Path, on: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["diff", str(ranks), "--base-rank=0", "--rank=5", "--format=json"]
    code = main(words)
    alone = capsys.readouterr()
    assert (main([*words, on]), capsys.readouterr()) == (code, alone)
    assert alone.out.startswith('{"base": {"source": "PyTorch profiler trace"')


@pytest.mark.parametrize("with_cluster", [True, False])
def test_a_rank_that_cannot_be_read_is_named_and_with_partial_the_others_are_shown(
    ranks: Path, on: str, capsys: pytest.CaptureFixture[str], with_cluster: bool
) -> None:
    cluster = [on] if with_cluster else []
    whole = out(capsys, "show", ranks, "--rank=all", "--format=json")
    broken = ranks / "rank9.pt.trace.json"
    text = (ranks / "rank0.pt.trace.json").read_text()
    broken.write_text(text.replace('"ph"', '"ph": 1, "ph"'))
    broken.write_text(text.replace('"dur": ', '"dur": "x'))
    assert f"{broken}" in err(capsys, "show", ranks, "--rank=all", *cluster)
    assert main(["show", str(ranks), "--rank=all", "--format=json", "--partial", *cluster]) == 0
    shown = capsys.readouterr()
    assert shown.out == whole
    assert shown.err.startswith(f"opprof: left out: {broken}")
    assert main(["check", str(ranks), "--rank=all", "--budget=Mul=99", "--partial", *cluster]) == 2
    assert "1 of these profiles could not be read" in capsys.readouterr().err


def test_what_is_no_cluster_is_one_line(ranks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needed("distributed")
    from pytest_opprof.cli.inputs import cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "_PATIENCE_S", 0.1)
        said = err(capsys, "show", ranks, "--rank=all", "--on=dask://127.0.0.1:1")
    assert said.startswith("opprof: --on dask://127.0.0.1:1: there is no Dask scheduler: ")
    assert err(capsys, "show", ranks, "--on=spark://x").startswith(
        "opprof: --on spark://x: name a cluster of Dask (dask:"
    )


def test_a_folder_that_workers_do_not_see_is_said(
    ranks: Path, cluster: Any, on: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ranks.parent)
    shutil.move(ranks, "here")
    said = err(capsys, "show", "here", "--rank=all", on)
    assert "is not there on the worker" in said
