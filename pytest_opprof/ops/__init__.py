"""The meaning of raw names: canonical ops, dtypes, kernels and calls of CUDA, FLOPs by shapes. Imports only `errors`.

A new name of an op goes into the table of its framework in `tables` (of JAX into `tables.jax_xla`), a name of a CUDA
kernel into `cuda_kernels`. `vocabulary` lists the names that count in a way of their own, `names` combines both. The
arguments of an op are a `signature.Signature`; bytes and FLOPs follow from it in the module `work` of its framework.
"""
