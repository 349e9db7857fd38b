"""Predictions of the time that new jobs will take."""
