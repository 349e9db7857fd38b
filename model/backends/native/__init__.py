"""The runner for int8 models on a CPU, in C++."""
