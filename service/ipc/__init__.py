"""Child processes of the server, the channels between them, and the cores of this machine."""
