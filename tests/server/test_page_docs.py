"""/docs in a real browser: made from the description, without anything from elsewhere."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.browser
def test_the_api_is_described_and_can_be_tried(chromium: Any, server: Any) -> None:
    problems: list[str] = []
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda sent: sent.url.startswith(server.url) or problems.append(sent.url))
        page.on("console", lambda line: line.type == "error" and problems.append(line.text))
        page.goto(f"{server.url}/docs")
        page.wait_for_selector(".operation")
        headings = page.locator(".operation h2").all_inner_texts()
        described = server.client.get("/openapi.json").json()["paths"]
        expected = [f"{method.upper()} {path}" for path in described for method in described[path]]
        assert headings == expected
        card = page.locator(".operation", has_text="POST /v1/answer").first
        assert "min_confidence" in card.inner_text()
        card.get_by_role("button", name="Try it").click()
        result = card.locator("pre")
        result.wait_for(state="visible")
        assert result.inner_text().startswith("200\n")
        assert "three thousand men" in result.inner_text()
        assert "504" in page.locator("#errors").inner_text()
    finally:
        context.close()
    assert problems == []
