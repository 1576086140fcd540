"""Studies: every table and figure of the paper as a command, and a verdict on each of its claims.

``paper.py`` has what the paper printed, ``runs.py`` trains, ``kept.py`` remembers, ``report.py`` makes every table.
"""
