"""Kernels: the LSTM and the embedding as fused GPU kernels, with plain ones of the same interface.

Start at ``lstm.py``. From this room on, torch is there.
"""
