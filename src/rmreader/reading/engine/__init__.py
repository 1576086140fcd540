"""Running: the network as an ONNX graph, and the operators in C that make it fast. Start at ``engines.py``."""
