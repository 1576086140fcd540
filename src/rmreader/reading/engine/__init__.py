"""The network as an ONNX graph, and the operators in C for speed. Start at ``engines.py``."""
