"""Growth: the answer of one turn while it is written, cut into what is finished and what is open."""

from collections.abc import Sequence

from nanobee_terminal.blocks import finished_length


class Growth:
    """Takes the whole text so far, again and again, and gives each finished piece out once.

    A turn may write several texts: some words, a tool call, then the answer. Each text has its
    own number, and the words before a tool call stay.
    """

    def __init__(self, turn: str) -> None:
        self.turn = turn
        self.activity: str | None = None
        """What the agent does beside, or did last."""
        self._part: int | None = None
        self._text = ""
        self._taken = 0
        self._due: list[str] = []

    @property
    def open_text(self) -> str:
        """What was written and not given out."""
        return self._text[self._taken :]

    def grow(self, part: int, text: str, activity: str | None) -> None:
        """Take a text's number, the whole of it so far (cleaned), and what the agent does beside."""
        text = text.lstrip()
        if part != self._part:
            self._begin(text)
        elif not text.startswith(self._text[: self._taken]):
            self._taken = 0  # it was begun afresh; what stands cannot be taken back
        self._part = part
        self._text = text
        self.activity = activity

    def take_finished(self) -> list[str]:
        """The Markdown that is finished and was not given out yet."""
        length = finished_length(self.open_text)
        pieces = [*self._due, self.open_text[:length]]
        self._due = []
        self._taken += length
        return _strip(pieces)

    def take_rest(self) -> list[str]:
        """All that was not given out, the open end too."""
        pieces = [*self._due, self.open_text]
        self._due = []
        self._taken = len(self._text)
        return _strip(pieces)

    def finish(self, text: str) -> list[str]:
        """The rest, `text` being the final text: in all that was given out, it stands whole and once."""
        text = text.lstrip()
        taken = self._text[: self._taken].rstrip()
        if taken and text.startswith(taken):
            self._taken = len(taken)
        elif text.startswith(self._text.rstrip()) or not self.activity:
            self._taken = 0
        else:
            self._begin(text)  # the answer came too fast to be seen growing; these are earlier words
        self._text = text
        return self.take_rest()

    def _begin(self, text: str) -> None:
        self._due.append(self.open_text)
        self._text = text
        self._taken = 0


def _strip(pieces: Sequence[str]) -> list[str]:
    return [piece.strip("\n") for piece in pieces if piece.strip()]
