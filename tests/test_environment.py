from __future__ import annotations

from dataclasses import replace
from importlib import metadata

import pytest

from pytest_opprof.environment import Environment, machine


@pytest.mark.parametrize(
    ("environment", "text", "folder"),
    [
        (Environment((("torch", "2.13.0"),), arch="x86_64"), "torch 2.13.0, cpu", "torch-2.13.0-cpu-x86_64"),
        (
            Environment((("cupy", "14.2"),), "NVIDIA H100 80GB HBM3", "x86_64", "sync"),
            "cupy 14.2, NVIDIA H100 80GB HBM3, sync",
            "cupy-14.2-nvidia-h100-80gb-hbm3-sync-x86_64",
        ),
        (
            Environment((("numpy", "2.1.0"), ("torch", "2.13.0")), arch="arm64"),
            "numpy 2.1.0 + torch 2.13.0, cpu",
            "numpy-2.1.0-torch-2.13.0-cpu-arm64",
        ),
        (Environment((("x", "../../etc"),), "a/b\\c", "x86_64"), "x ../../etc, a/b\\c", "x-..-..-etc-a-b-c-x86_64"),
    ],
)
def test_an_environment_reads_as_a_line_and_as_a_folder(environment: Environment, text: str, folder: str) -> None:
    assert str(environment) == text
    assert environment.folder == folder


def test_environments_that_differ_in_anything_have_different_folders() -> None:
    base = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
    others = [
        Environment((("torch", "2.14.0"),), "cpu", "x86_64"),
        Environment((("torch", "2.13.0"),), "H100", "x86_64"),
        Environment((("torch", "2.13.0"),), "cpu", "arm64"),
        Environment((("torch", "2.13.0"),), "cpu", "x86_64", "sync"),
    ]
    assert len({each.folder for each in [base, *others]}) == 5


def test_the_machine_names_the_processor_and_its_cores() -> None:
    model, _, cores = machine().rpartition(", ")
    assert model
    assert cores.split()[0].isdigit()


def test_a_baseline_counts_here_though_other_frameworks_recorded_it() -> None:
    made = Environment((("made", "1"),), "cpu", "x86_64")
    both = Environment((("made", "1"), ("pytest", metadata.version("pytest"))), "cpu", "x86_64")
    only = Environment(both.frameworks[1:], "cpu", "x86_64")
    assert made.could_be_here(both)
    assert both.could_be_here(made)
    assert only.could_be_here(made)
    assert not made.could_be_here(only), "made is not installed"
    assert not replace(both, frameworks=(("pytest", "0.1"),)).could_be_here(made)
    assert not replace(made, frameworks=(("made", "2"),)).could_be_here(both)
    assert not replace(made, arch="arm64").could_be_here(both)
    assert not replace(made, device="H100").could_be_here(both)
    assert not replace(made, timing="sync").could_be_here(replace(both, timing="async"))
    assert made.could_be_here(replace(both, device="H100+cpu", timing="async"))
