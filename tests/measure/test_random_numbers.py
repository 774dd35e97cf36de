from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from pytest_opprof.measure.random_numbers import apart


def drawn() -> tuple[float, ...]:
    return random.random(), np.random.random(), np.random.normal()


@pytest.mark.parametrize("before", range(2), ids=["even", "odd"])
def test_later_code_draws_what_it_would_have_drawn(before: int) -> None:
    random.seed(7)
    np.random.seed(7)
    for _ in range(before):
        np.random.normal()  # it draws two numbers and keeps one
    states = random.getstate(), np.random.get_state(legacy=False)
    expected = drawn()
    random.setstate(states[0])
    np.random.set_state(states[1])
    with apart():
        drawn()
    assert drawn() == expected


def test_numbers_inside_are_no_numbers_of_later_code() -> None:
    found = []
    for _ in range(2):
        random.seed(7)
        np.random.seed(7)
        with apart():
            inside = drawn()
        assert not {*inside} & {*drawn()}
        with apart():
            found.append((inside, drawn()))
    assert found[0] == found[1]
    assert not {*found[0][0]} & {*found[0][1]}


def test_a_body_that_raises_leaves_the_generators_as_they_were() -> None:
    random.seed(7)
    expected = random.random()
    random.seed(7)
    with pytest.raises(KeyError), apart():
        drawn()
        raise KeyError
    assert random.random() == expected


def test_a_generator_that_replaces_numpys_own_is_kept() -> None:
    ours = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(7))
        with apart():
            inside = np.random.random()
        assert np.random.random() == np.random.Generator(np.random.PCG64(7)).random() != inside
    finally:
        np.random.set_bit_generator(ours)


def test_functions_that_a_test_replaced_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def banned(*_: object) -> None:
        raise RuntimeError("seed a Generator of your own")

    for module, names in ((np.random, ("seed", "get_state", "set_state")), (random, ("seed", "getstate", "setstate"))):
        for name in names:
            monkeypatch.setattr(module, name, banned)
    with apart():
        drawn()


def test_without_numpy_and_pytorch_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numpy.random", "torch"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it raises
    random.seed(7)
    expected = random.random()
    random.seed(7)
    with apart():
        random.random()
    assert random.random() == expected


@pytest.mark.torch
def test_pytorch_draws_what_it_would_have_drawn_and_other_numbers_inside() -> None:
    import torch

    torch.manual_seed(7)
    expected = torch.rand(3).tolist()
    torch.manual_seed(7)
    with apart():
        inside = torch.rand(3).tolist()
    assert torch.rand(3).tolist() == expected
    assert inside != expected
