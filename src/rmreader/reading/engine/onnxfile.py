"""ONNX models written straight to their wire format, so that a reader's graph is built from its weights when it is
loaded: nothing derived to ship or to go stale, and no package for it but the one that runs it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSET, IR_VERSION = 18, 9
# TensorProto.DataType
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
FLOAT, HALF = _TYPES["float32"], _TYPES["float16"]

Shape = tuple[str | int, ...]  # a name is a size that varies


class Graph:
    """A graph under construction: values are known by name, every call of ``op`` adds a node."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._domains = {"": OPSET}
        self._count = 0

    def input(self, name: str, dtype: str, shape: Shape) -> str:
        """Declare an input."""
        self._inputs.append(_value(name, dtype, shape))
        return name

    def output(self, name: str, value: str, shape: Shape, dtype: str = "float32") -> None:
        """Give a value out under a name of its own."""
        self._nodes.append(_node("Identity", [value], [name], "", {}))
        self._outputs.append(_value(name, dtype, shape))

    def constant(self, array: NDArray[Any]) -> str:
        """An array that is part of the model."""
        self._count += 1
        name = f"c{self._count}"
        tensor = b"".join(_number(1, size) for size in array.shape) + _number(2, _TYPES[array.dtype.name])
        self._constants.append(_bytes(5, tensor + _text(8, name) + _bytes(9, np.ascontiguousarray(array).tobytes())))
        return name

    def op(self, kind: str, *inputs: str | NDArray[Any], domain: str = "", **attributes: Any) -> str:
        """A node with one output; arrays among the inputs become constants. ``""`` is an absent input."""
        return self.ops(kind, 1, *inputs, domain=domain, **attributes)[0]

    def ops(
        self, kind: str, outputs: int, *inputs: str | NDArray[Any], domain: str = "", **attributes: Any
    ) -> list[str]:
        """A node with several outputs."""
        self._count += 1
        names = [f"{kind}{self._count}_{k}" for k in range(outputs)]
        given = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        self._nodes.append(_node(kind, given, names, domain, attributes))
        self._domains.setdefault(domain, 1)
        return names

    def to_bytes(self) -> bytes:
        """The whole model, as a .onnx file holds it."""
        graph = [_bytes(1, node) for node in self._nodes] + [_text(2, "reader")] + self._constants
        graph += [_bytes(11, value) for value in self._inputs] + [_bytes(12, value) for value in self._outputs]
        opsets = [_bytes(8, _text(1, domain) + _number(2, version)) for domain, version in self._domains.items()]
        return b"".join([_number(1, IR_VERSION), _text(2, "rmreader"), _bytes(7, b"".join(graph)), *opsets])


def _node(kind: str, inputs: list[str], outputs: list[str], domain: str, attributes: dict[str, Any]) -> bytes:
    parts = [_text(1, name) for name in inputs] + [_text(2, name) for name in outputs]
    parts += [_text(3, outputs[0]), _text(4, kind), _text(7, domain)]
    parts += [_bytes(5, _attribute(name, value)) for name, value in attributes.items()]
    return b"".join(parts)


def _attribute(name: str, value: Any) -> bytes:
    """AttributeProto: its name, the value in the field of its kind, and that kind."""
    head = _text(1, name)
    match value:
        case int():
            return head + _number(3, value) + _number(20, 2)
        case str():
            return head + _text(4, value) + _number(20, 3)
        case [*numbers]:
            return head + b"".join(_number(8, number) for number in numbers) + _number(20, 7)
        case float():
            return head + b"\x15" + np.float32(value).tobytes() + _number(20, 1)
    raise TypeError(f"attribute {name}: {type(value).__name__} is none that an operator here takes")


def _value(name: str, dtype: str, shape: Shape) -> bytes:
    """ValueInfoProto of a tensor."""
    sizes = (_text(2, size) if isinstance(size, str) else _number(1, size) for size in shape)
    dims = b"".join(_bytes(1, size) for size in sizes)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, _TYPES[dtype]) + _bytes(2, dims)))


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # negative numbers are written as 64-bit two's complements
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, content: str) -> bytes:
    return _bytes(field, content.encode())
