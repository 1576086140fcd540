"""Train the small tagger that ships: ``python -m lab.scripts.train_tags TAGGING_DATA OUT [--minutes
12]``.

Parts of speech from UD English EWT, entities (PER, LOC, ORG, MISC) from wikigold, WNUT-17 and the
Broad Twitter Corpus, one spaCy pipeline with a shared token encoder. The corpora's tokens are split
as ours are, by character offsets.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import spacy
from spacy.training import Example, iob_to_biluo
from spacy.util import compounding, fix_random_seed, minibatch

from rmreader.core.console import progress
from rmreader.text.tags import Tagger
from rmreader.text.tokens import tokenize

# One sentence: our tokens, and one label each (a tag, or an entity label in BIO).
Sentence = tuple[list[str], list[str]]

ENTITIES = {kind: kind for kind in ("PER", "LOC", "ORG", "MISC")}  # wikigold, BTC
ENTITIES |= {"person": "PER", "location": "LOC", "corporation": "ORG", "group": "ORG"}  # WNUT-17
ENTITIES |= {"creative-work": "MISC", "product": "MISC"}
WIDTH = 96


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a compressed text, without their ends."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


def read_conllu(path: Path) -> list[list[Sentence]]:
    """Sentences of UD, one list a document, with the universal tag of every token of ours."""
    documents: list[list[Sentence]] = [[]]
    rows: list[list[str]] = []
    text = ""
    for line in lines_of(path):
        if line.startswith("# newdoc"):
            documents.append([])
        elif line.startswith("# text = "):
            text = line.removeprefix("# text = ")
        elif line and not line.startswith("#"):
            rows.append(line.split("\t"))
        elif not line and rows:
            documents[-1].append(align(text, rows))
            rows = []
    return [document for document in documents if document]


def align(text: str, rows: list[list[str]]) -> Sentence:
    """Our tokens of a sentence; each takes the tag of the UD word that its first character
    belongs to."""
    owner = [""] * len(text)
    place = 0
    inside, rest = (
        0,
        "",
    )  # of a contraction, written as one token but tagged as several words: don't = do + n't
    for row in rows:
        number, form, tag = row[0], row[1], row[3]
        if "." in number:  # an empty node has no place in the text
            continue
        if "-" in number:
            begin, end = map(int, number.split("-"))
            inside, rest = end - begin + 1, form
            place = text.index(form, place)
            continue
        if inside:
            inside -= 1
            size = len(form) if rest.startswith(form) and inside else len(rest)
            rest = rest[size:]
        else:
            place, size = text.index(form, place), len(form)
        owner[place : place + size] = [tag] * size
        place += size
    tokens = tokenize(text)
    return tokens.words, [owner[start] for start in tokens.starts]


def read_entities(path: Path) -> list[list[Sentence]]:
    """Sentences of a CoNLL file with an entity label each, in BIO; one list a document where the
    file marks them."""
    documents: list[list[Sentence]] = [[]]
    words: list[str] = []
    labels: list[str] = []
    for line in itertools.chain(lines_of(path), [""]):
        fields = line.split("\t") if "\t" in line else line.split(" ")
        if line.strip() and not line.startswith("-DOCSTART-"):
            words.append(fields[0])
            labels.append(fields[-1])
        elif words:
            documents[-1].append(refine(words, labels))
            words, labels = [], []
        if line.startswith("-DOCSTART-"):
            documents.append([])
    documents = [[sentence for sentence in document if sentence[0]] for document in documents]
    return [document for document in documents if document]


def refine(words: list[str], labels: list[str]) -> Sentence:
    """Split the corpus's tokens as ours are. User names after @ are no entities (passages have
    none), # is in none."""
    out_words: list[str] = []
    out_labels: list[str] = []
    before = "O"
    for k, (word, label) in enumerate(zip(words, labels, strict=True)):
        if word.startswith("@") or (k and words[k - 1] == "@"):
            label = "O"
        position, _, name = label.partition("-")
        kind = ENTITIES[name] if name else ""
        # wikigold begins entities with I-, and with B- only where two of a kind stand side by side
        begins = position == "B" or before != kind
        for piece in tokenize(word).words:
            out_words.append(piece)
            if not kind or piece == "#":
                out_labels.append("O")
            else:
                out_labels.append(f"{'B' if begins else 'I'}-{kind}")
                begins = False
        before = kind or "O"
    return out_words, out_labels


def join(documents: list[list[Sentence]], rng: random.Random) -> list[Sentence]:
    """Runs of one to five sentences of a document as one text, since passages are read whole."""
    texts: list[Sentence] = []
    for document in documents:
        place = 0
        while place < len(document):
            run = document[place : place + rng.randint(1, 5)]
            texts.append(
                ([w for words, _ in run for w in words], [x for _, labels in run for x in labels])
            )
            place += len(run)
    return texts


def example(nlp: Any, sentence: Sentence, kind: str) -> Example:
    """What spaCy learns from: the other task's labels are left open."""
    words, labels = sentence
    doc = spacy.tokens.Doc(nlp.vocab, words)
    truth = (
        {"pos": labels, "morphs": [""] * len(words)}
        if kind == "pos"
        else {"entities": iob_to_biluo(labels)}
    )
    return Example.from_dict(doc, {"words": words, **truth})


def build() -> Any:
    """An untrained pipeline."""
    nlp = spacy.blank("en")
    nlp.meta |= {
        "name": "rmreader_tags",
        "version": "1.0.0",
        "description": "Universal parts of speech and PER, LOC, ORG, MISC on rmreader's tokens",
        "license": "CC BY-SA 4.0",
    }
    embed = {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": WIDTH,
        "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
        "rows": [5000, 1000, 2500, 2500],
        "include_static_vectors": False,
    }
    encode = {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": WIDTH,
        "depth": 4,
        "window_size": 1,
        "maxout_pieces": 3,
    }
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": WIDTH, "upstream": "*"}
    nlp.add_pipe(
        "tok2vec",
        config={"model": {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode}},
    )
    nlp.add_pipe(
        "morphologizer",
        config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}},
    )
    ner = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 64,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": listener,
    }
    nlp.add_pipe("ner", config={"model": ner})
    return nlp


def accuracy(tagger: Tagger, sentences: Iterable[Sentence]) -> float:
    """Percentage of tokens with the right part of speech."""
    sentences = list(sentences)
    right = total = 0
    for (_, labels), ids in zip(
        sentences, tagger.tag(words for words, _ in sentences), strict=True
    ):
        right += sum(
            tagger.pos[found] == label for (found, _), label in zip(ids, labels, strict=True)
        )
        total += len(labels)
    return 100 * right / total


def entity_f1(nlp: Any, sentences: Iterable[Sentence]) -> dict[str, float]:
    """Exact-span precision, recall and F1 over the entities, and F1 of each kind."""
    sentences = list(sentences)
    scores = nlp.evaluate([example(nlp, sentence, "ner") for sentence in sentences])
    kinds = {kind: 100 * score["f"] for kind, score in sorted(scores["ents_per_type"].items())}
    names = {"precision": "ents_p", "recall": "ents_r", "f1": "ents_f"}
    return {name: 100 * scores[key] for name, key in names.items()} | kinds


def main() -> None:
    """Read, train, save, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=12.0, help="processor time to train")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    fix_random_seed(arguments.seed)
    rng = random.Random(arguments.seed)
    data: Path = arguments.data

    wikigold = read_entities(data / "wikigold" / "wikigold.conll.txt.gz")
    rng.shuffle(wikigold)
    cut = (
        len(wikigold) // 5
    )  # it has no split of its own: a fifth of its articles is kept for the test
    tests = {
        "wikigold (a fifth)": [s for document in wikigold[:cut] for s in document],
        "WNUT-17 test": [
            s for d in read_entities(data / "wnut17" / "emerging.test.annotated.gz") for s in d
        ],
        "BTC section h": [s for d in read_entities(data / "btc" / "h.conll.gz") for s in d],
    }
    entities = (
        wikigold[cut:] * 4
    )  # the one written like passages, so read more often than the tweets
    for name in (
        "wnut17/wnut17train.conll.gz",
        *(f"btc/{section}.conll.gz" for section in "abefg"),
    ):
        entities += [[sentence] for document in read_entities(data / name) for sentence in document]
    words = read_conllu(data / "ud-ewt" / "en_ewt-ud-train.conllu.gz")

    nlp = build()
    sample = [example(nlp, s, "pos") for s in join(words, rng)] + [
        example(nlp, s, "ner") for s in join(entities, rng)
    ]
    optimizer = nlp.initialize(lambda: sample)
    began, epoch, seconds = time.process_time(), 0, 60 * arguments.minutes
    with progress("Training tags", seconds, "s") as advance:
        while time.process_time() - began < seconds:
            texts = [(s, "pos") for s in join(words, rng)] + [
                (s, "ner") for s in join(entities, rng)
            ]
            rng.shuffle(texts)
            losses: dict[str, float] = {}
            for batch in minibatch(texts, compounding(8.0 if epoch else 4.0, 24.0, 1.001)):
                step = time.process_time()
                left = 1 - (step - began) / seconds
                if left <= 0:
                    break
                optimizer.learn_rate = 0.001 * min(1.0, 2 * left)  # constant, then down to nothing
                nlp.update(
                    [example(nlp, *text) for text in batch], sgd=optimizer, drop=0.15, losses=losses
                )
                advance(time.process_time() - step)
            epoch += 1
            rounded = {name: round(loss) for name, loss in losses.items()}
            print(
                f"epoch {epoch}: {time.process_time() - began:.0f} s, losses {rounded}", flush=True
            )

    with nlp.use_params(optimizer.averages):
        arguments.out.mkdir(parents=True, exist_ok=True)
        nlp.to_disk(
            arguments.out, exclude=["vocab"]
        )  # weights look words up by hash: no list of words
    meta = arguments.out / "meta.json"  # spaCy writes its own version alone there
    meta.write_text(
        json.dumps({**json.loads(meta.read_text()), "spacy_version": ">=3.7.0,<4.0.0"}, indent=1)
        + "\n"
    )
    tagger, kept = Tagger(str(arguments.out)), spacy.load(arguments.out)
    report: dict[str, Any] = {"epochs": epoch, "megabytes": size_of(arguments.out) / 1e6}
    for part in ("dev", "test"):
        documents = read_conllu(data / "ud-ewt" / f"en_ewt-ud-{part}.conllu.gz")
        report[f"UD EWT {part}: UPOS accuracy"] = accuracy(
            tagger, (s for document in documents for s in document)
        )
    report |= {f"{name}: entities": entity_f1(kept, sentences) for name, sentences in tests.items()}
    print(json.dumps(report, indent=1))


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
