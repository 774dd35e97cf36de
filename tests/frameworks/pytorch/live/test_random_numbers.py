from __future__ import annotations

import pytest

from pytest_opprof.measure.random_numbers import apart

torch = pytest.importorskip("torch")


def test_pytorch_draws_what_it_would_have_drawn_and_other_numbers_inside() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3).tolist()
    torch.manual_seed(7)
    with apart():
        inside = torch.rand(3).tolist()
    assert torch.rand(3).tolist() == expected
    assert inside != expected
