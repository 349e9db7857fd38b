"""Regard's own dialect: `POST /attention`, `/attention/steps` and `/attention/knockout`."""
