"""The head of a reader's card: what the Hugging Face hub finds, sorts and compares it by."""

from collections.abc import Iterator, Mapping
from typing import Any

from rmreader.core.recipe import Recipe

FENCE = "---\n"

# What the hub calls the data that readers are scored on.
_DATA = {
    "SQuAD 1.1 dev": {"type": "rajpurkar/squad", "split": "validation"},
    "SQuAD 2.0 dev": {"type": "rajpurkar/squad_v2", "split": "validation"},
    "AddSent": {
        "type": "stanfordnlp/squad_adversarial",
        "config": "AddSent",
        "split": "validation",
    },
    "AddOneSent": {
        "type": "stanfordnlp/squad_adversarial",
        "config": "AddOneSent",
        "split": "validation",
    },
}


def head(name: str, recipe: Recipe, about: Mapping[str, Any]) -> str:
    """Return a card's head in YAML, between its fences.

    ``about["hub"]`` has what only people know: ``license``, ``datasets``, ``base_model``.
    """
    import yaml

    tree: dict[str, Any] = {
        **_known(about),
        "language": "en",
        "library_name": "rmreader",
        "pipeline_tag": "question-answering",
        "tags": list(_tags(recipe)),
    }
    results = list(_results(about.get("scores") or {}))
    if results:
        tree["model-index"] = [{"name": name, "results": results}]
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100)
    return f"{FENCE}{text}{FENCE}\n"


def without_head(card: str) -> str:
    """Return a card as people read it."""
    if not card.startswith(FENCE):
        return card
    _, fence, body = card.removeprefix(FENCE).partition(f"\n{FENCE}")
    return body.lstrip("\n") if fence else card


def _known(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what people said of a reader, as far as it is of the form that the hub knows."""
    hub = about.get("hub")
    if not isinstance(hub, Mapping):
        return {}
    known: dict[str, Any] = {}
    for key in ("license", "base_model"):
        if isinstance(hub.get(key), str):
            known[key] = hub[key]
    datasets = hub.get("datasets")
    if isinstance(datasets, list) and all(isinstance(one, str) for one in datasets):
        known["datasets"] = datasets
    return known


def _tags(recipe: Recipe) -> Iterator[str]:
    yield "extractive-question-answering"
    yield "reading-comprehension"
    yield "mnemonic-reader"
    if recipe.network.no_answer:
        yield "unanswerable-questions"


def _results(scores: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one result per data set, in the form of the hub's ``model-index``."""
    for data, score in scores.items():
        # Data of one's own have no name on the hub: there, their type is their name.
        place = _DATA.get(data, {"type": "-".join(data.lower().split())})
        yield {
            "task": {"type": "question-answering", "name": "Question Answering"},
            "dataset": {"name": data, **place},
            "metrics": [
                {"type": "exact_match", "value": round(float(score["exact_match"]), 2)},
                {"type": "f1", "value": round(float(score["f1"]), 2)},
            ],
        }
