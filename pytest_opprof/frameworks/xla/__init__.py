"""XLA, the compiler under JAX and TensorFlow: its programs, kernels and profiles; JAX live; saved profiles."""
