"""``opprof show``: each answer refuses the flags that would not change it, and reads the others."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.cli import main
from pytest_opprof.cli.show import command as show
from pytest_opprof.errors import UsageError

PROFILE = Path(__file__).parents[2] / "data" / "torch-cuda-h200" / "eager.trace.json.gz"
"""It has kernels, ranges and times of a device."""


def show_parser() -> argparse.ArgumentParser:
    (commands,) = (each for each in main.parser()._actions if isinstance(each, argparse._SubParsersAction))
    found: argparse.ArgumentParser = commands.choices["show"]
    return found


FLAGS = {action.dest: action for action in show_parser()._actions if action.dest != "help"}


def given(name: str) -> list[str]:
    """Return a flag on the command line, with a value that is not its default; nothing for no name."""
    if not name:
        return []
    action, flag = FLAGS[name], f"--{name.replace('_', '-')}"
    value = "7" if action.type is int else next(each for each in action.choices or ["7.html"] if each != action.default)
    return [flag] if action.nargs == 0 else [flag, value]


def refused() -> Iterator[tuple[str, str]]:
    """Yield each answer with each flag that it does not take; the parser itself takes one list at most."""
    for answer, takes in show.TAKES.items():
        others = set(show.TAKES) if answer != "output" else {answer}
        yield from ((answer, name) for name in FLAGS if name not in others.union(takes, show.READS))


def test_each_flag_is_taken_by_an_answer() -> None:
    declared = {*show.TAKES, *(name for takes in show.TAKES.values() for name in takes)} - {""}
    assert declared.union(show.READS) >= FLAGS.keys() >= declared
    assert all(given(name)[0] in FLAGS[name].option_strings for name in declared)


@pytest.mark.parametrize(("answer", "name"), [*refused()])
def test_an_answer_refuses_a_flag_that_it_does_not_take(
    answer: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["show", str(PROFILE), *given(answer), *given(name)]) == 2
    out, err = capsys.readouterr()
    flag = given(name)[0]
    assert (out, [*tmp_path.iterdir()]) == ("", [])
    assert err.startswith("opprof: -o 7.html: the page" if answer == "output" else f"opprof: --{answer} is a list")
    assert err.splitlines()[0].endswith(f" {flag}")
    for other, takes in show.TAKES.items():
        taken = name in takes
        assert ((f"--{other}" if other else "the list of ops") in err.partition(f"\n  {flag} is for ")[2]) is taken


@pytest.mark.parametrize("answer", show.TAKES)
def test_a_flag_that_nobody_declared_is_refused_by_every_answer(answer: str) -> None:
    parser = show_parser()
    parser.add_argument("--brand-new", default="old")
    arguments = parser.parse_args([str(PROFILE), *given(answer), "--brand-new", "new"])
    with pytest.raises(UsageError, match=r" --brand-new$"):
        arguments.run(arguments)


@pytest.mark.parametrize("answer", show.TAKES)
def test_an_answer_reads_each_flag_that_it_takes(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    read = set[str]()

    class Remembering(argparse.Namespace):
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    arguments = Remembering(**vars(show_parser().parse_args([str(PROFILE), *given(answer)])))
    read.clear()
    arguments.run(arguments)
    assert read >= {*show.TAKES[answer], *show.READS} & FLAGS.keys()
    assert capsys.readouterr().out or Path("7.html").exists()
