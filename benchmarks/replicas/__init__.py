"""Measures replicas of Regard behind Envoy, with the configuration in `deploy/envoy/`.

`python -m benchmarks.replicas --help` lists the parts and the options.
"""
