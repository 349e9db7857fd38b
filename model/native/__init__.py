"""Native CPU code for int8 models: what it serves, and how Python calls it."""
