"""Command lines and code with which a user can ask the demo's server by hand.

Pure but for the vocabulary in the cache. Everything here can be pasted as it is.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headway.demo.assets import DemoAssets

__all__ = ["curl_command", "tritonclient_code"]

_SENTENCE: Final = "A man is eating food."


def curl_command(cache: Path, models: Sequence[str], url: str) -> str:
    """One line that gets an answer; a sentence's vector, where that model is served."""
    if "minilm" not in models:
        return f"curl -s {url}/v2/models/{models[0]}"
    ids = _token_ids(cache)
    tensors = ", ".join(
        f'{{"name": "{name}", "shape": [1, {len(ids)}], "datatype": "INT64", "data": {data}}}'
        for name, data in (("input_ids", ids), ("attention_mask", [1] * len(ids)))
    )
    return (
        f"curl -s {url}/v2/models/minilm/infer -H 'headway-tier: interactive' "
        f"-d '{{\"inputs\": [{tensors}]}}' | head -c 300"
    )


def tritonclient_code(cache: Path, models: Sequence[str], url: str) -> list[str]:
    """The same with Triton's client, for a Python prompt; nothing without that model."""
    if "minilm" not in models:
        return []
    return [
        "import numpy, tritonclient.http as http   # pip install tritonclient[http]",
        f'client = http.InferenceServerClient("{url.removeprefix("http://")}")',
        f"ids = numpy.array([{_token_ids(cache)}])   # {_SENTENCE}",
        'values = {"input_ids": ids, "attention_mask": numpy.ones_like(ids)}',
        'inputs = [http.InferInput(name, ids.shape, "INT64") for name in values]',
        "for tensor in inputs: tensor.set_data_from_numpy(values[tensor.name()])",
        "",
        'reply = client.infer("minilm", inputs, headers={"headway-tier": "interactive"})',
        'print(reply.as_numpy("embedding")[0, :8])',
    ]


def _token_ids(cache: Path) -> list[int]:
    return list(DemoAssets(cache).tokenizer.encode(_SENTENCE, tokens_max=32))
