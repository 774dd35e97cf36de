from __future__ import annotations

import pytest

from pytest_opprof.measure.random_numbers import kept, seed

torch = pytest.importorskip("torch")


def test_pytorch_draws_what_it_would_have_drawn() -> None:
    with kept():
        first = torch.rand(3).tolist()
    assert torch.rand(3).tolist() == first


def test_pytorch_draws_the_same_with_the_same_seed() -> None:
    with kept():
        found = []
        for number in (0, 0, 1):
            seed(number)
            found.append(torch.rand(3).tolist())
    assert found[0] == found[1] != found[2]
