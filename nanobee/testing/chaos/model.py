"""ChaosModel: the fake model's brain. It answers a request from its messages alone, so it survives any kill."""

import json
from itertools import count
from random import Random

from nanobee.testing.chaos import marks
from nanobee.testing.chaos.history import History, read_history
from nanobee.testing.model_replies import Answer, Piece, RequestBody, build_answer

MAX_DELAY_SECONDS = 0.02
"""Before an answer begins."""
SLOW_SECONDS = 2.5
"""How long a message makes the model think that is to be stopped."""
STREAM_WORDS, STREAM_SECONDS = 12, 0.06
"""A streamed answer has so many words more, so far apart: in all, longer than a channel waits for a first frame."""
PART_CHARS = 3_000
"""Two of these are too long for one Telegram message, so that each paragraph makes a part."""
_WORD = "x" * 199


class ChaosModel:
    """Builds the answers; give `build` to `ModelServer.reply_built`."""

    def __init__(self, seed: int) -> None:
        self.asked: set[int] = set()
        """Messages that were the newest of a request."""
        self._random = Random(f"model {seed}")
        self._serials = count(1)

    def build(self, request: RequestBody) -> Answer:
        """The answer to one request."""
        serial = next(self._serials)
        history = read_history(request["messages"])
        if history.wanted:
            self.asked.add(next(reversed(history.wanted)))
        delay = self._random.uniform(0, MAX_DELAY_SECONDS)
        if calls := list(history.next_calls(serial)):
            written = [(name, json.dumps(arguments)) for name, arguments in calls]
            return _paced(build_answer(request, calls=written), delay)
        return self._finish(request, history, serial, delay)

    def _finish(self, request: RequestBody, history: History, serial: int, delay: float) -> Answer:
        covered = history.answering
        match history.kind:
            case "long":
                text = marks.answer(serial, covered, [_filler(PART_CHARS)] * int(history.argument))
            case "stream":
                text = marks.answer(serial, covered, [" ".join(["word"] * STREAM_WORDS)])
                return _paced(build_answer(request, text=text), delay, STREAM_SECONDS)
            case _:
                text = marks.answer(serial, covered)
                if history.kind == "slow" and history.is_newest(history.open[-1]):
                    delay = SLOW_SECONDS
        return _paced(build_answer(request, text=text), delay)


def _filler(chars: int) -> str:
    return " ".join([_WORD] * (chars // (len(_WORD) + 1)))


def _paced(answer: Answer, delay: float, between: float = 0.0) -> Answer:
    """The answer with pauses before it and between its pieces."""
    pieces: list[Piece] = [delay]
    for piece in answer.pieces:
        pieces += [piece, between] if between else [piece]
    return Answer(tuple(pieces), answer.content_type, answer.status, answer.headers, calls=answer.calls)
