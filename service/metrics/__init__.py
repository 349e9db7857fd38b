"""Every metric, once."""
