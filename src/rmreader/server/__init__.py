"""Serving: the HTTP API and the web page. Start at ``app.py``; ``batcher.py`` is what waits and reads."""
