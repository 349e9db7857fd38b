"""The command `regard doctor`, which prints facts for a bug report."""
