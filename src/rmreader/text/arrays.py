"""Dataclasses of arrays: NumPy arrays in the rooms without torch, tensors in those with it."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

A = TypeVar("A")  # np.ndarray, or from kernels/ on torch.Tensor


class Arrays(Generic[A]):
    """A frozen dataclass whose fields are arrays, other such dataclasses, numbers or None."""

    def map(self, change: Callable[[A], Any]) -> Any:
        """The same with ``change`` applied to every array, in the order of the fields."""
        fields: dict[str, Any] = {}
        for name in self.__dataclass_fields__:  # type: ignore[attr-defined]
            value = getattr(self, name)
            if isinstance(value, Arrays):
                fields[name] = value.map(change)
            elif value is None or isinstance(value, int):
                fields[name] = value
            else:
                fields[name] = change(value)
        return type(self)(**fields)
