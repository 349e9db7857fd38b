"""The commands `regard translate` and `regard embed`, which send texts of files to a server."""
