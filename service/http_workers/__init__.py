"""Several HTTP processes in front of one core, and the messages between them and the core."""
