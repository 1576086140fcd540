"""Model: the paper's network, one file per part. Start at
``network.py``; the equations are numbered in the files."""
