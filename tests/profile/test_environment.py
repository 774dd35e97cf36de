from __future__ import annotations

import platform
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from pytest_opprof.machine.identity import machine, model_of
from pytest_opprof.profile.environment import Environment


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


X86 = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC 7763 64-Core Processor
"""
GRAVITON = """\
processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd40
CPU revision\t: 1
"""
RASPBERRY = """\
processor\t: 0
model name\t: ARMv7 Processor rev 3 (v7l)
CPU implementer\t: 0x41
CPU architecture: 7
CPU part\t: 0xd08

Hardware\t: BCM2711
Model\t\t: Raspberry Pi 4 Model B Rev 1.4
"""
PHONE = """\
processor\t: 0
CPU implementer\t: 0x51
CPU part\t: 0x803

processor\t: 1
CPU implementer\t: 0x41
CPU part\t: 0xd0d

processor\t: 2
CPU implementer\t: 0x51
CPU part\t: 0x803
"""
POWER = """\
processor\t: 0
cpu\t\t: POWER9 (architected), altivec supported
clock\t\t: 2700.000000MHz
revision\t: 2.2 (pvr 004e 1202)

platform\t: pSeries
model\t\t: IBM pSeries (emulated by qemu)
"""
MAINFRAME = """\
vendor_id       : IBM/S390
# processors    : 1
bogomips per cpu: 3033.00
features\t: esan3 zarch stfle msa
processor 0: version = FF,  identification = 0133E8,  machine = 8561
"""
RISCV = """\
processor\t: 0
hart\t\t: 1
isa\t\t: rv64imafdc
mmu\t\t: sv39
uarch\t\t: sifive,u74-mc
mvendorid\t: 0x489
"""
LOONGSON = """\
system type\t\t: generic-loongson-machine
processor\t\t: 0
Model Name\t\t: Loongson-3A5000
"""


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        (X86, "AMD EPYC 7763 64-Core Processor"),
        (GRAVITON, "Arm Neoverse-V1"),
        (GRAVITON.replace("0xd40", "0xd99"), "Arm part 0xd99"),
        (GRAVITON.replace("0x41", "0x48").replace("0xd40", "0xd01"), "HiSilicon part 0xd01"),
        (GRAVITON.replace("0x41", "0x99"), "implementer 0x99 part 0xd40"),
        (RASPBERRY, "Arm Cortex-A72"),
        (PHONE, "Qualcomm part 0x803 + Arm Cortex-A77"),
        (POWER, "POWER9 (architected), altivec supported"),
        (MAINFRAME, "IBM/S390 8561"),
        (RISCV, "sifive,u74-mc"),
        (LOONGSON, "Loongson-3A5000"),
        ("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: unknown\n", ""),
        ("processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\n", ""),
        ("", ""),
    ],
)
def test_the_model_of_a_processor_is_read_as_its_architecture_tells_it(cpuinfo: str, model: str) -> None:
    assert model_of(cpuinfo) == model


@pytest.mark.parametrize("said", ["", "arm", "i386", "aarch64", "unknown"])
def test_a_machine_of_unknown_model_is_like_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr(platform, "processor", lambda: said)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    seen = []
    for host in ("build-7", "build-9"):
        monkeypatch.setattr(platform, "node", lambda host=host: host)
        seen.append(machine.__wrapped__(tmp_path / "none").rpartition(", ")[0])
    assert seen == ["aarch64 of unknown model on build-7", "aarch64 of unknown model on build-9"]


def test_a_system_without_cpuinfo_may_tell_the_model_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "processor", lambda: "Intel64 Family 6 Model 158 Stepping 10, GenuineIntel")
    assert machine.__wrapped__(tmp_path / "none").startswith("Intel64 Family 6 Model 158 Stepping 10, GenuineIntel, ")


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
    assert replace(made, frameworks=(("made", "2"),)).could_be_here(both, in_any_version=True)
    assert not replace(made, arch="arm64").could_be_here(both)
    assert not replace(made, arch="arm64").could_be_here(both, in_any_version=True)
    assert not replace(made, device="H100").could_be_here(both)
    assert not replace(made, timing="sync").could_be_here(replace(both, timing="async"))
    assert made.could_be_here(replace(both, device="H100+cpu", timing="async"))


@pytest.mark.parametrize(
    ("other", "is_like"),
    [
        (Environment((("cuda", "13.0"), ("jax", "0.11"), ("numpy", "2.5")), "NVIDIA H200+cpu", timing="async"), True),
        (Environment((("cuda", "13.0"), ("jax", "0.10")), "NVIDIA H200", timing="async"), False),
        (Environment((("cuda", "13.0"), ("jax", "0.11")), "NVIDIA H100", timing="async"), False),
        (Environment((("cuda", "13.0"), ("jax", "0.11")), "NVIDIA H200", timing="sync"), False),
        (Environment((("jax", "0.11"),), "cpu"), False),
    ],
)
def test_a_framework_that_ran_ops_on_one_side_only_makes_no_other_environment(
    other: Environment, is_like: bool
) -> None:
    one = Environment((("cuda", "13.0"), ("jax", "0.11")), "NVIDIA H200", timing="async")
    assert one.is_like(other) is other.is_like(one) is is_like
