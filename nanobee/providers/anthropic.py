"""AnthropicProvider: any server that speaks the Anthropic Messages API."""

from nanobee.chat import Completion, CompletionRequest
from nanobee.config import AnthropicSettings
from nanobee.errors import ContextLengthError, RequestRefusedError
from nanobee.messages import Json, JsonObject
from nanobee.providers.anthropic_answer import AnthropicAnswer
from nanobee.providers.anthropic_models import find_traits
from nanobee.providers.anthropic_wire import build_body, build_headers
from nanobee.providers.model_client import ModelClient, read_key
from nanobee.providers.provider import OnDelta, ignore_delta
from nanobee.providers.request_body import encode_body

API_VERSION = "2023-06-01"
MIN_LONG_BYTES = 150_000
"""A shorter request cannot be longer than any window: a token is one byte at least."""

_COUNTED = ("model", "messages", "system", "tools")


class AnthropicProvider:
    """Asks one server. It asks once: what to do about an error is its caller's to decide.

    Raises:
        ConfigError: the address or the proxy cannot be used.
    """

    def __init__(self, name: str, settings: AnthropicSettings) -> None:
        self._settings = settings
        self._base_url = settings.base_url.rstrip("/").removesuffix("/v1") + "/v1"
        headers = {"anthropic-version": API_VERSION}
        if key := read_key(settings):
            headers["x-api-key"] = key
        self._client = ModelClient(name, settings, f"{self._base_url}/messages", headers)
        self._source = f"anthropic:{self._client.netloc}"

    async def complete(self, request: CompletionRequest, on_delta: OnDelta = ignore_delta) -> Completion:
        """Ask the model once.

        Raises:
            ProviderError: one of its kinds.
        """
        traits = find_traits(request.model)
        if request.response_schema is not None and not traits.takes_schema:
            raise RequestRefusedError(f"{self._client.who} cannot hold a model to a schema, or not this one.")
        body = build_body(request, traits, stream=self._settings.stream, source=self._source)
        encoded = encode_body(body)
        answer = AnthropicAnswer(self._client.who, self._client.secret, self._source)
        try:
            await self._client.ask(encoded, answer, on_delta, build_headers(traits))
        except RequestRefusedError as error:
            if len(encoded) >= MIN_LONG_BYTES and await self._is_too_long(body):
                raise ContextLengthError(str(error)) from error
            raise
        return answer.completion()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _is_too_long(self, body: JsonObject) -> bool:
        """Whether a refused request is longer than the window. The refusal has no code for that, so it is counted."""
        counted = encode_body({key: body[key] for key in _COUNTED if key in body})
        tokens = await self._client.look_up(f"{self._base_url}/messages/count_tokens", counted)
        model = await self._client.look_up(f"{self._base_url}/models/{body['model']}")
        return _number(tokens.get("input_tokens")) > (_number(model.get("max_input_tokens")) or float("inf"))


def _number(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
