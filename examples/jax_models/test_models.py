"""Ten tests, one for each program: what runs on the CPU, op by op. Nothing waits for the results."""

from __future__ import annotations

import models
import pytest


@pytest.fixture(params=sorted(models.PROGRAMS))
def program_and_arguments(request):
    return models.PROGRAMS[request.param]()


@pytest.mark.op_budget({"jax::compile": 0, "*[float64]": 0})
@pytest.mark.opprof(rounds=3, warmup=1)
def test_program(program_and_arguments):
    program, *arguments = program_and_arguments
    program(*arguments)
