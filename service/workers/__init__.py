"""The device worker process, the supervisor that keeps workers alive, their protocol."""
