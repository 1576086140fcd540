"""Part-of-speech and entity tags of our own tokens, by any spaCy pipeline or the one that ships."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError, user_error_on
from rmreader.core.files.manifest import file_sha256
from rmreader.core.files.reading import read_json
from rmreader.text.words import encodable

SHIPPED = Path(__file__).resolve().parent.parent / "readers" / "shipped" / "tags"

# Universal part-of-speech tags; 0 is for tokens that get none.
POS = (
    "",
    "ADJ",
    "ADP",
    "ADV",
    "AUX",
    "CCONJ",
    "DET",
    "INTJ",
    "NOUN",
    "NUM",
    "PART",
    "PRON",
    "PROPN",
    "PUNCT",
    "SCONJ",
    "SYM",
    "VERB",
    "X",
)
_UNUSED = ["parser", "senter", "lemmatizer", "textcat", "textcat_multilabel", "entity_linker"]


class Tagger:
    """A spaCy pipeline, by folder or name.

    'english' is the one that ships, others are installed packages. spaCy itself is needed only to
    tag, not to know the labels: tags computed on one machine serve on another.
    """

    def __init__(self, name: str, entities: Sequence[str] | None = None) -> None:
        """``entities`` are labels in the order of their ids, as kept with a trained reader.

        By default they are the pipeline's.
        """
        self.name = name
        self.folder = pipeline_folder(name)
        self.pos = POS
        refusal = f"inputs.tags={name}: {self.folder} is not a spaCy pipeline that finds entities."
        path = self.folder / "meta.json"
        with user_error_on(refusal, OSError, KeyError, TypeError):
            meta = read_json(path, "install the pipeline again", limit=16 << 20)
            labels = sorted(map(str, meta["labels"]["ner"]))
        # Id 0: outside entities, or a label that the reader does not know.
        self.entities = ("", *labels) if entities is None else tuple(entities)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the pipeline's files and of the ids: what decides the tags."""
        digest = hashlib.sha256("\n".join((*self.pos, *self.entities)).encode())
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.suffix != ".md":
                digest.update(str(path.relative_to(self.folder)).encode())
                digest.update(bytes.fromhex(file_sha256(path)))
        return digest.hexdigest()[:32]

    def tag(self, texts: Iterable[Sequence[str]]) -> Iterator[NDArray[np.uint8]]:
        """Tag texts given as words; yields uint8 [tokens, 2], ids of part of speech and entity."""
        pos_ids = {label: number for number, label in enumerate(self.pos)}
        entity_ids = {label: number for number, label in enumerate(self.entities)}
        nlp = self._nlp
        from spacy.tokens import Doc

        docs = (Doc(nlp.vocab, list(map(encodable, words))) for words in texts)
        for doc in nlp.pipe(docs, batch_size=64):
            ids = []
            for token in doc:
                ids.append((pos_ids.get(token.pos_, 0), entity_ids.get(token.ent_type_, 0)))
            yield np.array(ids, dtype=np.uint8).reshape(-1, 2)

    @cached_property
    def _nlp(self) -> Any:
        missing = "inputs.tags: tags need spaCy; pip install 'rmreader[tags]'."
        with user_error_on(missing, ImportError):
            import spacy
        # The folder may be in any state, and spaCy raises accordingly.
        refusal = f"{self.folder}: cannot be loaded by spaCy ({{why}}); install the pipeline again."
        with user_error_on(refusal, Exception):
            nlp = spacy.load(self.folder, exclude=_UNUSED)
        probe = nlp(spacy.tokens.Doc(nlp.vocab, ["The", "dog", "barks", "in", "London", "."]))
        if not any(token.pos_ in POS[1:] for token in probe):
            raise UserError(
                f"inputs.tags={self.name}: the pipeline gives no universal parts of speech; "
                "take another."
            )
        return nlp


def can_tag() -> bool:
    """Whether texts can be tagged here; those whose tags are in the cache need no spaCy."""
    return find_spec("spacy") is not None


def pipeline_folder(name: str) -> Path:
    """Find a pipeline's files: the shipped one, a folder, or inside an installed package."""
    if name == "english":
        return SHIPPED
    folder = Path(name).expanduser()
    if (folder / "config.cfg").is_file():
        return folder
    spec = find_spec(name) if name.isidentifier() else None
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        configs = sorted(Path(place).glob("*/config.cfg"))
        if configs:
            return configs[0].parent
    raise UserError(
        f"inputs.tags={name}: no such spaCy pipeline; install it (python -m spacy download), "
        "or take english."
    )
