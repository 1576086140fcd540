"""How fast the reader reads, judged by what it read lately."""

PRIOR = 4_000.0  # tokens, of a reader not yet seen at work: one slow start refuses nobody
LATELY = 20_000.0  # tokens that the pace is judged by
DOUBT = 0.9  # what is left of the estimate each time that an idle server refuses a list


class ReadingPace:
    """Seconds per token, over the tokens that were read lately."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tokens = PRIOR

    def seconds_for(self, tokens: float) -> float:
        """Estimate how long reading so much takes."""
        return self.seconds / self.tokens * tokens

    def note(self, tokens: int, seconds: float) -> None:
        """Count what was just read; what was read long ago fades."""
        fade = LATELY / (LATELY + tokens)
        self.seconds = self.seconds * fade + seconds
        self.tokens = self.tokens * fade + tokens

    def doubt(self) -> None:
        """Trust the estimate a little less: it may come from a moment when the machine was busy."""
        self.seconds *= DOUBT
