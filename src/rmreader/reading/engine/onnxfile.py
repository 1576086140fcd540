"""ONNX models written straight to their wire format.

So a reader's graph is built from its weights when it is loaded: nothing derived is shipped or goes
stale, and no package is needed but the one that runs it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSET = 18
IR_VERSION = 9
# TensorProto.DataType
_TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
}
FLOAT = _TYPES["float32"]
HALF = _TYPES["float16"]

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

        # TensorProto: its shape, type, name and content.
        shape = b"".join(_number(1, size) for size in array.shape)
        dtype = _number(2, _TYPES[array.dtype.name])
        content = _bytes(9, np.ascontiguousarray(array).tobytes())
        self._constants.append(_bytes(5, shape + dtype + _text(8, name) + content))

        return name

    def op(
        self,
        kind: str,
        *inputs: str | NDArray[Any],
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """A node with one output; arrays among the inputs become constants, ``""`` is absent."""
        return self.ops(kind, 1, *inputs, domain=domain, **attributes)[0]

    def ops(
        self,
        kind: str,
        outputs: int,
        *inputs: str | NDArray[Any],
        domain: str = "",
        **attributes: Any,
    ) -> list[str]:
        """A node with several outputs."""
        self._count += 1
        names = [f"{kind}{self._count}_{k}" for k in range(outputs)]
        sources = []
        for value in inputs:
            sources.append(value if isinstance(value, str) else self.constant(value))

        self._nodes.append(_node(kind, sources, names, domain, attributes))
        self._domains.setdefault(domain, 1)
        return names

    def add(self, a: str | NDArray[Any], b: str | NDArray[Any]) -> str:
        """a + b."""
        return self.op("Add", a, b)

    def sub(self, a: str | NDArray[Any], b: str | NDArray[Any]) -> str:
        """a − b."""
        return self.op("Sub", a, b)

    def mul(self, a: str | NDArray[Any], b: str | NDArray[Any]) -> str:
        """a∘b, element by element."""
        return self.op("Mul", a, b)

    def matmul(self, a: str | NDArray[Any], b: str | NDArray[Any]) -> str:
        """a·b."""
        return self.op("MatMul", a, b)

    def softmax(self, x: str, axis: int = -1) -> str:
        """The softmax along an axis."""
        return self.op("Softmax", x, axis=axis)

    def transpose(self, x: str, *axes: int) -> str:
        """x with its axes in this order; turned, where none is given."""
        return self.op("Transpose", x, perm=list(axes)) if axes else self.op("Transpose", x)

    def concat(self, *parts: str, axis: int = -1) -> str:
        """Several values side by side."""
        return self.op("Concat", *parts, axis=axis)

    def to_bytes(self) -> bytes:
        """The whole model, as a .onnx file holds it."""
        graph = [
            *(_bytes(1, node) for node in self._nodes),
            _text(2, "reader"),
            *self._constants,
            *(_bytes(11, value) for value in self._inputs),
            *(_bytes(12, value) for value in self._outputs),
        ]
        opsets = []
        for domain, version in self._domains.items():
            opsets.append(_bytes(8, _text(1, domain) + _number(2, version)))

        head = [_number(1, IR_VERSION), _text(2, "rmreader")]
        return b"".join([*head, _bytes(7, b"".join(graph)), *opsets])


def _node(
    kind: str,
    inputs: list[str],
    outputs: list[str],
    domain: str,
    attributes: dict[str, Any],
) -> bytes:
    """NodeProto; a node is named after its first output."""
    parts = [_text(1, name) for name in inputs]
    parts += [_text(2, name) for name in outputs]
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
            parts = (_number(8, number) for number in numbers)
            return head + b"".join(parts) + _number(20, 7)
        case float():
            return head + b"\x15" + np.float32(value).tobytes() + _number(20, 1)

    kind = type(value).__name__
    raise TypeError(f"attribute {name}: {kind} is none that an operator here takes")


def _value(name: str, dtype: str, shape: Shape) -> bytes:
    """ValueInfoProto of a tensor."""
    dims = []
    for size in shape:
        dimension = _text(2, size) if isinstance(size, str) else _number(1, size)
        dims.append(_bytes(1, dimension))

    tensor = _number(1, _TYPES[dtype]) + _bytes(2, b"".join(dims))
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def _varint(number: int) -> bytes:
    """A number in groups of 7 bits, the lowest first; the 8th bit says that more follow."""
    # Negative numbers are written as 64-bit two's complements.
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _number(field: int, value: int) -> bytes:
    """A field that holds a whole number."""
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    """A field that holds bytes, or another message."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, content: str) -> bytes:
    """A field that holds text."""
    return _bytes(field, content.encode())
