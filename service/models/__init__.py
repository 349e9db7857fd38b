"""The served models: catalog, loading and unloading while running, registry."""
