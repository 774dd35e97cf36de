from __future__ import annotations

import asyncio
import doctest
import importlib
import json
import os
import sys
import zipfile
from pathlib import Path
from types import FunctionType, ModuleType

import hypothesis
import numpy as np
import pytest

from pytest_opprof.sites import code
from pytest_opprof.sites.code import Kind, kinds

from . import ops, programs


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/project/test_model.py", Kind.TRACED),
        ("/project/numpy/test_model.py", Kind.TRACED),  # no framework, only called like one
        ("/project/site-packages-of-mine/torch/model.py", Kind.TRACED),
        ("/project/.venv/lib/python3.11/site-packages/einops/_backends.py", Kind.TRACED),
        ("/project/.venv/lib/python3.11/site-packages/torch/nn/functional.py", Kind.HIDDEN),
        ("/project/.venv/lib/python3.11/site-packages/torchvision/ops/boxes.py", Kind.TRACED),
        ("/usr/lib/python3/dist-packages/numpy/linalg/linalg.py", Kind.HIDDEN),
        ("C:\\Python\\Lib\\site-packages\\jax\\_src\\api.py", Kind.HIDDEN),
        ("/opt/conda/lib/python3.12/site-packages/_pytest/python.py", Kind.TEST_TOOL),
        ("/opt/conda/lib/python3.12/site-packages/pytest_mock/plugin.py", Kind.TEST_TOOL),
        ("/opt/conda/lib/python3.12/site-packages/pytest_rerunfailures.py", Kind.TEST_TOOL),
        ("/opt/conda/lib/python3.12/site-packages/typing_extensions.py", Kind.HIDDEN),
        ("/project/pytest_helpers.py", Kind.TRACED),
        ("<string>", Kind.HIDDEN),
        ("<frozen importlib._bootstrap>", Kind.HIDDEN),
        ("<doctest model.py[0]>", Kind.TRACED),
    ],
)
def test_the_path_says_whose_a_file_is(file: str, kind: Kind) -> None:
    assert kinds[file] is kind


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (np.linalg.norm.__wrapped__, Kind.HIDDEN),
        (json.dumps, Kind.HIDDEN),
        (asyncio.run, Kind.HIDDEN),
        (os.path.join, Kind.HIDDEN),
        (code.is_traced, Kind.HIDDEN),
        (pytest.raises, Kind.TEST_TOOL),
        (hypothesis.find, Kind.TEST_TOOL),
        (programs.deep, Kind.TRACED),
    ],
    ids=lambda given: getattr(given, "__qualname__", given),
)
def test_what_is_imported_here_is_known(function: FunctionType, kind: Kind) -> None:
    assert kinds[function.__code__.co_filename] is kind
    assert code.is_traced(function.__code__) == (kind is Kind.TRACED)


def test_a_framework_may_lie_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout, target = tmp_path / "pytorch" / "torch", tmp_path / "target"
    package, module = ModuleType("torch"), ModuleType("xdist")
    package.__path__, module.__file__ = [str(checkout)], str(target / "xdist.py")
    monkeypatch.setitem(sys.modules, "torch", package)
    monkeypatch.setitem(sys.modules, "xdist", module)
    monkeypatch.setitem(sys.modules, "jax", None)  # as where someone forbids its import
    assert kinds[str(checkout / "nn" / "functional.py")] is Kind.HIDDEN
    package.__path__, package.__file__ = [str(tmp_path / "build")], str(tmp_path / "editable" / "torch" / "__init__.py")
    assert kinds[str(tmp_path / "editable" / "torch" / "nn" / "modules.py")] is Kind.HIDDEN
    assert kinds[str(target / "xdist.py")] is Kind.TEST_TOOL
    assert kinds[str(tmp_path / "pytorch" / "test" / "test_nn.py")] is Kind.TRACED
    assert kinds[str(tmp_path / "pytorch" / "torchvision.py")] is Kind.TRACED


@pytest.mark.parametrize("package", ["networkx", "sympy", "packaging", "mpmath", "numba", "ml_dtypes", "torch"])
@pytest.mark.parametrize("layout", ["", "src"])
def test_what_is_below_the_root_directory_is_what_is_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, layout: str
) -> None:
    module = ModuleType(package)
    module.__path__ = [str(tmp_path / layout / package)]
    module.__file__ = str(tmp_path / layout / package / "__init__.py")
    monkeypatch.setitem(sys.modules, package, module)
    own, installed = f"{module.__path__[0]}/core.py", f"{tmp_path}/.venv/lib/python3.11/site-packages/{package}/core.py"
    with kinds.of_run(tmp_path):
        assert (kinds[own], kinds[installed]) == (Kind.TRACED, Kind.HIDDEN)
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    with kinds.of_run(link):
        assert kinds[own] is Kind.TRACED


def test_a_checkout_of_a_tool_has_lines_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("networkx")
    module.__path__ = [str(tmp_path / "networkx")]
    monkeypatch.setitem(sys.modules, "networkx", module)
    assert kinds[str(tmp_path / "networkx" / "algorithms.py")] is Kind.TRACED


def test_a_framework_that_was_installed_below_the_root_directory_is_none_of_what_is_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("torch")
    module.__path__ = [str(tmp_path / "deps" / "torch")]
    (tmp_path / "deps" / "torch-2.13.0.dist-info").mkdir(parents=True)  # pip install --target deps
    monkeypatch.setitem(sys.modules, "torch", module)
    with kinds.of_run(tmp_path):
        assert kinds[str(tmp_path / "deps" / "torch" / "nn" / "functional.py")] is Kind.HIDDEN


@pytest.mark.parametrize("package", ["torch", "networkx"])
def test_packages_that_are_shown_are_followed_and_only_in_that_run(package: str) -> None:
    file = f"/opt/lib/python3.11/site-packages/{package}/core.py"
    with kinds.of_run("/project", [package]):
        assert kinds[file] is Kind.TRACED
        assert kinds["/opt/lib/python3.11/site-packages/numpy/linalg.py"] is Kind.HIDDEN
    assert kinds[file] is Kind.HIDDEN


def test_the_standard_library_is_nowhere_what_is_tested() -> None:
    with kinds.of_run("/"):
        assert kinds[json.__file__] is Kind.HIDDEN
        assert kinds["/tests/test_model.py"] is Kind.TRACED


def test_what_torch_compile_writes_has_no_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    assert kinds[str(tmp_path / "inductor" / "6j" / "c6jpl22crhi36khifxytpypfaphcd52sbviuff7x.py")] is Kind.HIDDEN
    assert kinds[str(tmp_path / "model.py")] is Kind.TRACED


def test_lines_of_packages_in_archives_are_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as archive:
        archive.writestr(
            "zipped_model/__init__.py", "from tests.sites.ops import op\ndef forward():\n    return op()\n"
        )
    monkeypatch.syspath_prepend(tmp_path / "packages.zip")
    window = ops.heard(importlib.import_module("zipped_model").forward)
    assert [(frame.file, frame.line) for frame in window.frames()] == [
        (str(tmp_path / "packages.zip" / "zipped_model" / "__init__.py"), 3)
    ]


def test_examples_in_docstrings_have_lines_of_their_own() -> None:
    test = doctest.DocTestParser().get_doctest(">>> op()\n>>> op(\n...     op())", {"op": ops.op}, "model", None, None)
    window = ops.heard(lambda: doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None))
    assert [(frame.file, frame.line) for frame in window.frames()] == [
        ("<doctest model[0]>", 1),
        ("<doctest model[1]>", 2),
        ("<doctest model[1]>", 1),
    ]


def test_in_a_run_of_pytest_a_chain_goes_through_its_helpers_and_ends_in_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        model="from tests.sites.ops import op\ndef forward(x):\n    op(x)\n    1 / x\n",
        test_model="""
        import pytest, model
        from tests.sites import ops

        def test_lines():
            window = ops.heard(lambda: pytest.raises(ZeroDivisionError, model.forward, 0))
            ((now, there),) = window.ops
            assert now == there
            functions = [frame.function.split(".")[-1] for frame in window.chains.frames(now)]
            assert functions == ["forward", "<lambda>", "test_lines"]
        """,
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio").assert_outcomes(passed=1)
