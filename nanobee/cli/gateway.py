"""`nanobee gateway`: every configured channel and the agent, in one process."""

from nanobee.cli.options import ConfigOption, LogLevel, LogLevelOption
from nanobee.cli.running import load, prepare, run, start_quickly


def gateway(config: ConfigOption = None, log_level: LogLevelOption = LogLevel.INFO) -> None:
    """Run the configured channels and the agent.

    It ends on SIGTERM or Ctrl-C. The log goes to standard error.
    """
    start_quickly()
    settings = load(config)
    if not settings.channels:
        from nanobee.errors import ConfigError
        from nanobee.phrases import Phrase

        no_channel = Phrase(
            'none is configured; add one, for example: telegram: {{kind: telegram, token: "${{TELEGRAM_TOKEN}}", '
            'allow_from: ["12345"]}}. `nanobee cli` needs none',
            '没有配置任何渠道；请添加一个，例如：telegram: {{kind: telegram, token: "${{TELEGRAM_TOKEN}}", '
            'allow_from: ["12345"]}}。`nanobee cli` 不需要渠道',
        )
        raise ConfigError([settings.origin.problem(("channels",), no_channel.say(settings.language))])
    prepare(settings, log_level, None)
    run(settings)
