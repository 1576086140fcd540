"""The page in a real Chromium: open it, ask, read what it shows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np


def ask(page: Any, question: str, passage: str) -> None:
    if page.is_visible("#edit"):
        page.click("#edit")
    page.fill("#passage", passage)
    page.fill("#question", question)
    page.press("#question", "Enter")


def drop(page: Any, name: str, content: bytes) -> None:
    page.evaluate("""([name, bytes]) => {
        const data = new DataTransfer(), target = document.getElementById('question');
        data.items.add(new File([Uint8Array.from(bytes)], name));
        for (const kind of ['dragover', 'drop'])
            target.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true})); }""",
        [name, list(content)])  # fmt: skip


def look_inside(page: Any) -> None:
    page.click("#why-button")
    page.wait_for_selector("#why:visible")
    if page.get_attribute("#numbers", "open") is None:
        page.click("#numbers > summary")
    page.wait_for_selector("#map:visible")


def told(answers: Any, answer: Any) -> str:
    """An answer as the page tells it: with its word of doubt, and its figure."""
    word = answers.doubt(answer)
    if word == "perhaps":
        return f"Perhaps: {answer.text} {percent(answer.confidence)}"
    return f"{answer.text} {word}, {percent(answer.confidence)}"


def percent(share: float) -> str:
    return "< 1 %" if share < 0.01 else f"{int(share * 100 + 0.5)} %"


def luminance(colour: str) -> float:
    channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(page: Any, selector: str) -> float:
    """Of the first such text with what is behind it, as WCAG counts it."""
    behind = page.evaluate("""selector => { let one = document.querySelector(selector);
        while (getComputedStyle(one).backgroundColor === 'rgba(0, 0, 0, 0)') one = one.parentElement;
        return getComputedStyle(one).backgroundColor; }""", selector)  # fmt: skip
    front = page.evaluate("selector => getComputedStyle(document.querySelector(selector)).color", selector)
    low, high = sorted((luminance(front), luminance(behind)))
    return (high + 0.05) / (low + 0.05)
