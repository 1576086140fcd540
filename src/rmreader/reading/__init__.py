"""Reading: a question and a passage in, answers out, without torch.

``answering/`` decides (start at ``reader.py``), ``running/`` computes, ``files/`` reads and writes
many questions.
"""
