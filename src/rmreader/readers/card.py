"""A reader's card: what it is and how good, for people, from its recipe and manifest."""

from collections.abc import Iterator, Mapping
from typing import Any

from rmreader.core.recipe import Inputs, NetworkConfig, Recipe
from rmreader.readers.head import head

HELD_OUT = "held-out articles"
"""How the scores on the data that a reader's confidences were fitted on are called."""

DOUBT_TITLE = "Of the answers called by each word of doubt"
"""How the part of a card on doubt begins."""

_BITS = {"float32": "32", "float16": "16", "int8": "8"}

_WEAKNESSES = """\
What it is not good at: passages that contradict themselves on purpose, numbers that must be computed,
languages that it was not trained on. {settings}, `reader.json` the checksum of every
file but this one.

    rmreader ask --model FOLDER --passage passage.txt "question\""""  # noqa: E501 - lines of the card


def card(name: str, recipe: Recipe, about: Mapping[str, Any], count: int) -> str:
    """Return the card of a reader of ``count`` weights, with the head that the hub reads."""
    return head(name, recipe, about) + "\n".join([*_lines(name, recipe, about, count), ""])


def _lines(name: str, recipe: Recipe, about: Mapping[str, Any], count: int) -> Iterator[str]:
    yield f"# {name}\n"
    yield f"{_title(recipe)}\n"
    if about.get("summary"):
        yield f"{about['summary']}\n"
    able = "It always points somewhere;"
    if recipe.network.no_answer:
        able = "It can say that the passage holds none;"
    yield f"- **Reads** a question and a passage and points at the answer in the passage. {able}"
    yield "  its confidence says how sure it is."
    yield f"- **Inputs**: {', '.join(_inputs(recipe.inputs))}."
    bits = _BITS.get(str(about.get("weights")), "32")
    products = ", read with 8-bit products" if about.get("precision") == "int8" else ""
    yield f"- **Network**: {_network(recipe.network)}; {count:,} weights in {bits} bits{products}."
    if about.get("learned_from"):
        yield f"- **Learned from**: {about['learned_from']}"
    yield f"- **Temperature** of the confidence: {float(about.get('temperature', 1.0)):.3f}."
    yield from _origin(about)
    yield ""
    yield from _scores(about.get("scores"))
    if about.get("doubt"):
        yield from doubt_lines(about["doubt"])
        yield ""
    yield _WEAKNESSES.format(settings=_settings_in(about))


def _settings_in(about: Mapping[str, Any]) -> str:
    """Say whose settings the recipe has."""
    members = about.get("provenance", {}).get("average_of", [])
    if members:
        mean = f"one of the {len(members)} readers whose mean this is"
        return f"`recipe.yaml` has the settings of {mean}"
    return "`recipe.yaml` has every setting of its last run"


def _title(recipe: Recipe) -> str:
    """Say what it is: a reader by maximum likelihood alone is not a reinforced one."""
    title = "Reinforced Mnemonic Reader (Hu et al., IJCAI 2018), trained with rmreader"
    if recipe.training.objective == "ml":
        return f"The network of the {title} by maximum likelihood: this reader was not reinforced."
    return f"A {title}."


def _origin(about: Mapping[str, Any]) -> Iterator[str]:
    """Say where the weights come from, and how exactly they are read."""
    for key, value in about.get("provenance", {}).items():
        if key == "average_of":
            members = ", ".join(str(member["reader"]) for member in value)
            yield f"- weights: the mean of {len(value)} readers: {members}"
        else:
            yield f"- {key}: {value}"
    engines = about.get("engines")
    if engines:
        yield (
            f"- With and without torch its log-probabilities differ by at most "
            f"{engines['difference']:.0e} ({engines['questions']} questions compared, in float)."
        )
    shrunk = about.get("shrunk")
    if shrunk:
        yield (
            f"- Fewer bits changed F1 from {shrunk['before']:.2f} to {shrunk['after']:.2f} "
            f"on {shrunk['data']}, {shrunk['questions']:,} questions."
        )


def _scores(scores: Mapping[str, Any] | None) -> Iterator[str]:
    if not scores:
        yield "Its scores are not measured.\n"
        return
    yield "| data | EM | F1 | questions |\n|---|---|---|---|"
    for data, score in scores.items():
        exact = score["exact_match"]
        how = ""
        if data == HELD_OUT:
            how = " (its temperature and decision were fitted on them)"
        elif "no_answer" in score:
            how = " (with the decision on)"
        yield f"| {data}{how} | {exact:.2f} | {score['f1']:.2f} | {score['total']:,} |"
    yield (
        "\nMeasured with `rmreader evaluate`, by these files where the manifest says so, "
        "else in training.\n"
    )
    for data, score in scores.items():
        if "decided" in score:
            decided = score["decided"]
            yield (
                f"**As a user gets it**, with the decision on: {decided['exact_match']:.2f} / "
                f"{decided['f1']:.2f} on {data}, where it answers {decided['answered']:.1f} % of "
                "the questions. The table has the decision off there, as the paper does.\n"
            )


def doubt_lines(counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Iterator[str]:
    """Say how often each word of doubt is right, by data and word."""
    yield f"{DOUBT_TITLE}, so many are right or overlap with a right one:\n"
    yield "| data | sure | likely | perhaps |\n|---|---|---|---|"
    for data, words in counts.items():
        cells = [_share(words[word]) for word in ("sure", "likely", "perhaps")]
        yield f"| {data} | {' | '.join(cells)} |"


def _share(counted: Mapping[str, int]) -> str:
    if not counted["answers"]:
        return "none"
    return f"{counted['right'] / counted['answers']:.1%} of {counted['answers']:,}"


def _inputs(inputs: Inputs) -> Iterator[str]:
    if inputs.contextual:
        pairing = "each text alone"
        if inputs.contextual_pairing == "together":
            pairing = "question and passage as one pair"
        # By its last name: where the encoder was on somebody's machine is nobody's business.
        encoder = inputs.contextual.rstrip("/").split("/")[-1]
        yield f"the encoder {encoder}, {inputs.contextual_mode}, on {pairing}"
    if inputs.vectors:
        yield f"the word vectors {inputs.vectors.split('/')[-1]}"
    if inputs.characters:
        yield f"a character BiLSTM of size {inputs.character_size}"
    if inputs.exact_match:
        yield "exact match"
    if inputs.tags:
        yield f"the tags of {inputs.tags.rstrip('/').split('/')[-1]}"


def _network(config: NetworkConfig) -> str:
    with_or_without = "with" if config.reattention else "without"
    return (
        f"hidden size {config.hidden}, {config.blocks} aligning blocks {with_or_without} "
        f"reattention, {config.fusion} fusion"
    )
