"""Text: tokens with exact character offsets, word vectors, tags, vocabularies.

Start at ``tokens.py``, then ``lexicon.py``, which turns words into what a network reads.
"""
