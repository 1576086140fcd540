"""The HTTP API and the web page: bounded queues, micro-batches, and an orderly end."""
