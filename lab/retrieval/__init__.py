"""Train the table that a search by meaning uses: one vector per word piece, a text is their sum.

What is scored is what the search uses, a mix of BM25 with the cosines of the passage and of its
best part, so the vectors learn what the words do not say. The table begins as what a sentence
encoder makes of each piece alone. Everyday `held` and held-out articles of SQuAD choose the epoch
and the mix; everyday `test` and SQuAD's dev set are never read.
"""
