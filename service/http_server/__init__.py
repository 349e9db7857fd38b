"""The connections of an HTTP process: limits of their number, headers, times and buffered bytes."""
