"""The runner for GPUs: CUDA graphs and pinned staging buffers."""
