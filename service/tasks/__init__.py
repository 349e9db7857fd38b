"""What the server can do, free of HTTP: requests to work items, results to replies."""
