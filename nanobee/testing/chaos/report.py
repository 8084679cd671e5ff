"""Report: a run for people, as tables and a timeline, and for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from unicodedata import east_asian_width

from nanobee.bus.checkpoints import NAMES
from nanobee.phrases import Language, Phrase
from nanobee.testing.chaos.account import Account, FaultKind
from nanobee.testing.chaos.modes import NEVER_PASSED, POINTS
from nanobee.testing.chaos.plan import KillKind
from nanobee.testing.chaos.run import Result, RoundResult

_DISORDER = (FaultKind.DISORDER,)
_LOST = (
    FaultKind.LOST,
    FaultKind.NOT_ACCEPTED,
    FaultKind.STUCK,
    FaultKind.EFFECT_LOST,
    FaultKind.TOOL_LOST,
    FaultKind.WRONG_REPLY,
)
_TWICE = (FaultKind.ANSWERED_TWICE, FaultKind.DOUBLE, FaultKind.FRAGMENT)
MAX_LISTED = 200
"""Duplicates or faults that are listed for people; programs get all of them."""

_BEGIN = Phrase(
    "{rounds} rounds of {messages} messages, seed {seed}. ✗ is a kill: at a checkpoint (name:times), "
    "after so many calls, during a start or a stop.",
    "{rounds} 轮，每轮 {messages} 条消息，种子 {seed}。"
    "✗ 为强杀：在检查点（名称:次数）、若干次调用之后、启动或停止期间。",
)
_NOT_PASSED = Phrase("  ({point} was not passed)", "  （未经过 {point}）")
_COLUMNS = (
    Phrase("mode", "模式"),
    Phrase("received", "收到"),
    Phrase("answered", "已答"),
    Phrase("parked", "搁置"),
    Phrase("failed", "失败"),
    Phrase("lost", "丢失"),
    Phrase("disorder", "乱序"),
    Phrase("effect×2", "消息×2"),
    Phrase("tool×2", "工具×2"),
    Phrase("other×2", "其他×2"),
    Phrase("copies / under way", "重复 / 发送中"),
)
_TOTAL = Phrase("all", "合计")
_KILLS = Phrase(
    "{total} kills: {point} at checkpoints, {moment} after some calls, {start} during a start, {stop} during a stop; "
    "{missed} armed checkpoints were not passed",
    "强杀 {total} 次：检查点 {point}，若干调用后 {moment}，启动期间 {start}，停止期间 {stop}；{missed} 个检查点未经过",
)
_HITS = Phrase("kills by checkpoint and mode (· = does not pass there)", "按检查点和模式统计的强杀（· = 不经过）")
_DUPLICATES = Phrase("copies, each of a send that was under way at a kill:", "重复，均为强杀时正在发送的消息：")
_PARKED = Phrase("parked:", "搁置：")
_TOLD = Phrase("ended in a notice of failure:", "以失败通知结束：")
_FAULTS = Phrase("broken promises:", "未兑现的承诺：")
_MORE = Phrase("… and {count} more", "……另有 {count} 条")
_SOUND = Phrase(
    "Nothing was lost: {received} received = {answered} answered + {parked} parked; {seconds:.0f} s.",
    "没有丢失：收到 {received} = 已答 {answered} + 搁置 {parked}；{seconds:.0f} 秒。",
)
_UNSOUND = Phrase(
    "NOT SOUND: {faults} broken promises; {share:.1%} answered. "
    "The same seed gives the same kills; --folder keeps the state.",
    "不可靠：{faults} 项承诺未兑现；已答 {share:.1%}。相同种子得到相同的强杀；--folder 可保留状态。",
)


def begin_line(result: Result, language: Language) -> str:
    """What is about to be done."""
    return _BEGIN.say(language, rounds=result.rounds, messages=result.messages, seed=result.seed)


def round_line(done: RoundResult, language: Language) -> str:
    """One round's timeline."""
    timeline = " · ".join(f"{at:.2f} {what}" for at, what in done.timeline)
    line = f"{done.log.number:>4} {done.log.mode:<11}{timeline}"
    return line if done.missed is None else line + _NOT_PASSED.say(language, point=done.missed)


def to_lines(result: Result, language: Language) -> Iterator[str]:
    """The whole account for people."""
    yield ""
    yield from _table([[column.say(language) for column in _COLUMNS], *_account_rows(result, language)])
    yield ""
    yield _HITS.say(language)
    yield from _table([["", *result.modes], *_hit_rows(result)])
    counts = {kind.value: result.kills[kind] for kind in KillKind}
    yield _KILLS.say(language, total=sum(counts.values()), missed=result.missed.total(), **counts)
    account = result.account
    for title, items in (
        (_DUPLICATES, account.duplicates),
        (_PARKED, account.parked),
        (_TOLD, account.told),
        (_FAULTS, account.faults),
    ):
        yield from _list(title, [str(item) for item in items], language)
    yield ""
    yield (_SOUND if result.is_sound else _UNSOUND).say(
        language,
        received=account.received,
        answered=account.answered,
        parked=len(account.parked),
        faults=len(account.faults),
        share=account.answered_share,
        seconds=result.seconds,
    )


def _account_rows(result: Result, language: Language) -> Iterator[list[str]]:
    for mode in result.modes:
        yield _account_row(mode, result.by_mode[mode])
    yield _account_row(_TOTAL.say(language), result.account)


def _account_row(name: str, account: Account) -> list[str]:
    numbers = [
        account.received,
        account.answered,
        len(account.parked),
        len(account.told),
        account.count(*_LOST),
        account.count(*_DISORDER),
        account.count(FaultKind.EFFECT_TWICE),
        account.count(FaultKind.TOOL_TWICE),
        account.count(*_TWICE),
    ]
    return [name, *map(str, numbers), f"{len(account.duplicates)} / {account.under_way}"]


def _hit_rows(result: Result) -> Iterator[list[str]]:
    for point in NAMES:
        if point not in NEVER_PASSED:
            yield [point, *(str(result.hits[mode, point]) if point in POINTS[mode] else "·" for mode in result.modes)]


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(_width(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        first, *others = (
            " " * (width - _width(cell)) + cell if at else cell + " " * (width - _width(cell))
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *others])


def _width(text: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _list(title: Phrase, items: Sequence[str], language: Language) -> Iterator[str]:
    if items:
        yield ""
        yield title.say(language)
        yield from (f"  {item}" for item in items[:MAX_LISTED])
        if len(items) > MAX_LISTED:
            yield "  " + _MORE.say(language, count=len(items) - MAX_LISTED)


def to_json(result: Result) -> dict[str, object]:
    """The whole account for programs."""
    return {
        "rounds": result.rounds,
        "messages": result.messages,
        "seed": result.seed,
        "seconds": round(result.seconds, 1),
        "is_sound": result.is_sound,
        "account": _account_json(result.account),
        "modes": {mode.value: _account_json(result.by_mode[mode]) for mode in result.modes},
        "kills": {kind.value: result.kills[kind] for kind in KillKind},
        "hits": {mode.value: {point: result.hits[mode, point] for point in POINTS[mode]} for mode in result.modes},
        "not_passed": {f"{mode} {point}": count for (mode, point), count in result.missed.items()},
        "duplicates": [asdict(each) for each in result.account.duplicates],
        "parked": [asdict(each) for each in result.account.parked],
        "failed": result.account.told,
        "faults": [asdict(each) for each in result.account.faults],
    }


def _account_json(account: Account) -> dict[str, object]:
    return {
        "received": account.received,
        "answered": account.answered,
        "answered_share": round(account.answered_share, 5),
        "stopped": account.stopped,
        "parked": len(account.parked),
        "failed": len(account.told),
        "lost": account.count(*_LOST),
        "out_of_order": account.count(*_DISORDER),
        "effects_twice": account.count(FaultKind.EFFECT_TWICE),
        "tools_twice": account.count(FaultKind.TOOL_TWICE),
        "others_twice": account.count(*_TWICE),
        "duplicates": len(account.duplicates),
        "sends_under_way": account.under_way,
    }
