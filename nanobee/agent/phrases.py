"""What the agent says in its own name."""

from nanobee.phrases import Phrase

MODEL_FAILED = Phrase(
    en="The model gave no answer: {reason} Your message is kept; write again to go on.",
    zh="模型没有回答：{reason} 您的消息已保留，再发一条即可继续。",
)
EMPTY_ANSWER = Phrase(
    en="The model gave an empty answer {times} times. Your message is kept; write again to go on.",
    zh="模型连续 {times} 次给出空回答。您的消息已保留，再发一条即可继续。",
)
CUT_CALLS = Phrase(
    en="The model's output was cut {times} times while it called a tool; nothing of those calls was run. "
    "Ask for it in smaller pieces.",
    zh="模型在调用工具时输出被截断 {times} 次，这些调用均未执行。请分成更小的部分再试。",
)
STEP_LIMIT = Phrase(
    en="I stopped after {steps} steps without a final answer. Write “go on” to continue.",
    zh="已执行 {steps} 步仍未得到最终回答，已停止。发送“继续”可接着做。",
)
INTERNAL_FAULT = Phrase(
    en="Something went wrong inside nanobee; the log has the details. Your message is kept; write again to go on.",
    zh="nanobee 内部出错，详情见日志。您的消息已保留，再发一条即可继续。",
)
STOPPED = Phrase(en="Stopped.", zh="已停止。")
NOTHING_TO_STOP = Phrase(en="Nothing was running.", zh="当前没有正在运行的任务。")
PARKED = Phrase(
    en="{count} waiting message(s) are kept aside; /resume runs them.",
    zh="有 {count} 条排队消息已暂存，发送 /resume 可继续处理。",
)
RESUMED = Phrase(en="{count} message(s) go on.", zh="{count} 条消息继续处理。")
RESUMED_BEFORE = Phrase(en="What was kept aside goes on.", zh="暂存的消息已继续处理。")
NOTHING_PARKED = Phrase(en="Nothing is kept aside here.", zh="这里没有暂存的消息。")
NEW_SESSION = Phrase(en="A new conversation begins.", zh="新的对话开始了。")
UNKNOWN_COMMAND = Phrase(
    en="There is no command {name}.{suggestion} /help lists them.",
    zh="没有命令 {name}。{suggestion}发送 /help 查看所有命令。",
)
SUGGESTION = Phrase(en=" Did you mean {name}?", zh="您是否想用 {name}？")
STATUS = Phrase(
    en="Model: {model}\nThis chat: {doing}; {waiting} waiting, {parked} kept aside",
    zh="模型：{model}\n本对话：{doing}；排队 {waiting} 条，暂存 {parked} 条",
)
WORKING = Phrase(en="working", zh="处理中")
IDLE = Phrase(en="idle", zh="空闲")
HELP_STOP = Phrase(en="stop the running turn; waiting messages are kept aside", zh="停止当前处理，排队消息暂存")
HELP_RESUME = Phrase(en="run the messages that were kept aside", zh="继续处理暂存的消息")
HELP_STATUS = Phrase(en="show the model and what this chat is doing", zh="查看模型和本对话状态")
HELP_NEW = Phrase(en="begin a new conversation", zh="开始新的对话")
HELP_HELP = Phrase(en="list the commands", zh="列出所有命令")
HOW_TO_CHOOSE = Phrase(
    en="(#{id}: reply with a choice or its number, or /answer {id} …)",
    zh="（#{id}：回复选项或其编号，或发送 /answer {id} …）",
)
HOW_TO_ANSWER = Phrase(
    en="(#{id}: your next message is the answer, or /answer {id} …)",
    zh="（#{id}：您的下一条消息即为回答，或发送 /answer {id} …）",
)
ANSWER_NOTED = Phrase(en="Noted.", zh="已收到。")
MORE_QUESTIONS = Phrase(en="Noted. {count} more question(s) wait.", zh="已收到。还有 {count} 个问题待回答。")
NOT_A_CHOICE = Phrase(en="#{id} takes one of: {choices}", zh="#{id} 只接受：{choices}")
NO_LONGER_VALID = Phrase(en="#{id} is no longer valid.", zh="#{id} 已失效。")
ANSWER_USAGE = Phrase(en="Write /answer ID TEXT.", zh="请发送 /answer 编号 内容。")
QUESTION_CANCELLED = Phrase(en="{count} open question(s) are cancelled.", zh="已取消 {count} 个待回答的问题。")
OPEN_QUESTION = Phrase(en="Open question #{id}: {question}", zh="待回答 #{id}：{question}")
HELP_ANSWER = Phrase(en="answer an open question: /answer ID TEXT", zh="回答待答问题：/answer 编号 内容")
CRASHED = Phrase(
    en="This message ended the process three times and is kept aside: “{text}”. /resume tries it again.",
    zh="这条消息三次导致进程退出，已暂存：“{text}”。发送 /resume 可重试。",
)
BUSY_KEPT = Phrase(
    en="Busy: your message is kept, {count} wait before it.",
    zh="正忙：您的消息已保留，前面还有 {count} 条。",
)
NOT_ACCEPTED = Phrase(
    en="Not accepted: too many messages wait here. What you send now is not kept; please send it again later.",
    zh="未接收：排队消息过多。现在发送的内容不会保留，请稍后重发。",
)
TOO_LONG = Phrase(
    en="The conversation is too long for the model, also after shortening it. /new begins a new one; a shorter "
    "message may help too.",
    zh="对话对该模型来说过长，缩短后仍放不下。发送 /new 开始新的对话，或发送更短的消息。",
)
MODEL_IS = Phrase(en="Model: {model}", zh="模型：{model}")
MODEL_NOW = Phrase(en="{model} answers here from now on.", zh="从现在起由 {model} 在此回答。")
MODEL_CHOICES = Phrase(
    en="/model NAME changes it: {names}, or provider/model", zh="/model 名称 可更换：{names}，或 provider/model"
)
NO_SUCH_MODEL = Phrase(en="There is no such model: {reason}", zh="没有这个模型：{reason}")
BUSY_IS = Phrase(
    en="While I work, messages are handled by: {mode} (of {modes})", zh="忙时消息处理方式：{mode}（可选 {modes}）"
)
NOTHING_TO_UNDO = Phrase(en="There is nothing to undo.", zh="没有可撤销的内容。")
UNDONE = Phrase(en="Undone: “{text}” and its answer.", zh="已撤销：“{text}”及其回答。")
HELP_MODEL = Phrase(
    en="show or change the model of this chat: /model [NAME]", zh="查看或更换本对话的模型：/model [名称]"
)
HELP_BUSY = Phrase(
    en="what becomes of messages while I work: /busy [queue|steer|interrupt|collect]",
    zh="忙时消息的处理方式：/busy [queue|steer|interrupt|collect]",
)
HELP_UNDO = Phrase(en="forget the last message and its answer", zh="撤销最后一条消息及其回答")
HELP_RETRY = Phrase(en="answer the last message again", zh="重新回答最后一条消息")
GREETING = Phrase(
    en="Hello! Write to me, and I answer. /help lists the commands.",
    zh="你好！给我发消息，我会回答。发送 /help 查看所有命令。",
)
HELP_START = Phrase(en="say hello", zh="打个招呼")
FILTERED = Phrase(
    en="The model's content filter refused to answer this. Say it otherwise, or try another model (/model).",
    zh="模型的内容过滤器拒绝回答。请换一种说法，或换一个模型（/model）。",
)
REASONING_IS = Phrase(
    en="What the model thinks before it answers is shown here: {state} (on or off)",
    zh="在此显示模型回答前的思考过程：{state}（on 或 off）",
)
HELP_REASONING = Phrase(
    en="show what the model thinks before it answers: /reasoning [on|off]",
    zh="显示模型回答前的思考过程：/reasoning [on|off]",
)
UNDELIVERED = Phrase(
    en="A message to {chat} could not be delivered: {reason}. `nanobee bus retry out-{id}` tries it again.",
    zh="发往 {chat} 的消息无法送达：{reason}。可用 `nanobee bus retry out-{id}` 重试。",
)
UNDELIVERED_HERE = Phrase(en="{count} message(s) could not be delivered here.", zh="有 {count} 条消息未能送达此处。")
