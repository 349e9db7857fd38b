"""Builds, checks and describes releases."""
