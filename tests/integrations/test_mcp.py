"""The MCP server: a written JSON-RPC session, what it must survive, and the official client where it is installed."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes import started

from rmreader.integrations import mcp as server
from rmreader.server import mcp as protocol

ROOT = Path(__file__).resolve().parents[2]
PASSAGE = "The letter was written by Ada Lovelace in 1843, and sent to Turin."
VERSION, CAPABILITIES = protocol.VERSION_KEY, protocol.CAPABILITIES_KEY
META = {"_meta": {VERSION: "2026-07-28", CAPABILITIES: {}}}
KEYS = st.sampled_from(
    ["jsonrpc", "id", "method", "params", "name", "arguments", "question", "passage", "top", "_meta"]
)
START = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def request(id: Any, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def call(id: Any, name: str = "ask_passage", **arguments: Any) -> str:
    return request(id, "tools/call", name=name, arguments=arguments)


def ask(id: Any, question: str = "Who wrote the letter?", **more: Any) -> str:
    return call(id, question=question, **({"passage": PASSAGE} | more))


def session(*lines: str | bytes, options: tuple[str, ...] = ()) -> dict[Any, dict[str, Any]]:
    """Every answer of one run of the command, by its id; those without an id in a list under None."""
    content = b"".join(line if isinstance(line, bytes) else line.encode() + b"\n" for line in lines)
    done = subprocess.run(
        [sys.executable, "-m", "rmreader", "mcp", *options],
        input=content,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    found: dict[Any, Any] = {None: []}
    for line in done.stdout.splitlines():
        tree = json.loads(line)
        assert tree.pop("jsonrpc") == "2.0"
        id = tree.pop("id")
        if id is None:
            found[None].append(tree["error"])
        else:
            assert id not in found, "answered twice"
            found[id] = tree
    return found


def test_a_written_session_with_the_handshake() -> None:
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    found = session(
        request(0, "initialize", **about),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        request(1, "ping"),
        request("two", "tools/list"),
        ask(3, top=2),
        ask(4, "Who paid for the stamp collection of the museum?"),
        ask(5, "Who paid for the stamp collection of the museum?", always=True),
        request(6, "resources/list"),
    )
    start = found[0]["result"]
    assert (start["protocolVersion"], start["capabilities"]) == ("2025-06-18", {"tools": {}})
    assert start["serverInfo"]["name"] == "rmreader"
    assert found[1] == {"result": {}}
    (tool,) = found["two"]["result"]["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("ask_passage", ["question", "passage"])
    result = found[3]["result"]
    best, *_ = result["structuredContent"]["answers"]
    assert (best["text"], PASSAGE[best["start"] : best["end"]]) == ("Ada Lovelace", "Ada Lovelace")
    assert result["isError"] is False
    assert result["content"][0]["text"].startswith("Ada Lovelace (")
    assert "resultType" not in result
    silent = found[4]["result"]["structuredContent"]
    assert silent["answers"] == []
    assert silent["no_answer"] > 0.5
    assert silent["guess"]["text"] in PASSAGE
    assert found[4]["result"]["content"][0]["text"].startswith("not in this passage")
    assert len(found[5]["result"]["structuredContent"]["answers"]) == 1
    assert found[6]["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("asked", "given"),
    [("2024-11-05", "2024-11-05"), ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25"), (7, "2025-11-25")],
)
def test_a_version_is_agreed_on(asked: Any, given: str) -> None:
    assert protocol.agreed_version({"protocolVersion": asked}) == given


def test_a_written_session_without_a_handshake() -> None:
    old = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2030-01-01"}}
    found = session(
        request(1, "server/discover", **META),
        request(2, "tools/list", **META),
        request(3, "tools/call", name="ask_passage", arguments={"question": "Who?", "passage": PASSAGE}, **META),
        request(4, "tools/list", **old),
        request(5, "ping", **META),
        request(6, "initialize", **META),
        request(7, "tools/list", _meta={VERSION: "2026-07-28"}),
        request(8, "tools/list", _meta={VERSION: "2026-07-28", CAPABILITIES: None}),
    )
    assert [found[id]["error"]["code"] for id in (5, 6)] == [-32601] * 2  # no longer methods
    assert [found[id]["error"]["code"] for id in (7, 8)] == [-32602] * 2  # without capabilities
    assert "2026-07-28" in found[1]["result"]["supportedVersions"]
    for id in (1, 2, 3):
        assert found[id]["result"]["resultType"] == "complete"
    assert found[2]["result"]["ttlMs"] > 0
    error = found[4]["error"]
    assert (error["code"], error["data"]["requested"]) == (-32022, "2030-01-01")
    assert "2026-07-28" in error["data"]["supported"]


def test_garbage_gets_one_clear_error_each_and_the_server_goes_on() -> None:
    deep = "[" * 100_000
    large = b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * (server.LONGEST_LINE + 10) + b'"}\n'
    lines: list[str | bytes] = ["{", b"\xff\xfe\xfd\n", deep, large, "[]", "7", '"text"', "null", "", "   "]
    lines += ['{"jsonrpc": "1.0", "id": "a", "method": "ping"}', '{"jsonrpc": "2.0", "id": "b"}']
    lines += ['{"jsonrpc": "2.0", "id": "c", "method": "ping", "params": []}']
    lines += ['{"jsonrpc": "2.0", "id": {"x": 1}, "method": "ping"}', '{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}']
    lines += ['{"jsonrpc": "2.0", "id": null, "method": "ping"}', '{"jsonrpc": "2.0", "method": "no/such/notice"}']
    lines += ['{"jsonrpc": "2.0", "id": 9, "result": {}}', ask("last"), b'{"jsonrpc": "2.0", "id": "cut", "meth']
    found = session(*lines)
    nameless = [error["code"] for error in found[None]]
    assert sorted(nameless) == sorted([-32700] * 3 + [-32600] * 5 + [-32600] * 3 + [-32700])
    assert {id: found[id]["error"]["code"] for id in "abc"} == dict.fromkeys("abc", -32600)
    assert all("Traceback" not in error["message"] and len(error["message"]) < 300 for error in found[None])
    assert found["last"]["result"]["structuredContent"]["answers"][0]["text"] == "Ada Lovelace"
    assert set(found) == {None, "last", *"abc"}


def test_a_wrong_call_is_told_to_the_model_and_a_wrong_tool_is_an_error() -> None:
    found = session(
        call(1, question="Who?"),
        call(2, passage=PASSAGE),
        ask(3, " "),
        ask(4, passage=""),
        ask(5, top=0),
        ask(6, top="two"),
        ask(7, always="yes"),
        ask(8, question=["Who?"]),
        request(9, "tools/call", name="ask_passage", arguments="Who?"),
        request(10, "tools/call", name="ask_passage"),
        ask(11, "word " * 20_000),
        call(12, "delete_everything"),
        request(13, "tools/call"),
        request(16, "tools/call", name=["ask_passage"]),
        call(14, "ask_index", question="Who?"),  # no index was given
        ask(15, passage="\ud800 \x00 \x1b[31m Ada wrote it."),
    )
    for id in range(1, 12):
        assert found[id]["result"]["isError"] is True, id
        assert "structuredContent" not in found[id]["result"]
    assert found[1]["result"]["content"][0]["text"] == "the argument 'passage', a text, is missing."
    for id in (12, 13, 14, 16):
        assert found[id]["error"]["code"] == -32602
    assert found[15]["result"]["isError"] is False


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["2.0", "ask_passage", "Ada."]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | KEYS, inner, max_size=4),
    max_leaves=8,
)


class Quick:
    def ask_in_parts(self, *_: Any, **__: Any) -> Any:
        yield server.Answers()


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.dictionaries(KEYS, VALUES) | VALUES | st.builds(lambda p: {**START, "params": p}, VALUES), max_size=4)
)
def test_no_message_ends_the_server(messages: list[Any]) -> None:
    lines = "".join(json.dumps(message) + "\n" for message in [*messages, {**START, "method": "ping", "id": "last"}])
    sink = io.BytesIO()
    server.Server(Quick(), None, io.BytesIO(lines.encode()), sink).run()  # type: ignore[arg-type]
    answers = [json.loads(line) for line in sink.getvalue().splitlines()]
    assert {"jsonrpc": "2.0", "id": "last", "result": {}} in answers
    assert all(("result" in answer) != ("error" in answer) for answer in answers)
    assert all(answer.get("error", {}).get("code") != -32603 for answer in answers)


class Held:
    """A reader whose second part comes only when it may."""

    def __init__(self) -> None:
        self.begun, self.go, self.parts = threading.Event(), threading.Event(), 0

    def ask_in_parts(self, *_: Any, **__: Any) -> Any:
        for _ in range(3):
            self.parts += 1
            self.begun.set()
            assert self.go.wait(60)
            yield None
        yield server.Answers()


def test_a_cancelled_call_is_left_without_an_answer_and_pings_are_answered_meanwhile() -> None:
    inner, outer = os.pipe(), os.pipe()
    held = Held()
    source, sink = os.fdopen(inner[0], "rb"), os.fdopen(outer[1], "wb")
    ours, theirs = os.fdopen(inner[1], "wb"), os.fdopen(outer[0], "rb")
    running = threading.Thread(target=server.Server(held, None, source, sink).run, daemon=True)  # type: ignore[arg-type]
    running.start()

    def say(*lines: str) -> None:
        ours.write("".join(line + "\n" for line in lines).encode())
        ours.flush()

    def cancel(id: Any) -> str:
        return json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

    with source, sink, ours, theirs:
        say(ask(1), ask(2), ask(3))
        assert held.begun.wait(60)
        say(ask(1), cancel(1), cancel(2), cancel("unknown"), cancel([]), request(4, "ping"))
        assert json.loads(theirs.readline())["error"]["code"] == -32600  # an id that is in use
        assert json.loads(theirs.readline()) == {"jsonrpc": "2.0", "id": 4, "result": {}}
        held.go.set()
        assert json.loads(theirs.readline())["id"] == 3
        assert held.parts == 1 + 3  # the first was left after its first part, the second never begun
        ours.close()
        running.join(60)
        assert not running.is_alive()


def test_too_many_calls_are_refused() -> None:
    held = Held()
    many = server.MAX_WAITING + 5
    read, write = os.pipe()
    found: list[dict[str, Any]] = []

    class Sink:
        def write(self, line: bytes) -> None:
            found.append(json.loads(line))

        def flush(self) -> None:
            if len(found) == 5:
                held.go.set()

    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb") as ours:
        ours.write("".join(ask(id) + "\n" for id in range(many)).encode())
        ours.close()
        server.Server(held, None, source, Sink()).run()  # type: ignore[arg-type]
    refused = [tree["id"] for tree in found if "error" in tree]
    assert refused == list(range(many - 5, many))
    assert sorted(tree["id"] for tree in found) == list(range(many))


def test_a_client_that_leaves_is_no_crash() -> None:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with started([sys.executable, "-m", "rmreader", "mcp"], env=ENVIRONMENT, **pipes) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write((ask(1) + "\n").encode())
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.fixture
def index(tmp_path: Path) -> str:
    shelf = pytest.importorskip("rmreader.documents.shelf", reason="there is no shelf here")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "letter.txt").write_text(f"Notes.\n\n{PASSAGE}\n", encoding="utf-8")
    (tmp_path / "docs" / "bridge.md").write_text("# Bridge\n\nThe bridge is 120 metres long.\n", encoding="utf-8")
    shelf.Shelf.open(tmp_path / "docs.rmindex").add(tmp_path / "docs")
    return str(tmp_path / "docs.rmindex")


TOOLS = ["ask_passage", "ask_index", "search", "documents"]


def test_an_index_is_searched_and_listed(index: str) -> None:
    found = session(
        call(1, "search", question="Who wrote the letter?", top=1),
        call(2, "search", question="Who wrote the letter?"),
        call(3, "search", question="Who wrote the letter?", top=51),
        call(4, "search"),
        call(5, "documents"),
        call(6, "documents", top=1),
        call(7, "documents", top=0),
        options=("--index", index),
    )
    (passage,) = found[1]["result"]["structuredContent"]["passages"]
    assert passage["document"] == "letter.txt"
    assert "Ada Lovelace" in passage["text"]
    assert "root" not in passage
    assert passage["text"] in found[1]["result"]["content"][0]["text"]
    assert len(found[2]["result"]["structuredContent"]["passages"]) > 1
    for id in (3, 4, 7):
        assert found[id]["result"]["isError"] is True, id
    listed = found[5]["result"]["structuredContent"]
    files = [document["file"] for document in listed["documents"]]
    assert files == sorted(files)
    assert {"letter.txt", "bridge.md"} <= set(files)
    assert listed["total"] == len(files)
    assert found[5]["result"]["content"][0]["text"] == "\n".join(files)
    assert len(found[6]["result"]["structuredContent"]["documents"]) == 1
    assert found[6]["result"]["content"][0]["text"].endswith(f"and {len(files) - 1} more")


def test_an_index_is_asked(index: str) -> None:
    found = session(
        request(1, "tools/list"),
        call(2, "ask_index", question="Who wrote the letter?", top=2),
        call(3, "ask_index", question="Which colour has the submarine?"),
        call(4, "ask_index"),
        ask(5),
        call(6, "ask_index", question="How long is the bridge?"),
        options=("--index", index),
    )
    assert [tool["name"] for tool in found[1]["result"]["tools"]] == TOOLS
    best = found[2]["result"]["structuredContent"]["answers"][0]
    assert (best["text"], best["file"]) == ("Ada Lovelace", "letter.txt")
    assert found[2]["result"]["content"][0]["text"].startswith("Ada Lovelace (")
    assert " in letter.txt): " in found[2]["result"]["content"][0]["text"]
    assert found[3]["result"]["structuredContent"]["answers"] == []
    assert found[3]["result"]["content"][0]["text"].startswith("not in these documents")
    assert found[4]["result"]["isError"] is True
    assert found[5]["result"]["structuredContent"]["answers"][0]["text"] == "Ada Lovelace"
    assert " in bridge.md, Bridge): The bridge is" in found[6]["result"]["content"][0]["text"]


def test_what_is_no_index_is_one_sentence(index: str, tmp_path: Path) -> None:
    (tmp_path / "no.rmindex").write_text("no index")
    for place in ("no.rmindex", "none.rmindex"):
        words = [sys.executable, "-m", "rmreader", "mcp", "--index", str(tmp_path / place)]
        done = subprocess.run(words, input=b"", capture_output=True, env=ENVIRONMENT, check=False)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)
        assert place.encode() in done.stderr


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_asks_an_index(index: str, mode: str) -> None:
    sdk: Any = pytest.importorskip("mcp", reason="the MCP SDK is not installed; `.ci/plugs` has it")

    async def talk() -> None:
        words = ["-m", "rmreader", "mcp", "--index", index]
        started = sdk.StdioServerParameters(command=sys.executable, args=words, env=ENVIRONMENT)
        async with sdk.Client(started, mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
            result = await client.call_tool("ask_index", {"question": "Who wrote the letter?"})
            assert result.structured_content["answers"][0]["file"] == "letter.txt"

    asyncio.run(talk())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_asks(mode: str) -> None:
    sdk: Any = pytest.importorskip("mcp", reason="the MCP SDK is not installed; `.ci/plugs` has it")
    if not hasattr(sdk, "Client"):
        pytest.skip("the MCP SDK before 2.0 has no Client")

    async def talk() -> None:
        words = ["-m", "rmreader", "mcp"]
        started = sdk.StdioServerParameters(command=sys.executable, args=words, env=ENVIRONMENT)
        async with sdk.Client(started, mode=mode) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["ask_passage"]
            result = await client.call_tool("ask_passage", {"question": "Who wrote the letter?", "passage": PASSAGE})
            assert not result.is_error
            assert result.structured_content["answers"][0]["text"] == "Ada Lovelace"
            wrong = await client.call_tool("ask_passage", {"question": "Who?"})
            assert wrong.is_error

    asyncio.run(talk())
