"""Pictures of the page as people see it. With RMREADER_SCREENSHOTS set they are those of the README and the guide."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.documents import pdf, xlsx
from support.page import ask, look_inside

from rmreader.reading.reader import Reader
from rmreader.server.folders import open_documents

pytestmark = pytest.mark.browser
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1180, "height": 860}}
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
PHONE["device_scale_factor"] = 2
BUILDERS = [("Ann Lee", "Tarn"), ("Bob Ray", "Keld"), ("Carl May", "Dorn")]
MAINTENANCE = [
    "Maintenance",
    "",
    "The pump C-310 was built by Ada Fenwick, an engineer of Leeds, in 1874.",
    "It must be oiled every second month, and its valves are replaced after four",
    "years. The spare parts are kept in Hall B; the keys are with the foreman.",
]
LONG = "The council met on Tuesdays and talked of the roof, the drains, the price of coal and the harbour dues. "


@pytest.fixture
def take(tmp_path: Path) -> Callable[..., None]:
    """Take a picture, of a few colours so that it is small, and see that there is something on it."""
    pillow = pytest.importorskip("PIL.Image", reason="Pillow, which comes with the extra `lab`, is not installed")

    def picture(page: Any, name: str, **options: Any) -> None:
        path = (IMAGES if "RMREADER_SCREENSHOTS" in os.environ else tmp_path) / f"page-{name}.png"
        page.screenshot(path=path, **options)
        with pillow.open(path) as picture:
            assert len(set(picture.convert("L").getdata())) > 60
            picture.convert("RGB").quantize(96, dither=pillow.Dither.NONE).save(path, optimize=True)
        assert path.stat().st_size < 150_000

    return picture


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_desktop(visit: Any, take: Any, scheme: str) -> None:
    page = visit(**DESKTOP, color_scheme=scheme)
    page.click("#samples button >> nth=0")
    page.wait_for_selector("mark")
    page.mouse.move(5, 5)
    if scheme == "light":
        page.click("#why-button")
        page.wait_for_selector("#plain blockquote")
        page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(400)  # for the bars to grow
    take(page, scheme, full_page=scheme == "light")


def test_numbers(visit: Any, take: Any) -> None:
    page = visit(**DESKTOP)
    page.click("#samples button >> nth=0")
    page.wait_for_selector("mark")
    look_inside(page)
    page.locator("#question-words b").nth(1).focus()
    page.wait_for_timeout(400)
    take(page.locator("#numbers"), "numbers")


def test_phone(visit: Any, take: Any) -> None:
    page = visit(**PHONE)
    page.tap("#samples button >> nth=0")
    page.wait_for_selector("mark")
    page.wait_for_timeout(400)
    take(page, "phone")


def test_doubt(visit: Any, start: Any, doubting: Any, take: Any) -> None:
    page = visit(start(doubting).url, **DESKTOP)
    page.click("#samples button >> nth=0")
    page.wait_for_selector("mark")
    page.fill("#question", "When did Napoleon see the lighthouse?")
    page.press("#question", "Enter")
    page.wait_for_selector("#best.doubt")
    page.click("#guess-button")
    page.wait_for_selector("mark.guess")
    take(page, "doubt")


def test_perhaps(visit: Any, start: Any, reader: Any, take: Any) -> None:
    undecided = Reader(reader.folder, reader.engine)
    undecided.decision = None  # so that it answers, whatever it doubts
    page = visit(start(undecided).url, **DESKTOP)
    ask(page, "Who built the bridge?", "".join(f"{name} built the bridge at {place}. " for name, place in BUILDERS))
    page.wait_for_selector("#runner-up:visible")
    page.wait_for_timeout(400)
    take(page, "perhaps")


def test_folder(visit: Any, start: Any, take: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "works"
    folder.mkdir()
    (folder / "pump.pdf").write_bytes(pdf([["Pumps of the works"], MAINTENANCE]))
    (folder / "prices.xlsx").write_bytes(xlsx([["Part", "Price"], ["Pump C-310", "31 EUR"], ["Valve V-2", "7 EUR"]]))
    (folder / "rain.txt").write_text("It rained in Tarn all day, and the weir at Tarrow overflowed.")
    page = visit(start(shelf=open_documents(str(folder))).url, **DESKTOP)
    page.fill("#question", "Who built the pump?")
    page.press("#question", "Enter")
    page.click("#places button >> nth=0")
    page.wait_for_selector("#sheet:visible")
    page.click("#documents summary")
    page.mouse.move(5, 5)
    take(page, "folder")


def test_long_text(visit: Any, take: Any) -> None:
    page = visit(**DESKTOP)
    ask(page, "Who designed the new bridge?", LONG * 60 + "The new bridge was designed by Ada Fenwick. " + LONG * 60)
    page.wait_for_selector("mark")
    assert page.locator("mark").evaluate("one => one.getBoundingClientRect().top") < 860
    take(page, "long")


def test_tour(visit: Any, take: Any) -> None:
    page = visit(**DESKTOP)
    page.click("#samples button >> nth=0")
    page.wait_for_selector("mark")
    page.click("#suggestions button >> nth=1")
    page.wait_for_selector("#best:has-text('stone')")
    page.click("#tour-button")
    page.click("#tour-next")
    page.click("#tour-next")
    take(page.locator("#tour"), "tour")


def test_shelf(visit: Any, start: Any, shelf: Any, take: Any) -> None:
    page = visit(start(shelf=shelf).url, **DESKTOP)
    page.fill("#question", "Who built the lighthouse?")
    page.press("#question", "Enter")
    page.click("#places button >> nth=0")
    page.wait_for_selector("mark")
    take(page, "shelf")
