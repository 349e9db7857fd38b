"""The tasks of the server, free of HTTP: requests to work items, results to responses."""
