"""What raw names mean: canonical ops, dtypes, kernels and calls of CUDA, FLOPs by shapes. Imports `errors` alone.

A new name of an op goes into the table of its framework in `tables` (of JAX into `tables.jax_xla`), a name of a CUDA
kernel into `cuda_kernels`. `vocabulary` says which names count in a way of their own, `names` what comes of both. What
an op works on is a `signature.Signature`; bytes and FLOPs follow from it in the module `work` of its framework.
"""
