"""ONNX: models, and ONNX Runtime live and saved, by its own profile of each session."""
