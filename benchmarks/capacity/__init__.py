"""The capacity model: simulates the real scheduler in virtual time (docs/capacity.md)."""
