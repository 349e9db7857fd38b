"""The server around the `model` package: HTTP, scheduling and worker processes.

Modules of `model` never import `service`.
"""
