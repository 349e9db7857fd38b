"""Reads the bodies, parameters and inputs of requests, and detects disconnected clients."""
