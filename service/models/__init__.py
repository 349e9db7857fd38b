"""The served models: catalog, loading and unloading while the server runs, registries."""
