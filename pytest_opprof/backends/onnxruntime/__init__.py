"""ONNX Runtime: what sessions run while a window is open, by ONNX Runtime's own profile of each."""
