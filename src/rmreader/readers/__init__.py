"""Readers: the one reader folder, and the trained readers that ship in it.

Start at ``folder.py``. In ``shipped/``, ``small/`` and ``base/`` are readers, ``vectors/`` and
``tags/`` what they share.
"""
