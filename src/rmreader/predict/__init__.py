"""Answer many questions: a file in, a file out, in one process or in parts.

``rows`` reads the questions, ``job`` says with which reader and options, ``predict`` answers them
in this process and ``writers`` has the formats. ``shards`` cuts the questions into parts, ``run``
makes the parts in several processes (``workers``) or on Ray (``ray``) and joins them. ``arrow``
answers tables inside Spark and Ray Data.
"""
