"""`nanobee status`: how the gateway is, from outside, beside a running one or without one."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nanobee.cli.options import ConfigOption, JsonOption
from nanobee.cli.running import load
from nanobee.phrases import Language, Phrase

if TYPE_CHECKING:
    from nanobee.bus.overview import Overview
    from nanobee.clock import Clock
    from nanobee.config import Settings
    from nanobee.status import GatewayStatus

RUNS = Phrase("gateway: runs since {since} (process {pid})", "网关：自 {since} 起运行（进程 {pid}）")
HELD = Phrase("gateway: process {pid} holds the state folder", "网关：进程 {pid} 占用状态文件夹")
RAN = Phrase("gateway: does not run; last seen {at}", "网关：未运行；上次运行于 {at}")
NEVER = Phrase("gateway: does not run", "网关：未运行")
MODEL = Phrase("model: {label}", "模型：{label}")
CONFIGURED_MODEL = Phrase("model: {label} (configured)", "模型：{label}（已配置）")
ANY_MODEL = Phrase(
    "model: whichever is found at start (`nanobee models ls`)", "模型：启动时查找（`nanobee models ls`）"
)
CHANNEL = Phrase("channel: {name} ({kind}) {state}{detail}{last}", "渠道：{name}（{kind}）{state}{detail}{last}")
LAST_EVENT = Phrase(", last heard {at}", "，最近收到于 {at}")
CONFIGURED = Phrase("configured", "已配置")
NO_CHANNELS = Phrase("channel: none is configured", "渠道：没有配置")
INBOX = Phrase("messages in: {counts}", "收到的消息：{counts}")
OUTBOX = Phrase("messages out: {counts}", "发出的消息：{counts}")
QUESTIONS = Phrase("questions: {count} wait for an answer", "问题：{count} 个等待回答")
PUT_ASIDE = Phrase("put aside: {counts} (`nanobee bus ls` shows them)", "已搁置：{counts}（`nanobee bus ls` 可查看）")
OLDEST = Phrase("oldest waiting: since {at}", "最早的等待：自 {at}")
NONE = Phrase("none", "无")
ERROR = Phrase("error: {at} {where}: {text}", "错误：{at} {where}：{text}")
FAULT = Phrase("cannot be read: {text}", "无法读取：{text}")
STATE = Phrase("state: {folder}", "状态文件夹：{folder}")

STATES = {
    "starting": Phrase("starting", "启动中"),
    "up": Phrase("up", "正常"),
    "down": Phrase("down, tries again", "断开，正在重试"),
    "failed": Phrase("failed, needs you", "失败，需要处理"),
    "arriving": Phrase("arriving", "接收中"),
    "ready": Phrase("waiting", "等待"),
    "running": Phrase("running", "处理中"),
    "suspended": Phrase("suspended", "挂起"),
    "parked": Phrase("parked", "搁置"),
    "done": Phrase("done", "完成"),
    "stopped": Phrase("stopped", "已停止"),
    "dead": Phrase("given up", "已放弃"),
    "sending": Phrase("sending", "发送中"),
    "sent": Phrase("sent", "已发送"),
    "unknown": Phrase("unclear", "结果不明"),
    "cancelled": Phrase("cancelled", "已取消"),
}


@dataclass(frozen=True, slots=True)
class Findings:
    """What can be seen from outside."""

    holder: int | None
    """The process that holds the state folder."""
    report: "GatewayStatus | None"
    """What the last gateway wrote about itself."""
    overview: "Overview | None"
    faults: tuple[str, ...] = ()
    """What could not be read."""

    @property
    def is_running(self) -> bool:
        """Whether the report is that of a live process."""
        return self.report is not None and self.report.pid == self.holder


def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show how the gateway is.

    Whether it runs, its model and channels, what waits in the queue, and the last errors.
    """
    from nanobee.clock import load_clock

    settings = load(config)
    findings = look(settings.state)
    if as_json:
        typer.echo(json.dumps(to_json(settings, findings), ensure_ascii=False, indent=2))
    else:
        for line in to_lines(settings, findings, load_clock(settings.timezone)):
            typer.echo(line)


def look(state: Path) -> Findings:
    """Read the state folder from outside; leaves it as it is."""
    from nanobee.bus.holder import holder_pid
    from nanobee.bus.overview import read_overview
    from nanobee.errors import StateError
    from nanobee.status import check_disk, read_status

    faults = []
    try:
        report = read_status(state)
    except StateError as error:
        report = None
        faults.append(str(error))
    try:
        overview = read_overview(state)
    except StateError as error:
        overview = None
        faults.append(str(error))
    try:
        check_disk(state)
    except StateError as error:
        faults.append(str(error))
    return Findings(holder_pid(state), report, overview, tuple(faults))


def to_lines(settings: "Settings", findings: Findings, clock: "Clock") -> Iterator[str]:
    """The findings for people."""
    language, report = settings.language, findings.report
    yield _gateway(findings, clock, language)
    if report is not None and findings.is_running:
        yield MODEL.say(language, label=report.model)
    elif settings.agent.model is not None:
        yield CONFIGURED_MODEL.say(language, label=settings.agent.model)
    else:
        yield ANY_MODEL.say(language)
    yield from _channels(settings, findings, clock)
    if findings.overview is not None:
        yield INBOX.say(language, counts=_counts(findings.overview.inbox, language))
        yield OUTBOX.say(language, counts=_counts(findings.overview.outbox, language))
        yield from _attention(findings.overview, language)
        if findings.overview.oldest_ready_at is not None:
            yield OLDEST.say(language, at=_time(findings.overview.oldest_ready_at, clock))
    for error in report.errors if report is not None else ():
        yield ERROR.say(language, at=_time(error.at, clock), where=error.where, text=error.text)
    for fault in findings.faults:
        yield FAULT.say(language, text=fault)
    yield STATE.say(language, folder=settings.state)


def _attention(overview: "Overview", language: Language) -> Iterator[str]:
    """What waits for a person."""
    if overview.open_questions:
        yield QUESTIONS.say(language, count=overview.open_questions)
    counts = {state: overview.inbox.get(state, 0) + overview.outbox.get(state, 0) for state in ("parked", "dead")}
    if any(counts.values()):
        yield PUT_ASIDE.say(language, counts=_counts(counts, language))


def _gateway(findings: Findings, clock: "Clock", language: Language) -> str:
    report = findings.report
    if report is not None and findings.is_running:
        return RUNS.say(language, since=_time(report.started_at, clock), pid=report.pid)
    if findings.holder is not None:
        return HELD.say(language, pid=findings.holder)
    return NEVER.say(language) if report is None else RAN.say(language, at=_time(report.updated_at, clock))


def _channels(settings: "Settings", findings: Findings, clock: "Clock") -> Iterator[str]:
    language = settings.language
    if findings.report is not None and findings.is_running:
        for name, report in findings.report.channels.items():
            last = (
                "" if report.last_event_at is None else LAST_EVENT.say(language, at=_time(report.last_event_at, clock))
            )
            detail = f": {report.detail}" if report.detail else ""
            state = _state(report.state, language)
            yield CHANNEL.say(language, name=name, kind=report.kind, state=state, detail=detail, last=last)
        return
    for name, section in settings.channels.items():
        state = CONFIGURED.say(language)
        yield CHANNEL.say(language, name=name, kind=section.kind, state=state, detail="", last="")
    if not settings.channels:
        yield NO_CHANNELS.say(language)


def _state(state: str, language: Language) -> str:
    return STATES[state].say(language) if state in STATES else state


def _counts(counts: Mapping[str, int], language: Language) -> str:
    parts = [f"{count} {_state(state, language)}" for state, count in sorted(counts.items()) if count]
    return ", ".join(parts) or NONE.say(language)


def _time(at: datetime, clock: "Clock") -> str:
    return clock.local(at).strftime("%Y-%m-%d %H:%M:%S")


def to_json(settings: "Settings", findings: Findings) -> dict[str, object]:
    """The findings for programs."""
    report, overview = findings.report, findings.overview
    return {
        "running": findings.is_running,
        "holder": findings.holder,
        "started_at": _utc(report.started_at) if report is not None else None,
        "updated_at": _utc(report.updated_at) if report is not None else None,
        "model": report.model if report is not None and findings.is_running else settings.agent.model,
        "channels": {
            name: {
                "kind": channel.kind,
                "state": channel.state,
                "detail": channel.detail,
                "last_event_at": None if channel.last_event_at is None else _utc(channel.last_event_at),
            }
            for name, channel in (report.channels if report is not None and findings.is_running else {}).items()
        },
        "configured_channels": {name: section.kind for name, section in settings.channels.items()},
        "inbox": overview.inbox if overview is not None else None,
        "outbox": overview.outbox if overview is not None else None,
        "questions": overview.open_questions if overview is not None else None,
        "oldest_ready_at": _utc(overview.oldest_ready_at) if overview and overview.oldest_ready_at else None,
        "errors": [
            {"at": _utc(error.at), "where": error.where, "text": error.text}
            for error in (report.errors if report is not None else ())
        ],
        "faults": list(findings.faults),
        "workspace": str(settings.workspace),
        "state": str(settings.state),
    }


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
