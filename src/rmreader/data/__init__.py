"""Data: SQuAD files in, validated row by row; encoded questions; batches by length.

Start at ``squad.py`` (a file as rows), then ``encode.py`` (rows as arrays) and ``batches.py``
(arrays as batches).
"""
