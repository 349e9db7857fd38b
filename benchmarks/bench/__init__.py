"""Benchmarks of a running server over HTTP; `commands.py` lists them."""
