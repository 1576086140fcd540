"""What touches the disk, by job.

``outputs`` says where a command may write, ``atomic`` writes files that appear when they are whole,
``manifest`` keeps folders under checksums, ``reading`` opens files with a bound on their size,
``yaml`` and ``cache`` are what their names say.
"""
