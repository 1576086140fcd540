"""A folder is whole or not there; damage is found, said, and survived."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rmreader.core.errors import UserError
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.manifest import damage, settle
from rmreader.training.run_folder import CHECKPOINT as MANIFEST
from rmreader.training.run_folder import load_checkpoint, save_checkpoint


def save(target: Path, step: int) -> None:
    save_checkpoint(target, {"weights": torch.full((3,), float(step))}, {"step": step, "share": 0.1 + 0.2})


def test_what_is_saved_is_loaded_bit_by_bit(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(4, 5), "b.c": torch.tensor(7.5), "n": torch.arange(3)}
    save_checkpoint(tmp_path / "last", tensors, {"step": 3, "share": 0.1 + 0.2})
    loaded, state = load_checkpoint(tmp_path / "last")
    assert state == {"step": 3, "share": 0.1 + 0.2}
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    assert {path.suffix for path in (tmp_path / "last").iterdir()} == {".json", ".safetensors"}  # and no pickle


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", MANIFEST])
@pytest.mark.parametrize("harm", ["flip", "cut", "gone"])
def test_any_damage_is_refused_and_the_one_before_taken(tmp_path: Path, name: str, harm: str) -> None:
    last = tmp_path / "last"
    save(last, 1)
    save(last, 2)
    content = bytearray((last / name).read_bytes())
    content[len(content) // 2] ^= 0x11
    {
        "flip": lambda: (last / name).write_bytes(content),
        "cut": lambda: (last / name).write_bytes(content[: len(content) // 2]),
        "gone": lambda: (last / name).unlink(),
    }[harm]()
    with pytest.raises(UserError, match="cannot be loaded"):
        load_checkpoint(last)
    notes = settle(last, MANIFEST)
    assert "set aside" in notes[0]
    assert "last.old" in notes[1]
    assert load_checkpoint(last)[1]["step"] == 1
    assert (tmp_path / "last.damaged").exists()


class Killed(BaseException):
    pass


def kill_at(monkeypatch: pytest.MonkeyPatch, act_number: int) -> None:
    """Die just before the n-th act that changes the disk in an order that matters."""
    acts = [0]

    def wrap(act: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if acts[0] == act_number:
                raise Killed
            acts[0] += 1
            return act(*args, **kwargs)

        return wrapped

    for name in ("fsync", "rename", "unlink", "rmdir", "mkdir"):
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))


@pytest.mark.parametrize("act_number", range(24))
def test_killed_before_any_act_of_a_write_the_old_or_the_new_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act_number: int
) -> None:
    last = tmp_path / "last"
    save(last, 1)
    save(last, 2)
    done = False
    with monkeypatch.context() as patched:
        kill_at(patched, act_number)
        try:
            save(last, 3)
            done = True
        except Killed:
            pass
    assert settle(last, MANIFEST) == []  # a kill is no damage
    assert load_checkpoint(last)[1]["step"] in ((3,) if done else (2, 3))
    save(last, 4)  # and the next write goes as ever
    assert load_checkpoint(last)[1]["step"] == 4


def test_the_kills_of_the_test_before_cover_the_whole_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "last", 1)
    save(tmp_path / "last", 2)
    with monkeypatch.context() as patched:
        kill_at(patched, 23)
        save(tmp_path / "last", 3)  # 23 acts are enough for all of it


def test_half_written_folder_is_never_taken(tmp_path: Path) -> None:
    half = tmp_path / "last.new"
    half.mkdir()
    (half / "state.json").write_text("{}")
    assert settle(tmp_path / "last", MANIFEST) == []
    assert not (tmp_path / "last").exists()
    (half / MANIFEST).write_text(json.dumps({"checksums": {"state.json": "0"}}))
    assert damage(half, MANIFEST) is not None
    settle(tmp_path / "last", MANIFEST)
    assert not (tmp_path / "last").exists()


def test_a_kill_between_the_renames_leaves_both_and_the_new_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = tmp_path / "last"
    save(last, 1)
    save(last, 2)

    def rename(source: Path, target: Path, act: Callable[..., None] = os.rename) -> None:
        if source.name == "last.new":
            raise Killed
        act(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename)
        with pytest.raises(Killed):
            save(last, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.new", "last.old"]
    assert settle(last, MANIFEST) == []
    assert load_checkpoint(last)[1]["step"] == 3


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="only Linux says which file a descriptor is")
def test_everything_is_on_the_disk_before_a_rename_makes_it_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[tuple[str, str]] = []

    def fsync(descriptor: int, act: Callable[[int], None] = os.fsync) -> None:
        acts.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
        act(descriptor)

    def rename(source: Path, target: Path, act: Callable[..., None] = os.rename) -> None:
        acts.append(("rename", str(source)))
        act(source, target)

    save(tmp_path / "last", 1)
    new = tmp_path / "last.new"
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        patched.setattr(os, "rename", rename)
        save(tmp_path / "last", 2)
    names = [path.name for path in (tmp_path / "last").iterdir()]
    assert len(names) == 3
    moved = acts.index(("rename", str(new)))
    flushed = {path for act, path in acts[: acts.index(("rename", str(tmp_path / "last")))] if act == "fsync"}
    assert {str(new), *(str(new / name) for name in names)} <= flushed
    assert ("fsync", str(tmp_path)) in acts[moved:]  # the renames too


def test_a_file_is_on_the_disk_before_it_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acts: list[str] = []
    for name in ("fsync", "replace"):
        act = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, act=act, name=name: (acts.append(name), act(*args))[1])
    write_whole(tmp_path / "file", b"content")
    assert acts == ["fsync", "replace", "fsync"]  # the file, its place, and the folder that says so


def test_a_disk_that_is_full_is_one_sentence_and_the_last_checkpoint_stays(tmp_path: Path) -> None:
    last = tmp_path / "last"
    save(last, 1)
    script = (
        "import resource, sys, torch\nfrom pathlib import Path\nfrom rmreader.core.errors import UserError\n"
        "from rmreader.training.run_folder import save_checkpoint\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n    save_checkpoint(Path(sys.argv[1]), {'w': torch.zeros(100_000)}, {'step': 2})\n"
        "except UserError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(last)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{last}: cannot be written (")
    assert "too large" in done.stdout
    assert load_checkpoint(last)[1]["step"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["last"]
