"""Several HTTP processes in front of one core, and their protocol."""
