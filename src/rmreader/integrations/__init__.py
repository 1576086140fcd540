"""The reader as other tools expect it: a pipeline, a Haystack component, a spaCy pipe, MCP."""
