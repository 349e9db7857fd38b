"""Admission, lanes and dispatch of work items, without code for particular task kinds."""
