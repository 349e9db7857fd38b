"""Admission, lanes and dispatch of work items. Only `equal_sentences` depends on a task kind."""
