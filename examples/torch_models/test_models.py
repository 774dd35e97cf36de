"""Twenty tests: a forward pass and a training step of ten models."""

from __future__ import annotations

import models
import pytest
import torch


@pytest.fixture(params=sorted(models.build()))
def model_and_batch(request):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # times of several threads on a shared machine mean little
    yield models.build()[request.param]
    torch.set_num_threads(threads)


@pytest.mark.op_budget(Item=0)
@pytest.mark.opprof(rounds=5, warmup=2)
def test_forward(model_and_batch):
    model, batch = model_and_batch
    with torch.inference_mode():
        model.eval()(batch)


@pytest.mark.op_budget(Item=0)
def test_training_step(model_and_batch, opprof):
    model, batch = model_and_batch
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in opprof.rounds(5, warmup=2):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
