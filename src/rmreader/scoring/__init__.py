"""Scoring: SQuAD's exact match and F1, the adversarial score, attention divergences, calibration.

Start at ``squad.py``.
"""
