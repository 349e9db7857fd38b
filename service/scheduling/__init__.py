"""Admission, lanes and dispatch of work items to workers. It knows no task kind."""
