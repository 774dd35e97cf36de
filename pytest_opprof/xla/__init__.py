"""What XLA writes, for the readers of saved profiles and the live backend of JAX: profiles, programs, ops.

Its protobufs are decoded here without `protobuf`, JAX or TensorFlow. Imports `protobuf` and `ops`.
"""
