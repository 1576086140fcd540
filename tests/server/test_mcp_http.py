"""/mcp: the same protocol as over a pipe, one message per request, no session."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from rmreader.server.mcp import CAPABILITIES_KEY, VERSION_KEY

ASKED = "Who built the lighthouse?"
META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}


@pytest.fixture
def server(start: Any, shelf: Any) -> Any:
    return start(shelf=shelf)


def post(server: Any, method: str, headers: dict[str, str] | None = None, **params: Any) -> Any:
    """Send a stateless request, with the headers it needs unless others are given."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
    needed = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    if "name" in params:
        needed["mcp-name"] = params["name"]
    return server.post("/mcp", message, headers=needed if headers is None else headers)


def test_a_stateless_session(server: Any, passage: str) -> None:
    found = post(server, "server/discover").json()["result"]
    assert "2026-07-28" in found["supportedVersions"]
    tools = post(server, "tools/list").json()["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["ask_passage", "ask_index", "search", "documents"]
    assert all("outputSchema" in tool for tool in tools)
    arguments = {"question": "Who was the engineer?", "passage": passage}
    result = post(server, "tools/call", name="ask_passage", arguments=arguments).json()["result"]
    assert result["resultType"] == "complete"
    assert result["structuredContent"]["answers"][0]["text"] == "Josiah Penn"
    assert result["content"][0]["text"].startswith("Josiah Penn (")
    asked = {"question": ASKED, "always": True, "top": 2}
    result = post(server, "tools/call", name="ask_index", arguments=asked).json()["result"]
    cited = result["structuredContent"]["answers"]
    assert {answer["file"] for answer in cited} <= {"harbour/lights.md", "harbour/towers.html"}
    assert "root" not in json.dumps(cited)  # where it is on the disk is nobody's business


def test_what_is_given_has_the_published_shape(server: Any, shelf: Any, passage: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    tools = {tool["name"]: tool for tool in post(server, "tools/list").json()["result"]["tools"]}
    calls = [
        ("ask_passage", {"question": "Who was the engineer?", "passage": passage, "top": 3}),
        ("ask_passage", {"question": "When did Napoleon see Paris?", "passage": passage}),
        ("ask_index", {"question": ASKED, "always": True, "top": 3}),
        ("ask_index", {"question": "Which colour has the submarine of Ada?"}),
        ("ask_index", {"question": "Xylophones?"}),
        ("search", {"question": ASKED}),
        ("search", {"question": "Xylophones?", "top": 1}),
        ("documents", {}),
        ("documents", {"top": 1}),
    ]
    for name, arguments in calls:
        jsonschema.validate(arguments, tools[name]["inputSchema"])
        result = post(server, "tools/call", name=name, arguments=arguments).json()["result"]
        jsonschema.validate(result["structuredContent"], tools[name]["outputSchema"])


def test_a_client_of_the_handshake_era_is_answered_too(server: Any, passage: str) -> None:
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test"}}
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    first = server.post("/mcp", message)
    assert first.json()["result"]["protocolVersion"] == "2025-06-18"
    assert "mcp-session-id" not in first.headers
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (server.post("/mcp", notice).status_code, server.post("/mcp", notice).content) == (202, b"")
    message = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert server.post("/mcp", message).json() == {"jsonrpc": "2.0", "id": 2, "result": {}}
    assert server.client.get("/mcp").status_code == 405  # there is no stream to listen to


@pytest.mark.parametrize(
    ("method", "headers", "status", "code"),
    [
        ("tools/list", {}, 400, -32020),
        ("tools/list", {"mcp-protocol-version": "2026-07-28"}, 400, -32020),
        ("tools/list", {"mcp-protocol-version": "2025-06-18", "mcp-method": "tools/list"}, 400, -32020),
        ("tools/list", {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}, 400, -32020),
        ("resources/list", None, 404, -32601),
        ("ping", None, 404, -32601),
    ],
)  # fmt: skip
def test_a_request_that_differs_from_its_headers_is_refused(
    server: Any, method: str, headers: dict[str, str] | None, status: int, code: int
) -> None:
    response = post(server, method, headers)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_wrong_messages_have_their_codes(server: Any) -> None:
    def error(content: bytes, **headers: str) -> tuple[int, int]:
        kind = {"content-type": "application/json", **headers}
        response = server.client.post("/mcp", content=content, headers=kind)
        return response.status_code, response.json()["error"]["code"]

    assert error(b"{") == (400, -32700)
    assert error(b"[" * 100_000) == (400, -32700)
    assert error(b"[]") == (400, -32600)
    assert error(b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}') == (400, -32600)
    bare = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    assert error(bare, **{"mcp-protocol-version": "2026-07-28"}) == (400, -32602)
    call = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "delete"}}'
    assert error(call) == (400, -32602)
    assert server.client.post("/mcp", content=bare).status_code == 422  # not called JSON


def test_the_limits_of_the_server_hold(start: Any, passage: str) -> None:
    server = start(max_passage=100, api_key="s3cret")
    assert post(server, "tools/list").status_code == 401
    server.client.headers["x-api-key"] = "s3cret"
    arguments = {"question": "Who was the engineer?", "passage": passage}
    result = post(server, "tools/call", name="ask_passage", arguments=arguments).json()["result"]
    assert result["isError"] is True
    assert "the most is 100" in result["content"][0]["text"]
    wrong = post(server, "tools/call", name="ask_passage", arguments={}).json()["result"]
    assert wrong["content"][0]["text"] == "the argument 'question', a text, is missing."
    unknown = post(server, "tools/call", name="ask_index", arguments={"question": "Who?"})
    assert unknown.json()["error"]["code"] == -32602  # this server has no index


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_asks(server: Any, mode: str) -> None:
    sdk: Any = pytest.importorskip("mcp", reason="the MCP SDK is not installed; `.ci/plugs` has it")

    async def talk() -> None:
        async with sdk.Client(f"{server.url}/mcp", mode=mode) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["ask_passage", "ask_index", "search", "documents"]
            asked = {"question": ASKED, "always": True}
            result = await client.call_tool("ask_index", asked)
            assert result.structured_content["answers"][0]["file"].startswith("harbour/")
            wrong = await client.call_tool("ask_passage", {"question": "Who?"})
            assert wrong.is_error

    asyncio.run(talk())
