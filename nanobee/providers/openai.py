"""OpenAIProvider: any server that speaks the OpenAI chat-completions API."""

from functools import cache

from nanobee.chat import Completion, CompletionRequest
from nanobee.config import OpenAISettings
from nanobee.providers.dialect import Dialect, find_dialect
from nanobee.providers.model_client import ModelClient, read_key
from nanobee.providers.openai_answer import AnswerAssembler
from nanobee.providers.openai_wire import build_body
from nanobee.providers.provider import OnDelta, ignore_delta
from nanobee.providers.request_body import encode_body


class OpenAIProvider:
    """Asks one server. It asks once: what to do about an error is its caller's to decide.

    Args:
        name: the provider's own, as people know it.
        settings: where the server is, and how long it may take.
        dialect: the server's peculiarities; None takes what is known of its address and models.

    Raises:
        ConfigError: the address or the proxy cannot be used.
    """

    def __init__(self, name: str, settings: OpenAISettings, dialect: Dialect | None = None) -> None:
        self._settings = settings
        key = read_key(settings)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        url = settings.base_url.rstrip("/") + "/chat/completions"
        self._client = ModelClient(name, settings, url, headers)
        self._source = f"openai:{self._client.netloc}"
        netloc, dialect_name = self._client.netloc, settings.dialect

        @cache
        def find(model: str) -> Dialect:
            return dialect or find_dialect(netloc, model, dialect_name)

        self._find_dialect = find

    async def complete(self, request: CompletionRequest, on_delta: OnDelta = ignore_delta) -> Completion:
        """Ask the model once.

        Raises:
            ProviderError: one of its kinds.
        """
        dialect = self._find_dialect(request.model)
        body = build_body(request, dialect, stream=self._settings.stream, source=self._source)
        answer = AnswerAssembler(self._client.who, self._client.secret, dialect, self._source)
        await self._client.ask(encode_body(body), answer, on_delta)
        return answer.completion()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()
