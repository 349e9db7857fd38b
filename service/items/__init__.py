"""Work items: the units of work that a request is split into and that workers compute."""
