"""A real server on a free port of this machine, around a real reader."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from rmreader.documents.shelf import Shelf
from rmreader.reading.decision import Decision
from rmreader.reading.engine.engines import EncoderInput, Engine, Logits, Rounds
from rmreader.reading.reader import Reader
from rmreader.reading.spans import log_sum
from rmreader.server.application import create_app
from rmreader.server.batcher import Batcher
from rmreader.server.server import KEEP_ALIVE, HttpServer, listen
from rmreader.server.settings import Settings

PASSAGE = (
    "The Marwick canal was dug between 1791 and 1799 by some three thousand men. It joins the river Tamble to the "
    "port of Eskhaven, forty miles away. Its engineer, Josiah Penn, had never built a canal before."
)
QUESTIONS = ["Who was the engineer?", "When was the canal dug?", "How long is it?", "Which river does the canal join?"]


@dataclasses.dataclass
class Running:
    """A server that runs in a thread of this process."""

    url: str
    batcher: Batcher
    client: httpx.Client
    stop: Callable[[], None]
    connections: Callable[[], int]
    app: Any
    limits: Any

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return self.client.post(path, json=body, **options)


class Held:
    """A reader that reads only while its gate is open, so that tests decide what waits and for how long."""

    def __init__(self, reader: Any) -> None:
        self.reader, self.gate, self.began, self.batches = reader, threading.Event(), threading.Event(), []

    def ask_many(self, pairs: Any, **options: Any) -> Iterator[Any]:
        pairs = list(pairs)
        self.began.set()
        assert self.gate.wait(60)
        self.batches.append(len(pairs))
        return self.reader.ask_many(pairs, **options)

    def explain(self, question: str, passage: str) -> Any:
        assert self.gate.wait(60)
        return self.reader.explain(question, passage)


class Doubting:
    """A real engine, with a network's logit of there being no answer made up from what the passage does not mention.

    So it is the same doubt whichever reader ships: 94 % where the question has a capitalised word of its own.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def read(self, pair: EncoderInput) -> Logits:
        return self.doubt(pair, self.engine.read(pair))

    def read_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Logits]:
        for pair in pairs:
            yield self.read(pair)

    def attend(self, pair: EncoderInput) -> Rounds:
        return self.engine.attend(pair)

    def doubt(self, pair: EncoderInput, scores: Logits) -> Logits:
        strange = any(word[0].isupper() and word not in pair.context for word in pair.question_words[1:])
        odds = np.log(0.94 / 0.06) * (1 if strange else -1)
        none = log_sum(scores.start) + log_sum(scores.end) + odds
        return dataclasses.replace(scores, none=np.array([none], np.float64))


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], bool]], None]:
    """Wait for something that is about to be true."""

    def wait(true: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not true():
            assert time.monotonic() < end
            time.sleep(0.003)

    return wait


@contextlib.contextmanager
def running(reader: Any, settings: Settings, keep_alive: int = KEEP_ALIVE, shelf: Any = None) -> Iterator[Running]:
    settings = dataclasses.replace(settings, port=0)
    listener = listen(settings)
    app = create_app(reader, settings, "small", shelf)
    server = HttpServer(app, settings, keep_alive)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)

    def stop() -> None:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()

    with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        connections = lambda: len(server.server_state.connections)  # noqa: E731
        yield Running(url, app.state.batcher, client, stop, connections, app, server.limits)
    stop()


@pytest.fixture(scope="session")
def passage() -> str:
    return PASSAGE


@pytest.fixture(scope="session")
def questions() -> list[str]:
    return QUESTIONS


@pytest.fixture(scope="session")
def server(reader: Any) -> Iterator[Running]:
    """One server with the settings it has by default."""
    with running(reader, Settings()) as one:
        yield one


@pytest.fixture
def start(reader: Any) -> Iterator[Callable[..., Running]]:
    """Start a server with settings of the test's own, around the real reader or one built on it."""
    with contextlib.ExitStack() as stack:

        def make(around: Any = None, keep_alive: int = KEEP_ALIVE, shelf: Any = None, **settings: Any) -> Running:
            return stack.enter_context(running(around or reader, Settings(**settings), keep_alive, shelf))

        yield make


@pytest.fixture
def held(reader: Any) -> Iterator[Held]:
    one = Held(reader)
    yield one
    one.gate.set()


@pytest.fixture(scope="session")
def reader_name() -> str:
    """The shipped reader."""
    return "small"


@pytest.fixture(scope="session")
def reader(reader_name: str) -> Reader:
    return Reader.load(reader_name)


@pytest.fixture(scope="session")
def doubting(reader: Reader) -> Reader:
    """One that can tell that a passage does not say, and decides it at even odds."""
    one = Reader(reader.folder, Doubting(reader.engine))
    one.decision = Decision()
    return one


DOCUMENTS = {
    "harbour/lights.md": "# Lights\n\n## Gull Rock\n\nThe lighthouse on Gull Rock was finished in 1874. Its builder "
    "was Margaret Inglis, who chose granite from the quarry at Penmorra.\n\n## Sand Point\n\nThe lighthouse at Sand "
    "Point was built by her pupil, Owen Tarrant, in 1891, of brick and iron.\n",
    "harbour/towers.html": "<html><body><h1>Towers</h1><p>The wooden lighthouse at Keld, a tower on stilts, was built "
    "by Ruth Amory &amp; Sons in 1850. It burned down within a decade.</p></body></html>",
    "canal.txt": PASSAGE + "\n\n" + "Barges of coal went down it for a century, and pleasure boats since then. " * 20,
    "rain.txt": "It rained in Tarn all day, and the weir at Tarrow overflowed.",
}


@pytest.fixture(scope="session")
def shelf(reader: Reader, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """A few documents of different kinds, and an index of them."""
    folder = tmp_path_factory.mktemp("documents")
    for name, text in DOCUMENTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    one = Shelf.open(tmp_path_factory.mktemp("index") / "harbour.rmindex", reader)
    one.add(folder, workers=1)
    return one


@pytest.fixture
def visit(chromium: Any, server: Any) -> Iterator[Callable[..., Any]]:
    """Open the page; at the end of the test it must have fetched nothing from elsewhere and thrown nothing."""
    problems: list[str] = []
    with contextlib.ExitStack() as stack:

        def one(url: str = "", **options: Any) -> Any:
            context = chromium.new_context(
                **{"viewport": {"width": 1180, "height": 900}, "reduced_motion": "reduce", **options}
            )
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(20_000)
            url = url or server.url
            home = url.partition("#")[0]  # which is all that a browser may send
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("request", lambda request: request.url.startswith(home) or problems.append(request.url))
            page.on("console", lambda line: "Content Security" in line.text and problems.append(line.text))
            page.goto(url)
            page.wait_for_selector("#samples button", state="attached")
            return page

        yield one
    assert problems == []
