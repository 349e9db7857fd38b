"""The runners that execute a model: PyTorch, CUDA graphs, native int8 code."""
