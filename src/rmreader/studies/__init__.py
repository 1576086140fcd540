"""Studies: every table and figure of the paper as a command. Start at ``paper.py``."""
