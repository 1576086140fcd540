"""ONNX Runtime without its telemetry. Nothing else in the package imports it.

From 1.31 on, importing it writes a device id under the user's cache folder, and a process that
lives for some seconds tries to send events. Somebody who reads private documents must not be told
on.
"""

import os

# Heeded at the import alone, so it is set before. Child processes inherit it.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as ort

# For a program that imported ONNX Runtime before us: what it has already written stays, nothing
# more is sent.
ort.disable_telemetry_events()

__all__ = ["ort"]
