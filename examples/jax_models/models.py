"""Ten programs in JAX, small enough for a test: `PROGRAMS` makes each, with its arguments."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


def perceptron():
    def loss(weights, x, y):
        for weight in weights:
            x = jnp.tanh(x.astype(jnp.bfloat16) @ weight.astype(jnp.bfloat16)).astype(jnp.float32)
        return ((x - y) ** 2).mean()

    @jax.jit
    def step(weights, x, y):
        return [weight - 0.1 * change for weight, change in zip(weights, jax.grad(loss)(weights, x, y))]

    return step, [normal(0, 32, 64), normal(1, 64, 8)], normal(2, 16, 32), normal(3, 16, 8)


def attention():
    @jax.jit
    def forward(x, weights):
        query, key, value = (x @ weight for weight in weights)
        scores = jax.nn.softmax(query @ key.T / 8)
        return jax.nn.gelu(scores @ value) + x

    return forward, normal(0, 32, 64), [normal(seed, 64, 64) for seed in range(3)]


def recurrent():
    @jax.jit
    def run(state, weight, xs):
        def cell(state, x):
            state = jnp.tanh(state @ weight + x)
            return state, state.sum()

        return lax.scan(cell, state, xs)

    return run, normal(0, 16, 64), normal(1, 64, 64), normal(2, 7, 16, 64)


def statistics():
    def of(x):  # eager: one program for each line
        centred = x - x.mean(0)
        return centred / centred.std(0)

    return of, normal(0, 64, 32)


def distances():
    return jax.jit(jax.vmap(lambda a, b: jnp.sqrt(((a - b) ** 2).sum()))), normal(0, 64, 32), normal(1, 64, 32)


def newton():
    @jax.jit
    def root(x):
        def better(state):
            x, steps = state
            return x - (x @ x - jnp.eye(64)) / (2 + x**2), steps + 1

        return lax.while_loop(lambda state: (state[1] < 6) & (state[0][0, 0] < 1e9), better, (x, 0))

    return root, normal(0, 64, 64) * 0.01


def convolution():
    @jax.jit
    def layer(x, kernel):
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME")
        return lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    return layer, normal(0, 2, 3, 16, 16), normal(1, 8, 3, 3, 3)


def choice():
    @jax.jit
    def either(big, x):
        return lax.cond(big, lambda x: jnp.tanh(x @ x), lambda x: x.sum(0) * x, x)

    return either, True, normal(0, 64, 64)


def update():
    @partial(jax.jit, donate_argnums=0)
    def add(state, change):
        return state.at[4:8].add(change.astype(state.dtype))

    return lambda state, change: add(state + 0, change), normal(0, 64, 32), normal(1, 4, 32).astype(jnp.bfloat16)


def across_devices():
    devices = jax.devices()
    mesh = jax.sharding.Mesh(devices, ("device",))
    spread = jax.sharding.PartitionSpec("device")

    def total(x):
        return lax.psum(jnp.sin(x) * 2, "device")

    each = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=spread, out_specs=jax.sharding.PartitionSpec()))
    return each, jax.device_put(normal(0, 8 * len(devices), 16), jax.sharding.NamedSharding(mesh, spread))


PROGRAMS = {
    make.__name__: make
    for make in (
        perceptron,
        attention,
        recurrent,
        statistics,
        distances,
        newton,
        convolution,
        choice,
        update,
        across_devices,
    )
}
