"""A reader's card: what the README.md of its folder says, all of it from its recipe and its manifest."""

from collections.abc import Iterator, Mapping
from typing import Any

from rmreader.config import Inputs, NetworkConfig, Recipe

_BITS = {"float32": "32", "float16": "16", "int8": "8"}


def card(name: str, recipe: Recipe, about: Mapping[str, Any], count: int) -> str:
    """The card of a reader of ``count`` weights."""
    return "\n".join([*_lines(name, recipe, about, count), ""])


def _lines(name: str, recipe: Recipe, about: Mapping[str, Any], count: int) -> Iterator[str]:
    yield f"# {name}\n\nA Reinforced Mnemonic Reader (Hu et al., IJCAI 2018), trained with rmreader.\n"
    if summary := about.get("summary"):
        yield f"{summary}\n"
    yield "- **Reads** a question and a passage and points at the answer in the passage. " + (
        "It can say that the passage holds none;" if recipe.network.no_answer else "It always points somewhere;"
    )
    yield "  its confidence says how sure it is."
    yield f"- **Inputs**: {', '.join(_inputs(recipe.inputs))}."
    bits = _BITS.get(str(about.get("weights")), "32")
    products = ", read with 8-bit products" if about.get("precision") == "int8" else ""
    yield f"- **Network**: {_network(recipe.network)}; {count:,} weights in {bits} bits{products}."
    yield f"- **Temperature** of the confidence: {float(about.get('temperature', 1.0)):.3f}."
    for key, value in about.get("provenance", {}).items():
        if key == "average_of":
            value = f"the mean of {len(value)} readers: {', '.join(str(member['reader']) for member in value)}"
            key = "weights"
        yield f"- {key}: {value}"
    if shrunk := about.get("shrunk"):
        yield (
            f"- Fewer bits changed F1 from {shrunk['before']:.2f} to {shrunk['after']:.2f} on {shrunk['data']}, "
            f"{shrunk['questions']:,} questions."
        )
    yield ""
    if scores := about.get("scores"):
        yield "| data | EM | F1 | questions |\n|---|---|---|---|"
        for data, score in scores.items():
            yield f"| {data} | {score['exact_match']:.2f} | {score['f1']:.2f} | {score['total']:,} |"
        yield "\nMeasured with `rmreader evaluate`, by these files where the manifest says so, else in training.\n"
    else:
        yield "Its scores are not measured.\n"
    yield "What it is not good at: passages that contradict themselves on purpose, numbers that must be computed,"
    yield "languages that it was not trained on. `recipe.yaml` has every setting, `reader.json` the checksum of every"
    yield 'file but this one.\n\n    rmreader ask --model FOLDER --passage passage.txt "question"'


def _inputs(inputs: Inputs) -> Iterator[str]:
    if inputs.contextual:
        pairing = "question and passage as one pair" if inputs.contextual_pairing == "together" else "each text alone"
        # by its last name: where the encoder was on somebody's machine is nobody's business
        yield f"the encoder {inputs.contextual.rstrip('/').split('/')[-1]}, {inputs.contextual_mode}, on {pairing}"
    if inputs.vectors:
        yield f"the word vectors {inputs.vectors.split('/')[-1]}"
    if inputs.characters:
        yield f"a character BiLSTM of size {inputs.character_size}"
    if inputs.exact_match:
        yield "exact match"
    if inputs.tags:
        yield f"the tags of {inputs.tags.rstrip('/').split('/')[-1]}"


def _network(config: NetworkConfig) -> str:
    again = "with" if config.reattention else "without"
    return f"hidden size {config.hidden}, {config.blocks} aligning blocks {again} reattention, {config.fusion} fusion"
