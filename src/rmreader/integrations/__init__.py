"""The reader as other tools expect it: transformers' pipeline call, a Haystack component, an MCP server."""
