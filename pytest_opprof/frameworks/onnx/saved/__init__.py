"""ONNX: models, and profiles of ONNX Runtime."""
