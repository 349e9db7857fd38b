"""The commands `regard translate`, `regard embed` and `regard mcp`, which use a server."""
