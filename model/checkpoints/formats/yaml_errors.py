"""The errors of reading a damaged YAML file."""

import yaml

YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)
"""Errors of PyYAML, and of taking values from what it has read.

Malformed dates, booleans and numbers raise the plain errors. Deep nesting raises a RecursionError.
"""
