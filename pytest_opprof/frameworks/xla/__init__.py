"""XLA, which JAX and TensorFlow compile to: its programs, kernels and profiles; JAX live; saved ones."""
