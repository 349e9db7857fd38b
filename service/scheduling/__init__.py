"""Admission, lanes, dispatch of work items to the workers, and the supervisor of the workers."""
