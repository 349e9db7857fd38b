"""`POST /attention` and `POST /attention/steps`: our own dialect."""
