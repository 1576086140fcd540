"""Studies: every table and figure of the paper as a command, and a verdict on each of its claims.

``paper.py`` has what the paper printed, ``trainings.py`` trains, ``tables.py`` judges what was
measured, ``report.py`` prints it.
"""
