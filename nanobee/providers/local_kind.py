"""The kind `local`: a model file that runs on this machine, beside the gateway."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from nanobee.phrases import Phrase
from nanobee.providers.kind import ProviderEntry, ProviderKind
from nanobee.providers.local import TINY_CONTEXT_TOKENS, LocalProvider, LocalSettings
from nanobee.providers.model import Model
from nanobee.providers.model_file import SMOLLM2, find_model

TINY_FILE_BYTES = 400 * 1024 * 1024
"""A model in a smaller file gets a short prompt and no tools: it cannot follow more."""
INSTALL_COMMAND = 'pip install "nanobee-gateway[local]"'
GET_COMMAND = "nanobee models get"

TOY_NOTE = Phrase(
    "The toy model {label} answers; it knows little and makes things up. "
    "For a better one, export OPENAI_API_KEY (or another service's key) or start Ollama.",
    "由玩具模型 {label} 回答；它所知甚少，常会编造。"
    "想要更好的模型，请设置 OPENAI_API_KEY（或其他服务的密钥），或启动 Ollama。",
)
NO_PACKAGE = Phrase("the embedded model needs a package: {command}", "内置模型需要一个软件包：{command}")
NO_MODEL_FILE = Phrase("the embedded model has not been fetched: {command}", "内置模型还没有下载：{command}")
NO_OWN_FILE = Phrase("there is no such file", "没有这个文件")


class LocalKind(ProviderKind[LocalSettings]):
    """Makes Models of a file: the user's, or the one that we bring."""

    settings_type = LocalSettings

    def create_model(self, entry: ProviderEntry[LocalSettings], model_name: str) -> Model:
        """The one Model of the entry, whatever it is called."""
        if not has_llama():
            raise entry.refuse(NO_PACKAGE, command=INSTALL_COMMAND)
        if entry.settings.model_path is not None:
            file = _find_own_file(entry.settings.model_path)
            if file is None:
                raise entry.refuse(NO_OWN_FILE, "model_path")
            return _create_own(entry, file)
        file = find_model(entry.environ)
        if file is None:
            raise entry.refuse(NO_MODEL_FILE, command=GET_COMMAND)
        return _create_toy(entry, file)

    async def list_usual_models(self, entry: ProviderEntry[LocalSettings]) -> Sequence[str]:
        """The one that there is."""
        return (SMOLLM2.name if entry.settings.model_path is None else Path(entry.settings.model_path).stem,)


def has_llama() -> bool:
    """Whether the package that runs model files is installed; it is not loaded here."""
    return importlib.util.find_spec("xllamacpp") is not None


def _find_own_file(path: str) -> Path | None:
    try:
        file = Path(path).expanduser().absolute()
        return file if file.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _create_own(entry: ProviderEntry[LocalSettings], file: Path) -> Model:
    is_tiny = file.stat().st_size < TINY_FILE_BYTES
    return Model(
        provider=LocalProvider(entry.name, entry.settings, file, is_tiny=is_tiny),
        label=entry.label(file.stem),
        name=file.stem,
        context_tokens=entry.settings.context_tokens,
        takes_tools=not is_tiny,
        takes_forced_call=False,
        is_tiny=is_tiny,
        note=entry.note(file.stem),
    )


def _create_toy(entry: ProviderEntry[LocalSettings], file: Path) -> Model:
    context_tokens = min(entry.settings.context_tokens, TINY_CONTEXT_TOKENS)
    fitted = entry.settings.model_copy(update={"context_tokens": context_tokens})
    label = entry.label(SMOLLM2.name)
    return Model(
        provider=LocalProvider(entry.name, fitted, file, is_tiny=True),
        label=label,
        name=SMOLLM2.name,
        context_tokens=context_tokens,
        takes_tools=False,
        takes_forced_call=False,
        is_tiny=True,
        note=TOY_NOTE.say(entry.config.language, label=label),
    )
