"""Regard's own dialect: `POST /attention` and `POST /attention/steps`."""
