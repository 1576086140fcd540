"""Cluster: many questions in parts, on cores of one machine or on engines that span many; start at ``shards.py``."""
