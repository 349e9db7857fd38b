"""The device worker process, the supervisor that keeps workers alive, and their messages."""
