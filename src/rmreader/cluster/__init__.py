"""Cluster: many questions in parts, on the cores of one machine or on engines that span many. Start at ``shards.py``."""
