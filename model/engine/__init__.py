"""The in-flight batch: admission, decode steps, greedy search, beam search."""
