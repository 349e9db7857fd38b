"""HTTP and nothing else: one file or folder of routes and schemas for each dialect."""
