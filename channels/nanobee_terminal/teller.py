"""Teller: what is still to be printed of replies whose beginnings were seen growing."""

from nanobee.messages import LivePart, OutboundPart, PartKind
from nanobee_terminal.control_chars import clean_text
from nanobee_terminal.growth import Growth


class Teller:
    """Follows one turn at a time. All Markdown that it gives out is cleaned, and given out once."""

    def __init__(self) -> None:
        self.growth: Growth | None = None
        """The turn that is seen growing."""
        self._ended_turn: str | None = None

    @property
    def activity(self) -> str | None:
        """What the agent does beside writing."""
        return self.growth.activity if self.growth is not None else None

    @property
    def open_text(self) -> str:
        """What was written and not given out."""
        return self.growth.open_text if self.growth is not None else ""

    def follows(self, turn: str | None) -> bool:
        """Whether this turn is seen growing."""
        return self.growth is not None and self.growth.turn == turn

    def grow(self, part: LivePart, text: str) -> list[str]:
        """Take a frame; return what is left of another turn, which was not seen to end."""
        if part.turn == self._ended_turn:
            return []
        left = [] if self.follows(part.turn) else self.end()
        if self.growth is None:
            self.growth = Growth(part.turn)
        self.growth.grow(part.part, clean_text(text), part.activity)
        return left

    def take_finished(self) -> list[str]:
        """The Markdown that is finished and was not given out yet."""
        return self.growth.take_finished() if self.growth is not None else []

    def take_rest(self) -> list[str]:
        """All that was not given out, while the turn goes on."""
        return self.growth.take_rest() if self.growth is not None else []

    def tell(self, part: OutboundPart) -> list[str]:
        """What is still to be printed so that the part's text stands whole, after what was written before it."""
        text = clean_text(part.text)
        growth = self.growth
        if growth is None or growth.turn != part.turn:
            return [text]
        if part.kind is PartKind.MESSAGE:
            return [*growth.take_rest(), text]
        if part.kind is PartKind.QUESTION:
            self.growth = None  # the turn sleeps; it goes on under the same name once it has its answer
            return [*growth.take_rest(), text]
        if part.kind is PartKind.NOTICE:
            return [*self.end(), text]
        self.growth, self._ended_turn = None, growth.turn
        return growth.finish(text)

    def end(self) -> list[str]:
        """The turn is over without an answer; return what is left of it."""
        if self.growth is None:
            return []
        growth, self.growth = self.growth, None
        self._ended_turn = growth.turn
        return growth.take_rest()
