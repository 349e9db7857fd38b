"""The registries that models come from, and downloads from them."""
