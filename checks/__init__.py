"""Checks of the repository that `make check` runs beside the linter and the type checker."""
