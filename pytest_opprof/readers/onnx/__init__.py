"""ONNX models, and ONNX Runtime's profile."""
