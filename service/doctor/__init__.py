"""The command `regard doctor`: a report for issues."""
