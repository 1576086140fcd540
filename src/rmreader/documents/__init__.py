"""The shelf: documents in, passages with exact places, an index, search, answers that cite. Start at ``shelf.py``."""
