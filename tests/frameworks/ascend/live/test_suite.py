"""Budgets and baselines of tests on an NPU, with the plugin, on a stand-in: there is no NPU here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pytest_opprof.cli import main
from pytest_opprof.frameworks.ascend.live.backend import AscendBackend

from .ascend_stand_in import Npu, compiled, forget, install

Suite = Callable[..., pytest.RunResult]
TESTS = """
    import acl, pytest, the_npu

    npu = the_npu.npu

    @pytest.mark.op_budget(Cast=2, MatMul=1, device_time="100 us")
    def test_step():
        npu.launch("MatMulV3", 5000, kind="KERNEL_AICORE")
        npu.launch("Cast", 700, times=the_npu.casts)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cann")
    compiled(folder)
    return folder


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> tuple[Npu, AscendBackend]:
    npu, backend = install(monkeypatch, folder, tmp_path / "home")
    npu.lag = 2
    module = ModuleType("the_npu")
    vars(module).update(npu=npu, casts=2)
    monkeypatch.setitem(sys.modules, "the_npu", module)
    return npu, backend


@pytest.fixture
def npu(installed: tuple[Npu, AscendBackend], suite: Suite, pytester: pytest.Pytester) -> Npu:
    pytester.makeini(
        "[pytest]\nopprof_backend = ascend\nopprof_noise = ignore\naddopts = -p opprof -p no:cacheprovider\n"
    )
    return installed[0]


def test_a_budget_holds_and_one_cast_more_fails_it(npu: Npu, suite: Suite, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    suite("--opprof").assert_outcomes(passed=1)
    sys.modules["the_npu"].casts = 3  # type: ignore[attr-defined]
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Cast: 3 calls (budget: 2*)", "*cann 8.5.0, Ascend910B2, async*"])


def test_a_baseline_is_kept_by_cann_and_model_and_a_cast_more_is_a_regression(
    npu: Npu, suite: Suite, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(TESTS.replace("Cast=2, ", ""))
    suite("--opprof", "--opprof-update").assert_outcomes(passed=1)
    suite("--opprof").assert_outcomes(passed=1)
    assert len(list(pytester.path.rglob("cann-8.5.0-ascend910b2-async-*/*.py.json"))) == 1
    sys.modules["the_npu"].casts = 3  # type: ignore[attr-defined]
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Cast: 3 calls (baseline: 2)*"])


@pytest.mark.parametrize("limit", ["MemcpyDtoH=0", '{"Memcpy*": 0}'])
def test_a_limit_on_copies_is_an_error_without_ld_preload_and_no_pass(
    npu: Npu, suite: Suite, pytester: pytest.Pytester, limit: str
) -> None:
    pytester.makepyfile(
        f"""
        import acl, pytest, the_npu

        @pytest.mark.op_budget({limit})
        def test_step():
            the_npu.npu.launch("Cast")
        """
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*cannot be measured here: copies between host and NPU are not recorded*"])


def test_an_op_that_may_run_may_be_one_that_is_not_recorded(npu: Npu, suite: Suite, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS.replace("Cast=2, MatMul=1, ", 'only=["Cast", "MatMul", "MemcpyHtoD"], '))
    result = suite("--opprof")
    result.assert_outcomes(passed=1)


def test_backends_lists_it_with_what_is_missing(
    installed: tuple[Npu, AscendBackend], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["backends"]) == 0
    assert "ascend       can run" in capsys.readouterr().out.splitlines()
    (installed[0].home / "lib64" / "libascendcl.so").unlink()
    forget()
    installed[1]._problem.clear()
    assert main.main(["backends"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("ascend"))
    assert line.startswith("ascend       cannot run: libascendcl.so of CANN cannot be loaded (")
