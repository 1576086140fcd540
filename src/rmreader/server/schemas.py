"""The shapes of requests and responses. ``openapi.py`` describes the API with them."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rmreader.core.checks import NO_PASSAGE, NO_QUESTION


def _filled(sentence: str) -> Callable[[str], str]:
    """Make what refuses a text without a word, with this sentence."""

    def check(text: str) -> str:
        if not text.strip():
            raise PydanticCustomError("empty", "{sentence}", {"sentence": sentence.rstrip(".")})
        return text

    return check


_NOT_EMPTY = Field(json_schema_extra={"minLength": 1, "pattern": r"\S"})
Text = Annotated[StrictStr, Field(min_length=1)]
Question = Annotated[StrictStr, _NOT_EMPTY, AfterValidator(_filled(NO_QUESTION))]
PassageText = Annotated[StrictStr, _NOT_EMPTY, AfterValidator(_filled(NO_PASSAGE))]
Top = Annotated[StrictInt, Field(ge=1, le=20, description="How many answers, best first.")]
Confidence = Annotated[
    float,
    Field(
        strict=True,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Answers less sure than this are left out.",
    ),
]
Always = Annotated[
    bool,
    Field(
        strict=True,
        description="Give answers even where the reader decides that there is none.",
    ),
]
Share = Annotated[float, Field(ge=0, le=1)]
Doubt = Annotated[
    Literal["sure", "likely", "perhaps"], Field(description="How far to believe it, in a word.")
]
Matrix = list[list[float]] | str

PASSAGE = "The canal was dug by three thousand men."
QUESTION = "Who dug the canal?"


def absent_or(description: str) -> Any:
    """Make a field that a response has or does not have, but never as null."""
    return Field(default=None, description=description, json_schema_extra=_without_default)


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


def example(**fields: Any) -> ConfigDict:
    """Configure a model with an example for the description of the API."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


# Requests


class RequestBody(BaseModel):
    """What all request bodies have in common."""

    # A misspelt field is an error, not a silent default.
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _keep_one_unknown_field(cls, tree: Any) -> Any:
        """Keep the first unknown field only: there may be a hundred thousand of them."""
        if not isinstance(tree, dict):
            return tree
        unknown = next((key for key in tree if key not in cls.model_fields), None)
        return {key: tree[key] for key in (*cls.model_fields, unknown) if key in tree}


class Ask(RequestBody):
    """One question about one passage."""

    model_config = example(question=QUESTION, passage=PASSAGE, top=3)

    question: Question
    passage: PassageText
    top: Top = 1
    min_confidence: Confidence = 0.0
    always: Always = False


class AskMany(RequestBody):
    """Several questions, each with its passage."""

    model_config = example(items=[{"question": QUESTION, "passage": PASSAGE}])

    items: Annotated[list[Ask], Field(min_length=1)]


class AskWhy(RequestBody):
    """A question and a passage whose attention is wanted."""

    model_config = example(question=QUESTION, passage=PASSAGE)

    question: Question
    passage: PassageText
    packed: Annotated[
        bool,
        Field(
            strict=True,
            description="Matrices as base64 of little-endian unsigned 16-bit numbers, "
            "row by row, 65535 for 1.",
        ),
    ] = False


class AskShelf(RequestBody):
    """One question about the documents that the server has an index of."""

    model_config = example(question=QUESTION)

    question: Question
    top: Top = 3
    min_confidence: Confidence = 0.0
    always: Always = False


class AskPlace(RequestBody):
    """A passage whose document is to be shown around it."""

    model_config = example(passage="17")

    passage: Annotated[
        Text,
        Field(max_length=200, description="The passage's id, as an answer of /v1/ask has it."),
    ]
    start: Annotated[StrictInt, Field(ge=0)] = absent_or(
        "First character, in the passage, of what the lines are wanted of."
    )
    end: Annotated[StrictInt, Field(ge=1)] = absent_or("After its last character.")


class AskPage(RequestBody):
    """A part of a passage that is to be seen on its page."""

    model_config = example(passage="17", start=0, end=12)

    passage: Annotated[
        Text,
        Field(max_length=200, description="The passage's id, as an answer of /v1/ask has it."),
    ]
    start: Annotated[StrictInt, Field(ge=0, description="First character in the passage.")]
    end: Annotated[StrictInt, Field(ge=1, description="After the last character.")]


class AskSearch(RequestBody):
    """Words to look for in the documents that the server has an index of."""

    model_config = example(question=QUESTION)

    question: Question
    top: Annotated[StrictInt, Field(ge=1, le=100, description="How many passages.")] = 10


class AskHighlight(RequestBody):
    """A question, and texts whose words that answer it are wanted."""

    model_config = example(question=QUESTION, texts=[PASSAGE, "It rained."])

    question: Question
    texts: Annotated[list[StrictStr], Field(min_length=1)]
    top: Top = 1
    min_confidence: Confidence = 0.0
    always: Always = False


class RerankDocument(BaseModel):
    """A text with other fields beside it, as some clients send them."""

    text: StrictStr


class AskRerank(RequestBody):
    """Texts to put in order, as Cohere's clients (documents) and TEI's (texts) send them."""

    # These clients send more than is of use here, such as the name of a model.
    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [{"query": QUESTION, "documents": [PASSAGE]}]},
    )

    query: Question
    documents: list[StrictStr | RerankDocument] = absent_or("The texts; or texts.")
    texts: list[StrictStr] = absent_or("The texts; or documents.")
    top_n: Annotated[StrictInt, Field(ge=1)] = absent_or("How many to give; all by default.")
    return_documents: bool = False
    return_text: bool = False

    @model_validator(mode="after")
    def _has_texts(self) -> "AskRerank":
        if not self.documents and not self.texts:
            raise ValueError("documents or texts must be a list that is not empty")
        return self

    def plain_texts(self) -> list[str]:
        """Return the texts, whichever way they came."""
        if self.texts:
            return self.texts
        return [
            document if isinstance(document, str) else document.text for document in self.documents
        ]


# Responses


class AnswerOut(BaseModel):
    """A part of the passage: ``text == passage[start:end]``, counted in Unicode code points."""

    text: str
    start: int
    end: int
    score: float
    confidence: float
    sentence: str
    sentence_start: int = Field(description="Where the sentence begins in the passage.")
    doubt: Doubt


class Answered(BaseModel):
    """The best answer, or null for none; and the list, best first."""

    answer: AnswerOut | None
    answers: list[AnswerOut]
    no_answer: Share = absent_or(
        "The chance that the passage holds no answer; absent where the reader cannot tell."
    )
    guess: AnswerOut = absent_or(
        "The best guess, where no answer is given; "
        "absent where one is, and where the reader cannot tell."
    )
    needs: str = absent_or(
        "What the text would have to say for an answer, where there is none to give."
    )
    runner_up: AnswerOut = absent_or(
        "The second best answer, where the best is given alone and is less than likely."
    )


class Progress(BaseModel):
    """How much of a long text has been read."""

    read: Share


class AnsweredInLines(RootModel[Progress | Answered]):
    """A line of JSON about every second while the text is read, and the answers as the last."""


class ReadDocument(BaseModel):
    """What a document says."""

    name: str
    text: str
    note: str = Field(description="What to know about how it was read; mostly empty.")
    offsets: str = Field(description="What the places of `rmreader ask` count in; not this text.")


class ListedDocumentOut(BaseModel):
    """A document that can be asked."""

    document: str = Field(description="Its path in the folder that was indexed.")
    passages: int
    note: str = Field(description="What to know about how it was read; mostly empty.")


class ListedDocuments(BaseModel):
    """The documents that can be asked, by their paths: the first thousand of ``count``."""

    count: int
    documents: list[ListedDocumentOut]


class AreaOut(BaseModel):
    """A rectangle on a picture, as shares of its width and height from the upper left corner."""

    left: float
    top: float
    right: float
    bottom: float


class DrawnPage(BaseModel):
    """A page of a PDF document as a picture, and where the text is on it that was asked for."""

    document: str
    page: int
    width: int
    height: int
    image: str = Field(description="A PNG, in base64.")
    areas: list[AreaOut]


class AnsweredMany(BaseModel):
    """One result for each item, in order."""

    items: list[Answered]


class Word(BaseModel):
    """A token and its place, counted in code points."""

    text: str
    start: int
    end: int


class RoundOut(BaseModel):
    """What one round attended to.

    Every column of the first two sums to 1, and every row of the third.
    """

    interactive: Matrix = Field(
        description="Question words (rows) as seen by passage words (columns)."
    )
    self: Matrix = Field(description="Passage words (rows) as seen by passage words (columns).")
    context: Matrix = Field(description="Passage words (columns) as seen by question words (rows).")


class Explained(BaseModel):
    """The attention of every round, by word."""

    question: list[Word]
    passage: list[Word]
    rounds: list[RoundOut]


class CitedPassage(BaseModel):
    """The passage that was read, and where the answer is in it."""

    id: str = Field(description="For /v1/place and /v1/page.")
    text: str
    start: int
    end: int
    sentence_start: int = Field(description="Where the answer's sentence begins.")


class Cited(BaseModel):
    """An answer and its place: characters start to end of the document's original."""

    text: str
    score: float
    confidence: float
    sentence: str
    doubt: Doubt
    document: str = Field(description="Its path in the folder that was indexed.")
    file: str = Field(description="The same as document.")
    page: int | None = Field(description="Page of the document, where it has pages.")
    heading: str
    start: int
    end: int
    offsets: str = Field(description="What start and end count in.")
    passage: CitedPassage


class AnsweredShelf(BaseModel):
    """The best answer, or null for none; and the list, best first."""

    answer: Cited | None
    answers: list[Cited]
    no_answer: Share = absent_or(
        "The chance that the documents hold no answer; absent where the reader cannot tell."
    )
    guess: Cited = absent_or(
        "The best guess, where no answer is given; "
        "absent where one is, and where the reader cannot tell."
    )
    needs: str = absent_or(
        "What the text would have to say for an answer, where there is none to give."
    )
    runner_up: Cited = absent_or(
        "The second best answer, where the best is given alone and is less than likely."
    )


class PassageOut(BaseModel):
    """A passage of a document: characters start to end of the document's original."""

    id: str = Field(description="For /v1/place.")
    text: str
    score: float = Field(description="Of the search: more is better, for one question.")
    document: str
    page: int | None
    heading: str
    start: int
    end: int
    offsets: str


class Searched(BaseModel):
    """The passages that fit best, best first."""

    passages: list[PassageOut]


class HighlightOut(BaseModel):
    """One text: the chance that it answers, and the words that do."""

    index: int
    relevance: Share
    answers: list[AnswerOut]
    no_answer: Share = absent_or("The chance that this text holds no answer.")
    guess: AnswerOut = absent_or("The best guess, where no answer is given.")
    needs: str = absent_or(
        "What the text would have to say for an answer, where there is none to give."
    )


class Highlighted(BaseModel):
    """One result for each text, in order."""

    items: list[HighlightOut]
    no_answer: Share = absent_or("The chance that none of the texts answers.")


class RankedDocument(BaseModel):
    """A text and how relevant it is, as Cohere's clients read it."""

    index: int
    relevance_score: Share
    document: RerankDocument = absent_or("With return_documents.")


class Ranked(BaseModel):
    """The texts, most relevant first."""

    id: str
    results: list[RankedDocument]
    no_answer: Share = absent_or("The chance that none of the texts answers.")


class RankedText(BaseModel):
    """A text and how relevant it is, as TEI's clients read it."""

    index: int
    score: Share
    text: str = absent_or("With return_text.")


class RankedTexts(RootModel[list[RankedText]]):
    """The texts, most relevant first."""


class Reranked(RootModel[Ranked | RankedTexts]):
    """An object for ``documents``, a list for ``texts``."""


class Place(BaseModel):
    """The text of a document around a passage, which is ``text[start:end]``."""

    document: str
    page: int | None = Field(description="Page of the document, where it has pages.")
    heading: str
    text: str
    start: int
    end: int
    lines: list[int] = absent_or(
        "First and last line of what was named by start and end, in the file as it is now; "
        "absent where the file is not text, or has changed there."
    )


class McpMessage(BaseModel):
    """A JSON-RPC message of the Model Context Protocol, as its clients send it."""

    model_config = example(jsonrpc="2.0", id=1, method="tools/list", params={})

    jsonrpc: Literal["2.0"]
    method: str
    id: str | int = absent_or("Absent in a notification, which is not answered.")
    params: dict[str, Any] = absent_or("What the method takes.")


class McpReply(BaseModel):
    """The answer to a message: a result, or an error."""

    id: str | int | None = None
    result: dict[str, Any] = absent_or("Absent where there is an error.")
    error: dict[str, Any] = absent_or("Code and message.")


class StateOut(BaseModel):
    """Liveness or readiness."""

    status: str


class ProblemOut(BaseModel):
    """What went wrong, for programs and for people."""

    code: str
    message: str


class Failed(BaseModel):
    """Every error has this shape."""

    error: ProblemOut
