"""The laboratory: what was measured about the paper, and how the shipped readers were made.

It is in the repository and not in the wheel. It imports ``rmreader`` and is never imported by it.
``python -m lab`` lists its commands; ``docs/studies.md`` says where things are.
"""
