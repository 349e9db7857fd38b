"""The errors of reading a damaged YAML file."""

import yaml

YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)
"""Errors that PyYAML raises, and errors that arise when code takes values from its result.

For malformed dates, booleans and numbers, PyYAML raises built-in errors instead of a YAMLError. For
deep nesting, it raises a RecursionError.
"""
