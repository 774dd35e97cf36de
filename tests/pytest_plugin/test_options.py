"""Settings of real configurations: flags over the ini file, and what means nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.measure.plan import Settings
from pytest_opprof.pytest_plugin.options import settings_of, shown
from pytest_opprof.verdict.tolerances import PAIRS, STORED

Read = Callable[..., Settings]


@pytest.fixture
def read(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Return what reads the settings of flags, and of an ini file of these lines."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def made(*flags: str, ini: str = "") -> Settings:
        pytester.makeini(f"[pytest]\naddopts = -p opprof\n{ini}\n")
        return settings_of(pytester.parseconfig("--opprof", *flags))

    return made


def test_what_nobody_gives_has_its_default(read: Read, pytester: pytest.Pytester) -> None:
    found = read()
    assert (found.backends, found.timing, found.threads, found.noise) == (
        None,
        "async",
        1,
        "warn",
    )
    assert (found.tolerances, found.processes, found.top, found.update, found.json) == (STORED, None, 5, "", None)
    assert found.baselines == pytester.path / "baselines"
    assert [found.everything, found.strict, found.serialize, found.against] == [False, False, False, ""]


def test_a_flag_wins_over_the_ini_file_and_that_over_the_default(read: Read) -> None:
    ini = "opprof_top = 7\nopprof_timing = sync\nopprof_tolerance = 20%"
    found = read("--opprof-top=0", ini=ini)
    assert (found.top, found.timing, found.tolerances.tolerance) == (0, "sync", 0.2)


def test_several_backends_are_each_named_once(read: Read) -> None:
    assert read("--opprof-backend=numpy, fake,numpy").backends == ("numpy", "fake")
    assert read("--opprof-backend=auto", ini="opprof_backend = fake").backends is None


def test_a_revision_is_compared_by_the_limits_of_pairs(read: Read) -> None:
    assert read("--opprof-against=main").tolerances == PAIRS


def test_all_threads_are_no_limit(read: Read) -> None:
    assert read("--opprof-threads=all").threads == 0


def test_a_file_is_below_the_folder_where_pytest_was_started(
    read: Read, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pytester.mkdir("sub"))
    found = read("--opprof-json=run.json", "--rootdir=..")
    assert found.json == pytester.path / "sub" / "run.json"
    assert found.baselines == pytester.path / "baselines"


def test_aliases_are_lines_of_a_raw_name_and_an_op(read: Read) -> None:
    found = read(ini="opprof_aliases =\n  mylib::fused_add = Add\n  a=b = MatMul")
    assert found.aliases == {"mylib::fused_add": "Add", "a=b": "MatMul"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--opprof-update", "--opprof-update-new"], "--opprof-update and --opprof-update-new: write one of them"),
        (["--opprof-backend=nunpy"], "--opprof-backend: there is no backend 'nunpy': did you mean 'numpy'? Known: "),
        (["--opprof-backend=,"], "--opprof-backend: there is no backend ''. Known: "),
        (["--opprof-timing=fast"], "--opprof-timing is 'fast'; write 'async' or 'sync'"),
        (["--opprof-threads=0"], "--opprof-threads is '0'; write 'all' or an int of 1 or more"),
        (["--opprof-processes=two"], "--opprof-processes is 'two'; write an int of 1 or more"),
        (["--opprof-top=-1"], "--opprof-top is '-1'; write an int of 0 or more"),
        (["--opprof-top=²"], "--opprof-top is '²'; write an int of 0 or more"),
        (["--opprof-noise=loud"], "--opprof-noise is 'loud'; write 'warn'"),
        (["--opprof-tolerance=ten"], "--opprof-tolerance is 'ten'; write a percentage"),
        (["--opprof-against="], "--opprof-against is empty; write a git revision"),
        (["--opprof-against-python=py"], "--opprof-against-python: needs --opprof-against=REV"),
        (["--opprof-against=main", "--opprof-update"], "--opprof-against and --opprof-update do not go together"),
        (["--opprof-against=main", "--opprof-processes=2"], "--opprof-against and --opprof-processes do not go"),
        (["--opprof-baselines=none"], "--opprof-baselines: there is no folder "),
        (["--opprof-baselines=tox.ini"], "tox.ini is a file; name a folder"),
    ],
)
def test_what_means_nothing_is_named_with_what_would(read: Read, flags: list[str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        read(*flags)
    assert said in str(error.value)


def test_a_folder_that_an_update_is_to_make_need_not_be_there(read: Read, pytester: pytest.Pytester) -> None:
    assert read("--opprof-baselines=new", "--opprof-update").baselines == pytester.path / "new"


@pytest.mark.parametrize("line", ["Add", "= Add", "mylib::add ="])
def test_an_alias_that_is_none_is_quoted(read: Read, line: str) -> None:
    with pytest.raises(UsageError, match="write a line RAW_NAME = Op") as error:
        read(ini=f"opprof_aliases =\n  {line}")
    assert repr(line) in str(error.value)


def test_a_path_is_shown_as_it_is_best_read(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig()
    assert shown(config, pytester.path / "baselines" / "x") == str(Path("baselines", "x"))
    assert shown(config, Path("/elsewhere")) == str(Path("/elsewhere"))
