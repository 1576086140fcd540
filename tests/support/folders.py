"""Reader folders as a stranger might hand them over: wrong tensors under right checksums, and damage of every kind."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from rmreader.core.files.manifest import file_sha256

Change = Callable[[Path], object]


def resign(folder: Path) -> None:
    """Make the checksums true again after a file was changed on purpose."""
    about = json.loads((folder / "reader.json").read_text(encoding="utf-8"))
    about["checksums"] = {name: file_sha256(folder / name) for name in about["checksums"]}
    (folder / "reader.json").write_text(json.dumps(about), encoding="utf-8")


def wrong_tensors(folder: Path) -> Iterator[tuple[str, Change]]:
    """Every tensor missing, in shapes that do not fit and in types that are none of ours; and tensors too many."""
    path = folder / "weights.safetensors"
    for name, array in load_file(path).items():
        shapes = {(), (1,), (0,), (*array.shape, 1), (1, *array.shape), array.shape[::-1], array.shape[:-1]}
        shapes |= {_other(array.shape, axis, by) for axis in range(array.ndim) for by in (-1, 1)}
        shapes |= {(*array.shape[:axis], 1, *array.shape[axis + 1 :]) for axis in range(array.ndim)}
        for shape in sorted(shapes - {array.shape}):
            yield f"{name} {list(array.shape)} as {list(shape)}", _put(name, np.resize(array, shape))
        for kind in (np.int64, np.uint8, np.int8):
            if array.dtype != kind:
                yield f"{name} of {np.dtype(kind)}", _put(name, array.astype(kind))
        yield f"{name} missing", _put(name, None)
        if array.dtype.kind == "f" and array.size:
            for number in (np.nan, np.inf):
                yield f"{name} with {number}", _put(name, np.full_like(array, number))
    yield "one more", _put("pointer.more", np.zeros((2, 2), np.float32))
    yield "a scale of nothing", _put("pointer.scale", np.zeros(2, np.float32))


def _other(shape: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] + by, *shape[axis + 1 :])


def _put(name: str, array: np.ndarray[Any, Any] | None) -> Change:
    def change(folder: Path) -> None:
        path = folder / "weights.safetensors"
        tensors = load_file(path) | ({} if array is None else {name: np.ascontiguousarray(array).reshape(array.shape)})
        if array is None:
            del tensors[name]
        save_file(tensors, path)
        resign(folder)

    return change


WRONG_VALUES: list[Any] = [
    None, True, 0, -1, 1e400, 10**400, 0.5, "", "x", "../x", "/etc/passwd", "\0", "\ud800", [], [[]], {}, {"a": 1},
    2**63, [1, 2], ["a"], float("nan"),
]  # fmt: skip


def damages(folder: Path, random_flips: int = 100, seed: int = 1) -> Iterator[tuple[str, Change]]:
    """Folders that no writer of ours leaves."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    generator = random.Random(seed)
    for name in files:
        if name == "README.md":
            continue
        yield f"{name} gone", lambda at, name=name: (at / name).unlink()
        yield f"{name} emptied", lambda at, name=name: (at / name).write_bytes(b"")
        yield f"{name} a folder", lambda at, name=name: ((at / name).unlink(), (at / name).mkdir())
        yield f"{name} a pipe", lambda at, name=name: ((at / name).unlink(), os.mkfifo(at / name))
        yield f"{name} a link out", _link_out(name)
        yield f"{name} a link to itself", lambda at, name=name: ((at / name).unlink(), (at / name).symlink_to(name))
        for signed in (False, True):
            for share in (0.0, 0.3, 0.99):
                yield f"{name} cut at {share}, signed {signed}", _rewrite(name, _cut(share), signed)
            for deep in (b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"\xff\xfe", b"null", b"[]", b"{}", b"5"):
                yield f"{name} is {deep[:9]!r}…, signed {signed}", _rewrite(name, lambda _, deep=deep: deep, signed)
            for _ in range(random_flips // len(files)):
                place, bit = generator.random(), generator.randrange(8)
                yield f"{name} flipped at {place}, signed {signed}", _rewrite(name, _flip(place, bit), signed)
        if name.endswith(".json"):
            tree = json.loads((folder / name).read_text(encoding="utf-8"))
            for path in list(_paths(tree))[:40]:
                for value in WRONG_VALUES:
                    yield f"{name}: {path} is {value!r:.30}", _set(name, path, value)
        if name == "recipe.yaml":
            for value in (
                "*x",
                "!!python/object:os.system {}",
                "99999999999",
                "-1",
                ".inf",
                "2026-13-45",
                "[[[]]]",
                "{}",
            ):
                for line in range(len((folder / name).read_text(encoding="utf-8").split("\n")) - 1):
                    yield f"{name} line {line}: {value}", _rewrite(name, _line(line, value), True)
    for name in ("../x", "/etc/passwd", "a/../../x", "encoder/../../x", ".", "", "x\0y", "x" * 5000):
        yield f"the manifest names {name[:20]!r}", _names(name)
    yield "a folder that is a link out", lambda at: (at / "more").symlink_to("/etc")


def _link_out(name: str) -> Change:
    def change(folder: Path) -> None:
        away = folder.parent / "away"
        away.mkdir(exist_ok=True)
        shutil.move(folder / name, away / Path(name).name)
        (folder / name).symlink_to(away / Path(name).name)

    return change


def _rewrite(name: str, how: Callable[[bytes], bytes], signed: bool) -> Change:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(how((folder / name).read_bytes()))
        if signed and name != "reader.json":
            resign(folder)

    return change


def _cut(share: float) -> Callable[[bytes], bytes]:
    return lambda content: content[: int(share * len(content))]


def _flip(share: float, bit: int) -> Callable[[bytes], bytes]:
    def flip(content: bytes) -> bytes:
        place = int(share * len(content))
        return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]

    return flip


def _line(number: int, value: str) -> Callable[[bytes], bytes]:
    def replace(content: bytes) -> bytes:
        lines = content.decode().split("\n")
        lines[number] = lines[number].split(":")[0] + f": {value}"
        return "\n".join(lines).encode()

    return replace


def _paths(tree: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of everything in a tree; of long lists and tables the first two."""
    yield before
    children = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    for key, value in children if len(children) <= 20 else children[:2]:
        yield from _paths(value, (*before, key))


def _set(name: str, path: tuple[Any, ...], value: Any) -> Change:
    def change(folder: Path) -> None:
        tree = json.loads((folder / name).read_text(encoding="utf-8"))
        if not path:
            tree = value
        else:
            at = tree
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
        (folder / name).write_text(json.dumps(tree), encoding="utf-8")
        if name != "reader.json":
            resign(folder)

    return change


def _names(name: str) -> Change:
    def change(folder: Path) -> None:
        tree = json.loads((folder / "reader.json").read_text(encoding="utf-8"))
        tree["checksums"][name] = "0" * 64
        (folder / "reader.json").write_text(json.dumps(tree), encoding="utf-8")

    return change
