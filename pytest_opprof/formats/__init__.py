"""What frameworks write, decoded alike for the readers of saved profiles and the live backends.

Its protobufs are decoded without `protobuf`, JAX, TensorFlow or ONNX. Imports `ops`.
"""
