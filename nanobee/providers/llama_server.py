"""The child process that runs llama.cpp's own HTTP server: `python -m nanobee.providers.llama_server`.

It reads one line of JSON from its input (the order, which holds the key and so is no argument),
writes one line of JSON when the server answers (`address`) or cannot (`fault`), and ends when its
input ends: with its parent, however that died. It imports nothing of ours.
"""

import json
import os
import signal
import sys
from typing import Any, TextIO

PROMPT_CACHE_MIB = 64
"""For the prompts of chats that had to give up their slot; the library's own bound is 8 GiB."""
_SILENT = 0
_READ_BATCH_TOKENS = 512


def main() -> None:
    """Serve until the input ends."""
    try:
        _serve()
    finally:
        # Without the library's own tear-down, which can wait for its threads for ever.
        os._exit(0)


def _serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = json.loads(sys.stdin.readline())
    answers = _take_stdout()
    answer, server = _open_server(order)
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    if server is not None:
        sys.stdin.read()


def _take_stdout() -> TextIO:
    """Our line's way out; whatever the native code prints goes nowhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    return answers


def _open_server(order: dict[str, Any]) -> tuple[dict[str, str], object]:
    try:
        import xllamacpp
    except ImportError:
        return {"fault": "package"}, None
    try:
        server = xllamacpp.Server(_build_params(xllamacpp, order))
    except RuntimeError:
        return {"fault": "model"}, None
    return {"address": server.listening_address}, server


def _build_params(xllamacpp: Any, order: dict[str, Any]) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = order["model_path"]
    params.model_alias = {order["model_name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    # Without a key, any page in a browser on this machine could use the model.
    params.api_keys = [order["api_key"]]
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = _SILENT
    params.n_parallel = order["slots"]
    params.n_ctx = order["context_tokens"] * order["slots"]
    params.n_batch = params.n_ubatch = _READ_BATCH_TOKENS
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order["threads"]
    # Threads that spin while they wait for work take it from whoever has some.
    params.cpuparams.poll = params.cpuparams_batch.poll = 0
    if order["is_tiny"]:
        _tune_for_tiny(xllamacpp, params)
    return params


def _tune_for_tiny(xllamacpp: Any, params: Any) -> None:
    """What suits a model of 100 million parameters: cool, and kept from repeating itself."""
    params.fit_params = False
    params.sampling.temp = 0.2
    params.sampling.top_p = 0.9
    params.sampling.penalty_repeat = 1.1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_Q8_0


if __name__ == "__main__":
    main()
