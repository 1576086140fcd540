"""Which web pages may ask this server: its own, and those of origins that --cors allows."""

from __future__ import annotations

from typing import Any

import pytest

ASK = {"question": "Who?", "passage": "Ada."}
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type,x-api-key",
}


def test_an_allowed_origin_asks_with_a_preflight_that_needs_no_key(start: Any) -> None:
    server = start(cors="https://app.example.org, http://localhost:3000", api_key="s3cret")
    for origin in ("https://app.example.org", "http://localhost:3000"):
        head = {"origin": origin}
        before = server.client.options("/v1/answer", headers={**PREFLIGHT, **head})
        assert before.status_code == 200
        assert before.headers["access-control-allow-origin"] == origin
        refused = server.post("/v1/answer", ASK, headers=head)
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == origin  # the page may read why
        answered = server.post("/v1/answer", ASK, headers={**head, "x-api-key": "s3cret"})
        assert answered.status_code == 200
        assert answered.headers["access-control-allow-origin"] == origin
        assert "access-control-allow-credentials" not in answered.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://app.example.org.evil"])
def test_no_other_origin_does(start: Any, origin: str) -> None:
    server = start(cors="https://app.example.org")
    for method, more in (("OPTIONS", PREFLIGHT), ("POST", {}), ("GET", {})):
        path = "/metrics" if method == "GET" else "/v1/answer"
        response = server.client.request(method, path, headers={"origin": origin, **more})
        assert response.status_code == 403
        assert "access-control-allow-origin" not in response.headers


def test_every_origin_does_with_a_star(start: Any) -> None:
    server = start(cors="*")
    response = server.post("/v1/answer", ASK, headers={"origin": "https://any.example"})
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, "*")
    rebound = server.client.get("/livez", headers={"host": "evil.example"})
    assert rebound.status_code == 421  # a name that was pointed here is another matter


@pytest.mark.parametrize("turn", [1, -1])
def test_of_two_origins_both_must_be_allowed(server: Any, turn: int) -> None:
    ours, theirs = "http://localhost:8000", "https://evil.example"
    headers = [("host", "localhost:8000"), *[("origin", name) for name in (ours, theirs)][::turn]]
    assert server.client.post("/v1/answer", json=ASK, headers=headers).status_code == 403
    headers = [("host", "localhost:8000"), ("origin", ours), ("origin", ours)]
    assert server.client.post("/v1/answer", json=ASK, headers=headers).status_code == 200
