"""Train the small tagger that ships.

    python -m lab.scripts.train_tags TAGGING_DATA OUT --minutes 12

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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

# Our kinds of entities, by the names that the corpora have for them.
ENTITIES = {
    # wikigold, BTC
    "PER": "PER",
    "LOC": "LOC",
    "ORG": "ORG",
    "MISC": "MISC",
    # WNUT-17
    "person": "PER",
    "location": "LOC",
    "corporation": "ORG",
    "group": "ORG",
    "creative-work": "MISC",
    "product": "MISC",
}
WIDTH = 96
WIKIGOLD = "wikigold/wikigold.conll.txt.gz"
TWEETS = [
    "wnut17/wnut17train.conll.gz",
    "btc/a.conll.gz",
    "btc/b.conll.gz",
    "btc/e.conll.gz",
    "btc/f.conll.gz",
    "btc/g.conll.gz",
]


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a compressed text, without their ends."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


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
    """Our tokens of a sentence, each with the tag of the UD word that it begins in."""
    owner = [""] * len(text)
    place = 0
    # A contraction is written as one token and tagged as several words: don't = do + n't.
    words_left = 0
    rest = ""
    for row in rows:
        number = row[0]
        form = row[1]
        tag = row[3]
        if "." in number:  # an empty node has no place in the text
            continue
        if "-" in number:
            begin, end = map(int, number.split("-"))
            words_left = end - begin + 1
            rest = form
            place = text.index(form, place)
            continue
        if words_left:
            words_left -= 1
            size = len(form) if rest.startswith(form) and words_left else len(rest)
            rest = rest[size:]
        else:
            place = text.index(form, place)
            size = len(form)
        owner[place : place + size] = [tag] * size
        place += size
    tokens = tokenize(text)
    return tokens.words, [owner[start] for start in tokens.starts]


def read_entities(path: Path) -> list[list[Sentence]]:
    """Sentences of a CoNLL file with entity labels in BIO, one list for each document.

    Where the file marks no documents there is one list.
    """
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
            words = []
            labels = []
        if line.startswith("-DOCSTART-"):
            documents.append([])
    documents = [[sentence for sentence in document if sentence[0]] for document in documents]
    return [document for document in documents if document]


def refine(words: list[str], labels: list[str]) -> Sentence:
    """Split the corpus's tokens as ours are.

    User names after @ are no entities, because passages have none; # is in no entity.
    """
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
            words: list[str] = []
            labels: list[str] = []
            for sentence_words, sentence_labels in run:
                words += sentence_words
                labels += sentence_labels
            texts.append((words, labels))
            place += len(run)
    return texts


def flat(documents: Iterable[list[Sentence]]) -> list[Sentence]:
    """The sentences of all documents."""
    return list(itertools.chain.from_iterable(documents))


def example(nlp: Any, sentence: Sentence, kind: str) -> Example:
    """What spaCy learns from: the other task's labels are left open."""
    words, labels = sentence
    doc = spacy.tokens.Doc(nlp.vocab, words)
    truth: dict[str, Any] = {"words": words}
    if kind == "pos":
        truth["pos"] = labels
        truth["morphs"] = [""] * len(words)
    else:
        truth["entities"] = iob_to_biluo(labels)
    return Example.from_dict(doc, truth)


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
    tok2vec = {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": embed,
        "encode": encode,
    }
    listener = {
        "@architectures": "spacy.Tok2VecListener.v1",
        "width": WIDTH,
        "upstream": "*",
    }
    morphologizer = {
        "@architectures": "spacy.Tagger.v2",
        "tok2vec": listener,
    }
    ner = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 64,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": listener,
    }
    nlp.add_pipe("tok2vec", config={"model": tok2vec})
    nlp.add_pipe("morphologizer", config={"model": morphologizer})
    nlp.add_pipe("ner", config={"model": ner})
    return nlp


def accuracy(tagger: Tagger, sentences: Sequence[Sentence]) -> float:
    """Percentage of tokens with the right part of speech."""
    right = 0
    total = 0
    tagged = tagger.tag(words for words, _ in sentences)
    for (_, labels), ids in zip(sentences, tagged, strict=True):
        for (tag, _), label in zip(ids, labels, strict=True):
            right += tagger.pos[tag] == label
        total += len(labels)
    return 100 * right / total


def entity_f1(nlp: Any, sentences: Sequence[Sentence]) -> dict[str, float]:
    """Exact-span precision, recall and F1 over the entities, and F1 of each kind."""
    scores = nlp.evaluate([example(nlp, sentence, "ner") for sentence in sentences])
    percent = {
        "precision": 100 * scores["ents_p"],
        "recall": 100 * scores["ents_r"],
        "f1": 100 * scores["ents_f"],
    }
    for kind, score in sorted(scores["ents_per_type"].items()):
        percent[kind] = 100 * score["f"]
    return percent


@dataclass(frozen=True)
class Corpora:
    """What is learned from, by document, and the sentences that entities are judged on."""

    words: list[list[Sentence]]
    entities: list[list[Sentence]]
    tests: dict[str, list[Sentence]]


def read_corpora(data: Path, rng: random.Random) -> Corpora:
    """Read all files and keep the sentences for tests apart."""
    wikigold = read_entities(data / WIKIGOLD)
    rng.shuffle(wikigold)
    # It has no split of its own: a fifth of its articles is kept for the test.
    cut = len(wikigold) // 5
    tests = {
        "wikigold (a fifth)": flat(wikigold[:cut]),
        "WNUT-17 test": flat(read_entities(data / "wnut17" / "emerging.test.annotated.gz")),
        "BTC section h": flat(read_entities(data / "btc" / "h.conll.gz")),
    }
    # It is written like passages, so it is read more often than the tweets.
    entities = wikigold[cut:] * 4
    for name in TWEETS:
        for sentence in flat(read_entities(data / name)):
            entities.append([sentence])
    words = read_conllu(data / "ud-ewt" / "en_ewt-ud-train.conllu.gz")
    return Corpora(words, entities, tests)


def train(nlp: Any, corpora: Corpora, seconds: float, rng: random.Random) -> tuple[Any, int]:
    """Train for so many seconds of processor time; return the optimizer and the epochs."""
    sample = [example(nlp, sentence, "pos") for sentence in join(corpora.words, rng)]
    sample += [example(nlp, sentence, "ner") for sentence in join(corpora.entities, rng)]
    optimizer = nlp.initialize(lambda: sample)
    began = time.process_time()
    epoch = 0
    with progress("Training tags", seconds, "s") as advance:
        while time.process_time() - began < seconds:
            texts = [(sentence, "pos") for sentence in join(corpora.words, rng)]
            texts += [(sentence, "ner") for sentence in join(corpora.entities, rng)]
            rng.shuffle(texts)
            losses: dict[str, float] = {}
            for batch in minibatch(texts, compounding(8.0 if epoch else 4.0, 24.0, 1.001)):
                step = time.process_time()
                left = 1 - (step - began) / seconds
                if left <= 0:
                    break
                optimizer.learn_rate = 0.001 * min(1.0, 2 * left)  # constant, then down to nothing
                examples = [example(nlp, *text) for text in batch]
                nlp.update(examples, sgd=optimizer, drop=0.15, losses=losses)
                advance(time.process_time() - step)
            epoch += 1
            rounded = {name: round(loss) for name, loss in losses.items()}
            spent = time.process_time() - began
            print(f"epoch {epoch}: {spent:.0f} s, losses {rounded}", flush=True)
    return optimizer, epoch


def write(nlp: Any, optimizer: Any, out: Path) -> None:
    """Write the pipeline with its averaged weights, for every version of spaCy that reads it."""
    with nlp.use_params(optimizer.averages):
        out.mkdir(parents=True, exist_ok=True)
        # Weights look words up by hash, so no list of words is needed.
        nlp.to_disk(out, exclude=["vocab"])
    path = out / "meta.json"
    meta = json.loads(path.read_text())
    meta["spacy_version"] = ">=3.7.0,<4.0.0"  # spaCy writes its own version alone
    path.write_text(json.dumps(meta, indent=1) + "\n")


def main() -> None:
    """Read, train, save, report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=12.0, help="processor time to train")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    fix_random_seed(arguments.seed)
    rng = random.Random(arguments.seed)

    corpora = read_corpora(arguments.data, rng)
    nlp = build()
    optimizer, epochs = train(nlp, corpora, 60 * arguments.minutes, rng)
    write(nlp, optimizer, arguments.out)

    tagger = Tagger(str(arguments.out))
    written = spacy.load(arguments.out)
    report: dict[str, Any] = {"epochs": epochs, "megabytes": size_of(arguments.out) / 1e6}
    for part in ("dev", "test"):
        sentences = flat(read_conllu(arguments.data / "ud-ewt" / f"en_ewt-ud-{part}.conllu.gz"))
        report[f"UD EWT {part}: UPOS accuracy"] = accuracy(tagger, sentences)
    for name, sentences in corpora.tests.items():
        report[f"{name}: entities"] = entity_f1(written, sentences)
    print(json.dumps(report, indent=1))


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
