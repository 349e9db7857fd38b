"""The in-flight batch: admission, decode steps, greedy choice, beam search."""
