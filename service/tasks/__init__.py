"""The tasks of the server, without HTTP. They split requests into work items and join results."""
