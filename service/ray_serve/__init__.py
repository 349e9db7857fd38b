"""Runs the server as an application of Ray Serve. Each replica is one server."""
