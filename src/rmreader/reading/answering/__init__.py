"""Answering: windows, spans, confidence, ensembles. Start at ``reader.py``."""
