"""HTTP and nothing else: one file or folder for each dialect, and the code that they share."""
