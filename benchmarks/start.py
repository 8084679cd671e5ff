"""What a start of nanobee costs, as ratios to yardsticks of the same run, against their limits.

    python -m benchmarks.start [--repeat 5] [--durable FILE] [--bin FOLDER]

`--durable` takes another yardstick bot: a script that reads TG_URL, LLM_URL and STATE as benchmarks/durable.py
does. `--bin` names the environment of another installation of nanobee. The repetitions of what is compared
alternate, so that they share the machine's moods; of CPU and time the least counts, of memory the median.
Exits with 1 when a limit is passed. Linux only.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import clean_environment, cpu_seconds, pss_mib, run_for_cpu, running
from benchmarks.servers import Moment, model_server, telegram_server

READY_SECONDS = 60.0
"""How long a process may take until it asks for the first time."""
SETTLE_SECONDS = 3.0
"""How long after its first poll a bot's memory is read."""
HELP_LIMIT, ASK_LIMIT, READY_LIMIT, MEMORY_LIMIT = 12.0, 45.0, 1.8, 1.5
CONFIG = """
workspace: {home}/workspace
state: {home}/state
providers:
  main: {{kind: openai, base_url: "{model_url}", api_key: unused}}
agent: {{model: main/fake}}
"""
TELEGRAM_CONFIG = """
channels:
  telegram: {{kind: telegram, token: "4242:token-of-a-fake-server", allow_from: ["1"], base_url: "{telegram_url}"}}
"""


@dataclass(frozen=True, slots=True)
class Ratio:
    """One line of the table."""

    what: str
    unit: str
    ours: float
    yardstick: float
    limit: float

    @property
    def value(self) -> float:
        return self.ours / self.yardstick


class Start:
    """The measurements, each in an empty home of its own."""

    def __init__(self, binaries: Path, durable: Path, work: Path) -> None:
        self._python = str(binaries / "python")
        self._nanobee = str(binaries / "nanobee")
        self._durable = str(durable)
        self._work = work

    def pass_cpu(self) -> float:
        return run_for_cpu([self._python, "-c", "pass"], clean_environment(self._home()))

    def help_cpu(self) -> float:
        return run_for_cpu([self._nanobee, "--help"], clean_environment(self._home()))

    def ask_cpu(self) -> float:
        """CPU that `nanobee cli -m hi` has used when its request reaches the model."""
        home = self._home()
        pids: list[int] = []
        asked = Moment(lambda: cpu_seconds(pids[0]))
        with model_server(asked) as model_url:
            config = self._write_config(home, CONFIG.format(home=home, model_url=model_url))
            command = [self._nanobee, "cli", "--config", config, "-m", "hi"]
            with running(command, clean_environment(home), home / "log") as process:
                pids.append(process.pid)
                return self._wait(asked, home)

    def gateway(self) -> tuple[float, float]:
        """Seconds until the gateway polls Telegram, and its memory then."""

        def command(home: Path, model_url: str, telegram_url: str) -> Sequence[str]:
            text = (CONFIG + TELEGRAM_CONFIG).format(home=home, model_url=model_url, telegram_url=telegram_url)
            return [self._nanobee, "gateway", "--config", self._write_config(home, text)]

        return self._bot(command)

    def durable(self) -> tuple[float, float]:
        """The same of the yardstick bot."""
        return self._bot(lambda *_: [self._python, self._durable])

    def _bot(self, command: Callable[[Path, str, str], Sequence[str]]) -> tuple[float, float]:
        home = self._home()
        polled = Moment()
        with model_server(Moment()) as model_url, telegram_server(polled) as telegram_url:
            urls = {"TG_URL": telegram_url, "LLM_URL": model_url, "STATE": str(home)}
            environment: Mapping[str, str] = {**clean_environment(home), **urls}
            started_at = time.monotonic()
            with running(command(home, model_url, telegram_url), environment, home / "log") as process:
                ready_seconds = self._wait(polled, home) - started_at
                time.sleep(SETTLE_SECONDS)
                return ready_seconds, pss_mib(process.pid)

    def _home(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._work))

    def _wait(self, moment: Moment, home: Path) -> float:
        try:
            return moment.wait(READY_SECONDS)
        except TimeoutError:
            sys.exit((home / "log").read_text(encoding="utf-8", errors="replace")[-2000:])

    @staticmethod
    def _write_config(home: Path, text: str) -> str:
        path = home / "config.yaml"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        return str(path)


def measure(start: Start, repeat: int) -> list[Ratio]:
    """All ratios; each measurement is made once before, for caches, and not counted."""
    start.help_cpu()
    passes, helps, asks = [], [], []
    for _ in range(repeat * 2):
        passes.append(start.pass_cpu())
        helps.append(start.help_cpu())
        asks.append(start.ask_cpu())
    bare, help_cpu, ask_cpu = (1000 * min(values) for values in (passes, helps, asks))
    start.durable(), start.gateway()
    pairs = [(start.durable(), start.gateway()) for _ in range(repeat)]
    theirs, ours = zip(*pairs, strict=True)
    ready, yardstick_ready = (min(seconds for seconds, _ in runs) for runs in (ours, theirs))
    memory, yardstick_memory = (statistics.median(mib for _, mib in runs) for runs in (ours, theirs))
    return [
        Ratio("nanobee --help / python -c pass", "ms CPU", help_cpu, bare, HELP_LIMIT),
        Ratio("nanobee cli -m hi, to the model / python -c pass", "ms CPU", ask_cpu, bare, ASK_LIMIT),
        Ratio("gateway with Telegram, ready / durable bot", "s", ready, yardstick_ready, READY_LIMIT),
        Ratio("gateway with Telegram, memory / durable bot", "MiB PSS", memory, yardstick_memory, MEMORY_LIMIT),
    ]


def main() -> int:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--durable", type=Path, default=here / "durable.py")
    parser.add_argument("--bin", type=Path, default=Path(sys.executable).parent)
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="nanobee-start-"))
    try:
        ratios = measure(Start(options.bin, options.durable.resolve(), work), options.repeat)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{'what':52} {'nanobee':>9} {'yardstick':>9}  {'unit':8} {'ratio':>6} {'limit':>6}")
    for line in ratios:
        numbers = f"{line.ours:9.2f} {line.yardstick:9.2f}  {line.unit:8} {line.value:6.1f} {line.limit:6.1f}"
        print(f"{line.what:52} {numbers}{'' if line.value <= line.limit else '  TOO MUCH'}")
    return int(any(line.value > line.limit for line in ratios))


if __name__ == "__main__":
    sys.exit(main())
