"""A process that reads documents from strangers, and is ended where one takes too long.

No limit inside a parser holds: a library may catch what should end it. So the parser runs in a
child process with little memory, no files to write and a clock outside of it; the system counts
its work. Document and answer travel through pipes as plain data.
"""

from __future__ import annotations

import atexit
import dataclasses
import json
import math
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from rmreader.core.errors import UserError
from rmreader.documents.page_image import Area, PageImage, PagePlace, draw_page
from rmreader.documents.paragraphs import Paragraphs
from rmreader.documents.parse import Document, ReadLater, parse

SECONDS = 60  # for one document
_MEMORY = 2 << 30  # bytes that the child may have
_LARGEST_REPLY = 2 << 30  # bytes that are taken from it
_DOCUMENTS = 500  # that one child reads, so that it does not grow for ever
_LENGTH = struct.Struct(">Q")
_PROGRAM = """
import sys
sys.path[:] = sys.argv[2:]
from rmreader.documents.sandbox import serve
serve(int(sys.argv[1]))
"""

Task = dict[str, Any]
"""What the child is to do with a file: its ``name``, and for a page what is to be seen on it."""


class Sandbox:
    """A child process that parses; it is started when needed, and again where it was ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._left = 0

    def parse(
        self,
        name: str,
        content: bytes,
        seconds: float = SECONDS,
        patience: float = 1,
    ) -> Document:
        """The document, or a sentence where the child refuses it, ends or is late.

        It may work for ``seconds``. By the clock it has ``patience`` times as many, since a busy
        machine lets it work for a part of the time only. Who is out of patience gets ``ReadLater``.
        """
        return _unpack(self._do({"name": name}, content, seconds, patience))

    def draw_page(
        self,
        name: str,
        content: bytes,
        place: PagePlace,
        seconds: float = SECONDS,
    ) -> PageImage:
        """A page of a PDF document with a place marked, if the page still has it."""
        task = {"name": name, "place": dataclasses.astuple(place)}
        return _unpack_page(self._do(task, content, seconds))

    def _do(self, task: Task, content: bytes, seconds: float, patience: float = 1) -> list[bytes]:
        """What the child says to a task with a file's content."""
        if not _counts_work():
            patience = 1
        limit = seconds * patience
        task = task | {"seconds": seconds, "limit": limit}
        with self._lock:
            process = self._start()
            late = threading.Event()
            try:
                with _ended_after(limit, process, late):
                    reply = _exchange(process, task, content)
            except (OSError, EOFError, ValueError):
                self._stop()
                raise _failure(task, process.returncode, late.is_set()) from None
            except BaseException:  # such as Ctrl-C: the child may be in the middle of a reply
                self._stop()
                raise
            self._left -= 1
            # Its time may have been up just when the reply came: then the child has ended.
            if self._left <= 0 or late.is_set():
                self._stop()
        parts = _parts(reply)
        about = json.loads(parts[0])
        if "error" in about:
            raise UserError(about["error"])
        return parts

    def close(self) -> None:
        """End the child; the next document starts another."""
        with self._lock:
            self._stop()

    def abandon(self) -> None:
        """End the child at once, even in the middle of a document."""
        process = self._process
        if process is not None:
            process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and process.poll() is None:
            return process
        self._stop()
        folders = [str(Path(__file__).parents[2]), *filter(None, sys.path)]
        command = [sys.executable, "-P", "-c", _PROGRAM, str(_MEMORY), *folders]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the process that waits for it
            )
        except OSError as error:
            raise UserError(
                f"{sys.executable}: cannot start the process that reads documents "
                f"({error.strerror}); free some memory or processes."
            ) from None
        self._process = process
        self._left = _DOCUMENTS
        return process

    def _stop(self) -> None:
        process = self._process
        self._process = None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not sent yet
                    continue


sandbox = Sandbox()
"""The one of this process."""
atexit.register(sandbox.close)


def _failure(task: Task, status: int, is_late: bool) -> UserError:
    """Why a child ended without a reply."""
    name, seconds, limit = task["name"], task["seconds"], task["limit"]
    if status == -getattr(signal, "SIGXCPU", 0) or (is_late and limit == seconds):
        return UserError(f"{name}: takes more than {seconds:g} s to read; convert it.")
    if is_late:
        return ReadLater(
            f"{name}: not read in {limit:g} s, as the machine is busy; try again later."
        )
    if status == -getattr(signal, "SIGKILL", 0):  # by nobody here
        return ReadLater(
            f"{name}: the process that reads it was killed, perhaps as the machine has too little "
            "memory; try again."
        )
    why = "ends the program that reads it, or needs too much memory; convert it."
    return UserError(f"{name}: {why}")


def _counts_work() -> bool:
    """Whether the system ends a process after so much work: everywhere but on Windows."""
    return hasattr(signal, "SIGXCPU")


@contextmanager
def _ended_after(
    seconds: float,
    process: subprocess.Popen[bytes],
    late: threading.Event,
) -> Iterator[None]:
    """Within, the process has so many seconds; ``late`` says afterwards whether they were up."""

    def end() -> None:
        late.set()
        process.kill()

    clock = threading.Timer(seconds, end)
    clock.start()
    try:
        yield
    finally:
        clock.cancel()
        # A clock that has begun to end the process does so now, not while the next task is done.
        clock.join()


def _exchange(process: subprocess.Popen[bytes], task: Task, content: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    _send(process.stdin, json.dumps(task).encode())
    _send(process.stdin, content)
    return _receive(process.stdout)


def _send(pipe: IO[bytes], content: bytes) -> None:
    pipe.write(_LENGTH.pack(len(content)))
    pipe.write(content)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    """The next message; ``EOFError`` where the other side has ended."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    if length > _LARGEST_REPLY:
        raise ValueError("a reply that is too large")
    content = pipe.read(length)
    if len(content) < length:
        raise EOFError
    return content


def serve(memory: int) -> None:
    """The child: parse what comes in until nobody is left to ask."""
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what a library prints
    _limit(memory)
    requests: SimpleQueue[tuple[Task, bytes]] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while True:
        task, content = requests.get()
        _limit_work(task["seconds"])
        _set_alarm(2 * math.ceil(task["limit"]))
        reply = _reply(task, content)
        _set_alarm(0)
        _send(outgoing, reply)


def _listen(requests: SimpleQueue[tuple[Task, bytes]]) -> None:
    """Take requests while others are parsed; end at once where the parent has ended."""
    incoming = sys.stdin.buffer
    try:
        while True:
            task = json.loads(_receive(incoming))
            requests.put((task, _receive(incoming)))
    except EOFError:
        os._exit(0)


def _set_alarm(seconds: int) -> None:
    """Have the system end this process then, should the parent not be there to do it."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _limit_work(seconds: float) -> None:
    """Have the system end this process after so many seconds of a processor from now."""
    if not _counts_work():
        return
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    limit = math.ceil(time.process_time() + seconds)
    if most == resource.RLIM_INFINITY or most > limit:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, most))


def _limit(memory: int) -> None:
    """Bound what the child may have, where the system can."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or most > memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _reply(task: Task, content: bytes) -> bytes:
    name = task["name"]
    try:
        if "place" in task:
            return _pack_page(draw_page(name, content, PagePlace(*task["place"])))
        return _pack(parse(name, content))
    except UserError as error:
        return _pack_error(str(error))
    except MemoryError:
        return _pack_error(f"{name}: needs too much memory to read; split or convert it.")
    except Exception as error:  # whatever a parser does with damage is this file's remark
        kind = type(error).__name__
        return _pack_error(f"{name}: it is damaged, and cannot be read ({kind}); convert it.")


def _pack_error(sentence: str) -> bytes:
    return _join([json.dumps({"error": sentence}).encode()])


def _pack(document: Document) -> bytes:
    paragraphs = document.paragraphs
    about = {
        "plain": document.plain,
        "offsets": document.offsets,
        "note": document.note,
        "sections": paragraphs.sections,
    }
    return _join(
        [
            json.dumps(about).encode(),
            document.original.encode("utf-8", "surrogatepass"),
            paragraphs.text.encode("utf-8", "surrogatepass"),
            paragraphs.ends.tobytes(),
            paragraphs.runs.tobytes(),
            paragraphs.run_ends.tobytes(),
            paragraphs.section_of.tobytes(),
            document.rectangles.tobytes(),
        ]
    )


def _unpack(parts: list[bytes]) -> Document:
    about = json.loads(parts[0])
    ends, runs, run_ends, section_of = (array("q", part) for part in parts[3:7])
    paragraphs = Paragraphs(
        str(parts[2], "utf-8", "surrogatepass"),
        ends,
        runs,
        run_ends,
        section_of,
        [(page, heading) for page, heading in about["sections"]],
    )
    return Document(
        str(parts[1], "utf-8", "surrogatepass"),
        paragraphs,
        about["plain"],
        about["offsets"],
        about["note"],
        array("f", parts[7]),
    )


def _pack_page(image: PageImage) -> bytes:
    about = {
        "page": image.page,
        "width": image.width,
        "height": image.height,
        "areas": [(area.left, area.top, area.right, area.bottom) for area in image.areas],
    }
    return _join([json.dumps(about).encode(), image.png])


def _unpack_page(parts: list[bytes]) -> PageImage:
    about = json.loads(parts[0])
    areas = [Area(*numbers) for numbers in about["areas"]]
    return PageImage(about["page"], about["width"], about["height"], parts[1], areas)


def _join(parts: list[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _parts(reply: bytes) -> list[bytes]:
    parts = []
    at = 0
    while at < len(reply):
        (length,) = _LENGTH.unpack_from(reply, at)
        at += _LENGTH.size
        parts.append(reply[at : at + length])
        at += length
    return parts
