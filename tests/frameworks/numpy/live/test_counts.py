"""Counts of NumPy's ops against counts by hand, for 41 idioms of programs; the same in each run, and without a leak."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live.backend import NumpyBackend
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.sites.chains import Chains

IDIOMS: dict[str, str] = {
    # A line of a program: the ops that it asks for, counted by reading.
    "(x - x.mean(0)) / x.std(0)": "ReduceMean Sub ReduceStd Div",
    "x / np.linalg.norm(x)": "ReduceL2 Div",
    "np.exp(x - x.max()) / np.exp(x - x.max()).sum()": "ReduceMax Sub Exp ReduceMax Sub Exp ReduceSum Div",
    "1 / (1 + np.exp(-x))": "Neg Exp Add Div",
    "np.maximum(x, 0)": "Max",
    "np.clip(x, 0, 1)": "Clip",
    "x.T @ x": "MatMul",
    "np.dot(x, v)": "MatMul",
    "x @ v + v": "MatMul Add",
    "np.einsum('ij,j->i', x, v)": "Einsum",
    "np.outer(v, v)": "numpy.outer",
    "x[x > 3]": "Greater Gather",
    "x[np.argsort(v)]": "Sort Gather",
    "np.where(x > 0, x, -x)": "Greater Neg Where",
    "x.astype('f4').astype('f8')": "Cast Cast",
    "x.astype(np.float32) * x": "Cast Mul Cast",
    "np.concatenate([x, x]).sum(axis=0)": "Concat ReduceSum",
    "np.vstack([v, v])": "Concat",
    "np.stack([v, v])": "Concat",
    "np.zeros(4) + np.ones(4)": "ConstantOfShape ConstantOfShape Add",
    "np.arange(4) * 2.0": "Range Mul",
    "np.cumsum(v)[-1]": "CumSum",
    "np.diff(v)": "numpy.diff",
    "np.sqrt((v ** 2).sum())": "Mul ReduceSum Sqrt",  # NumPy squares
    "np.abs(v).max()": "Abs ReduceMax",
    "sum(v)": "Add Add Add Add",
    "[a * 2 for a in v]": "Mul Mul Mul Mul",
    "sum(a * b for a, b in zip(v, v))": "Mul Mul Mul Mul Add Add Add Add",
    "np.array([a + 1 for a in v])": "Add Add Add Add numpy.array",
    "x.copy().ravel()": "Copy",
    "x.T.copy().reshape(-1)": "Copy",
    "np.add.reduce(x, axis=1)": "ReduceSum",
    "np.multiply.outer(v, v)": "numpy.multiply.outer",
    "np.linalg.solve(x, v)": "Solve",
    "np.linalg.inv(x) @ v": "Inverse MatMul",
    "np.sort(v)[::-1]": "Sort",
    "np.isnan(x).any()": "IsNaN ReduceAny",
    "(x == x.T).all()": "Equal ReduceAll",
    "np.floor(v) + np.ceil(v)": "Floor Ceil Add",
    "np.random.default_rng(0).normal(size=4) + v": "RandomNormal Add",
    "np.log1p(v).mean()": "Log1p ReduceMean",
}
X, V = np.arange(1.0, 17.0).reshape(4, 4) + 9 * np.eye(4), np.arange(1.0, 5.0)


def counted(run: Any, chains: Chains | None = None) -> OpProfile:
    with NumpyBackend().collect(Options(chains=chains)) as log:
        run()
    return assemble([(log.freeze(), {0: 0})], [1])


def counts(profile: OpProfile) -> dict[str, int]:
    return {stats.op: stats.most_calls for stats in profile.ops}


@pytest.mark.parametrize("line", IDIOMS)
def test_an_idiom_asks_for_the_ops_that_a_reader_counts(line: str) -> None:
    body = eval(f"lambda x, v: {line}")
    program = type(body)(body.__code__.replace(co_filename=__file__), globals())
    by_hand: dict[str, int] = {}
    for op in IDIOMS[line].split():
        by_hand[op] = by_hand.get(op, 0) + 1
    first, again = (counts(counted(lambda: program(X, V))) for _ in range(2))
    assert first == by_hand
    assert again == first


def test_an_operator_in_compiled_code_is_seen() -> None:
    graph = scipy.sparse.csr_matrix(X)
    # `scipy.sparse.csgraph.dijkstra` is Cython: "if np.any(csr_data < 0)" has no frame of Python.
    assert counts(counted(lambda: scipy.sparse.csgraph.dijkstra(graph)))["Less"] >= 1


def mixed() -> None:
    for line in IDIOMS:
        if "for a" not in line:  # in an `eval` a comprehension has no file
            eval(line, {"np": np, "x": X, "v": V})

    def work() -> None:
        for _ in range(20):
            np.linalg.inv(X) @ V + np.exp(V)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_ten_runs_have_equal_tables() -> None:
    def table(profile: OpProfile) -> Any:
        ops = {stats.op: (stats.calls, stats.bytes, stats.flops) for stats in profile.ops}
        return ops, profile.calls_by_dtype, profile.remarks, profile.unseen

    tables = [table(counted(mixed, Chains() if number % 2 else None)) for number in range(10)]
    assert tables == [tables[0]] * 10


@pytest.mark.parametrize("calls", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_calls_leave_no_objects_behind(calls: int) -> None:
    def run() -> None:
        for number in range(calls // 40):
            V + V
            V.sum()
            np.concatenate([V, V[: number % 4]])
            with pytest.raises(ValueError, match="broadcast"):
                V + V[:3]

    counted(run)
    before = sys.getallocatedblocks()
    for _ in range(10):
        counted(run)
    assert sys.getallocatedblocks() - before < 2000
