"""The capacity model: computes machines, money and waiting times from measured CPU time.

The model simulates the real scheduler in virtual time; docs/capacity.md explains it.
"""
