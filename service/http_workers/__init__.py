"""The HTTP workers, the main process that runs them, and the messages between them."""
