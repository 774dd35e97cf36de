"""NumPy as it is: every op that the test asks for counts."""

from __future__ import annotations

import features
import numpy as np
import pytest


@pytest.fixture
def samples():
    return np.random.default_rng(0).random((256, 32))


@pytest.fixture
def components():
    return np.random.default_rng(1).random((32, 8)).astype(np.float32)


@pytest.mark.op_budget(Cast=1, MatMul=1, Copy=0)
def test_score(samples, components):
    assert features.score(samples, components).shape == (256,)


@pytest.mark.opprof(rounds=5, warmup=1)
def test_standardise(samples):
    features.standardise(samples)


def test_projection_converts_nothing(opprof, samples, components):
    ready = features.standardise(samples)
    with opprof("project") as project:
        features.project(ready, components)
    assert project.count("Cast") == 0
    assert project.top(1)[0].op == "MatMul"
