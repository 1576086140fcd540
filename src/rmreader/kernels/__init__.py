"""Kernels: the LSTM fused for GPUs, with a plain one of the same interface.

Start at ``lstm.py``. From this room on, torch is there.
"""
