"""The device worker process, its executors, and its messages."""
