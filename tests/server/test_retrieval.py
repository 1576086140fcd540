"""Search, highlight and rerank for other programs, in the shapes that their clients send."""

from __future__ import annotations

from typing import Any

import pytest

from rmreader.reading.highlight import highlight

TEXTS = [
    "It rained in Tarn all day, and the weir at Tarrow overflowed.",
    "The letter was written by Ada Lovelace in 1843, and sent to Turin.",
    "Barges of coal went down the canal for a century.",
]
ASKED = "Who wrote the letter?"


def test_passages_are_those_of_the_shelf(start: Any, shelf: Any) -> None:
    body = start(shelf=shelf).post("/v1/search", {"question": "Who built the lighthouse?"}).json()
    passages = shelf.search("Who built the lighthouse?", 10)
    assert [tree["id"] for tree in body["passages"]] == [passage.id for passage in passages]
    for tree, passage in zip(body["passages"], passages, strict=True):
        assert (tree["text"], tree["document"]) == (passage.text, passage.file)
        original = passage.path.read_text(encoding="utf-8")
        words = passage.text.split()
        assert original[tree["start"] :].startswith(words[0])
        assert original[: tree["end"]].endswith(words[-1])
        assert passage.root not in str(body)
    one = start(shelf=shelf).post("/v1/search", {"question": "lighthouse", "top": 1}).json()
    assert len(one["passages"]) == 1


def test_without_an_index_there_is_nothing_to_search(server: Any) -> None:
    response = server.post("/v1/search", {"question": "Who?"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "no_index")


def test_highlights_are_those_of_the_function(server: Any, reader: Any) -> None:
    body = server.post("/v1/highlight", {"question": ASKED, "texts": TEXTS, "top": 2}).json()
    expected = highlight(ASKED, TEXTS, reader=reader, top=2)
    assert body["no_answer"] == pytest.approx(expected.no_answer, abs=1e-4)
    for tree, one in zip(body["items"], expected, strict=True):
        assert tree["index"] == one.index
        assert tree["relevance"] == pytest.approx(one.relevance, abs=1e-4)
        spans = [(answer["start"], answer["end"]) for answer in tree["answers"]]
        assert spans == [(answer.start, answer.end) for answer in one.answers]
    assert body["items"][1]["answers"][0]["text"] == "Ada Lovelace"


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
def test_what_coheres_clients_send(server: Any, path: str) -> None:
    ask = {"model": "rerank-v3.5", "query": ASKED, "documents": TEXTS, "top_n": 2}
    body = server.post(path, ask).json()
    assert body["results"][0]["index"] == 1
    assert len(body["results"]) == 2
    assert body["results"][0]["relevance_score"] > body["results"][1]["relevance_score"]
    objects = [{"text": text, "source": "x"} for text in TEXTS]
    body = server.post(path, {**ask, "documents": objects, "return_documents": True}).json()
    assert body["results"][0]["document"] == {"text": TEXTS[1]}


def test_what_clients_of_text_embeddings_inference_send(server: Any) -> None:
    ask = {"query": ASKED, "texts": TEXTS, "raw_scores": False, "truncate": True}
    body = server.post("/rerank", ask).json()
    assert sorted(result["index"] for result in body) == [0, 1, 2]
    assert body[0]["index"] == 1
    assert [result["score"] for result in body] == sorted((r["score"] for r in body), reverse=True)
    assert "text" not in body[0]
    assert server.post("/rerank", {**ask, "return_text": True}).json()[0]["text"] == TEXTS[1]


def test_limits_and_the_key_hold(start: Any) -> None:
    server = start(max_items=2, max_passage=100, api_key="s3cret")
    for path in ("/v1/highlight", "/v1/rerank", "/v2/rerank", "/rerank"):
        assert server.post(path, {"query": "Who?", "texts": TEXTS}).status_code == 401
    server.client.headers["x-api-key"] = "s3cret"
    for path, ask in (
        ("/v1/highlight", {"question": "Who?", "texts": TEXTS}),
        ("/v1/rerank", {"query": "Who?", "documents": TEXTS}),
        ("/rerank", {"query": "Who?", "texts": TEXTS}),
    ):
        many = server.post(path, ask)
        assert many.status_code == 413
        assert "the most is 2" in many.json()["error"]["message"]
    long = server.post("/rerank", {"query": "Who?", "texts": ["Ada.", "p" * 101]})
    assert long.json()["error"]["message"].startswith("text 1: The passage has 101 characters")
    for wrong in ({"query": "Who?"}, {"query": "Who?", "texts": []}, {"documents": ["x"]}):
        assert server.post("/rerank", wrong).status_code == 422


@pytest.mark.parametrize("client", ["Client", "ClientV2"])
def test_coheres_own_client_asks(server: Any, client: str) -> None:
    cohere: Any = pytest.importorskip("cohere", reason="Cohere's client is not installed")
    with getattr(cohere, client)("a key", base_url=server.url) as asking:
        response = asking.rerank(model="small", query=ASKED, documents=TEXTS, top_n=2)
    assert response.results[0].index == 1
    assert len(response.results) == 2
    assert 0 <= response.results[0].relevance_score <= 1
