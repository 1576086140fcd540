"""Learning: objectives, one training step, the run around it, what it leaves on disk.

Start at ``objectives.py`` (the maths), ``step.py`` (one step), ``trainer.py`` (the run).
"""
