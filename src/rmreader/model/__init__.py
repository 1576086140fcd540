"""Model: the paper's network, one file a part. Start at ``network.py``; the equations are numbered in the files."""
