"""Reads file formats: safetensors, PyTorch, Marian binary and npz, JSON."""
