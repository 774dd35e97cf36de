"""Saved files of XLA: programs as HLO and StableHLO, and the profiles of JAX and TensorFlow."""
