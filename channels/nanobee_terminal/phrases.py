"""What the terminal says of its own accord."""

from nanobee.phrases import Phrase

WELCOME = Phrase(
    "nanobee · {session} · Enter sends, Alt-Enter new line, Ctrl-C stops, Ctrl-D leaves",
    "nanobee · {session} · 回车发送，Alt-回车换行，Ctrl-C 停止，Ctrl-D 离开",
)
LINE_WELCOME = Phrase(
    "nanobee - {session} - Enter sends, Ctrl-C stops, Ctrl-D leaves",
    "nanobee - {session} - 回车发送，Ctrl-C 停止，Ctrl-D 离开",
)
WORKING = Phrase("working", "正在处理")
WRITING = Phrase("writing", "正在回答")
STOPPING = Phrase("stopping · Ctrl-C again leaves", "正在停止 · 再按 Ctrl-C 离开")
STOP_HINT = Phrase("Ctrl-C stops", "Ctrl-C 停止")
QUEUED = Phrase("waits", "排队中")
UNASKED = Phrase("nanobee says, {time}", "nanobee 来信，{time}")
LEFT_EARLY = Phrase(
    "Left before the answer. What was accepted is kept and goes on at the next start.",
    "在得到回答之前离开了。已接受的消息会保留，下次启动时继续处理。",
)
EMPTY_INPUT = Phrase("Nothing to say: standard input was empty.", "没有内容：标准输入为空。")
LONG_INPUT = Phrase("Standard input is longer than {limit} bytes.", "标准输入超过 {limit} 字节。")
TYPE_HINT = Phrase("Type one message and end it with Ctrl-D.", "请输入一条消息，按 Ctrl-D 结束。")
INTERRUPTED = Phrase("Interrupted before anything was sent.", "已中断，没有发送任何内容。")
NO_ANSWER = Phrase("The turn ended without an answer.", "这一轮没有得到回答。")
ASKED = Phrase(
    "The turn waits until its question is answered: nanobee cli goes on with it.",
    "这一轮在等待您回答问题：用 nanobee cli 继续。",
)
NOT_ADMITTED = Phrase(
    'This terminal may not talk: allow_from does not name "local".', "此终端无权发言：allow_from 中没有 “local”。"
)
NOT_STORED = Phrase("Not sent: {reason}", "未发送：{reason}")
BUSY_INPUT = Phrase("Too many messages wait; this one was not taken.", "排队的消息太多，这一条没有接收。")
