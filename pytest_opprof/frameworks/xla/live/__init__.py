"""JAX: the kernels that XLA runs on the CPU, and the ops in them."""
