"""Translates texts: prepares them, submits their sentences, repairs and joins the results."""
