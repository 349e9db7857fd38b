"""Measures replicas of Regard behind Envoy, with the configuration in `deploy/envoy/`."""
