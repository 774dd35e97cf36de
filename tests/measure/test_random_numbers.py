from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from pytest_opprof.measure.random_numbers import kept, seed


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    with kept():
        yield


def drawn() -> tuple[float, ...]:
    return random.random(), np.random.random(), np.random.normal()


@pytest.mark.parametrize("before", range(2), ids=["even", "odd"])
def test_later_code_draws_what_it_would_have_drawn(before: int) -> None:
    for _ in range(before):
        np.random.normal()  # it draws two numbers and keeps one
    with kept():
        first = drawn()
    assert drawn() == first


def test_a_body_that_raises_leaves_the_generators_as_they_were() -> None:
    with pytest.raises(KeyError), kept():
        first = drawn()
        raise KeyError
    assert drawn() == first


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others() -> None:
    found = []
    for number in (0, 0, 1):
        seed(number)
        found.append(drawn())
    assert found[0] == found[1]
    assert not set(found[0]) & set(found[2])


def test_a_generator_that_replaces_numpys_own_is_seeded_and_kept() -> None:
    ours = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(7))
        with kept():
            seed(0)
            assert np.random.random() == np.random.Generator(np.random.PCG64(0)).random()
        assert np.random.random() == np.random.Generator(np.random.PCG64(7)).random()
    finally:
        np.random.set_bit_generator(ours)


def test_without_numpy_and_pytorch_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numpy.random", "torch"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it raises
    with kept():
        seed(0)
        first = random.random()
    seed(0)
    assert random.random() == first
