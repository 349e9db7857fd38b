"""The tasks of the server, without HTTP: split requests into work items, and join their results."""
