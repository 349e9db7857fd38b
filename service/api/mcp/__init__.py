"""The Model Context Protocol (MCP), by which agents call the server's tools."""
