"""Layers that lie in host memory and are streamed through the device, once each step.

A model of n layers of b bytes keeps n - h of them on the device; the other h are copied in, one
after another, while those before them are computed. Two buffers of a layer take part in that, one
that is filled and one that is read, so the device has room for (h - 2) b bytes more of keys and
values. A step takes as long as its computing or its copying, whichever is longer:

    step' = max(step, h b / link).

Copies cost nothing while steps compute for longer than that: a step with 2,048 tokens of prompt, of
a model of eight billion parameters, hides a few layers. One that only decodes reads the weights
from device memory in a fraction of that time and hides nothing: decoding pays for every layer. So
this is for prompts, and for models that would not fit otherwise.

Knows layers, bytes and a law of steps. Refuses to know schedulers.
"""

from msgspec import Struct
from msgspec.structs import replace

from headway.generate.step_times import StepLaw
from headway.units import NS_PER_S

__all__ = ["LayerOffload", "StreamedSteps"]

_BUFFERS = 2


class LayerOffload(Struct, frozen=True, kw_only=True):
    """How many layers lie on the host, and what brings them.

    Raises:
        ValueError: fewer than none, all of no bytes, or a link that carries nothing.
    """

    layers: int
    """Of the model, on the host."""
    layer_bytes: int
    link_bytes_per_s: float

    def __post_init__(self) -> None:
        if self.layers < 0 or self.layer_bytes < 1 or self.link_bytes_per_s <= 0.0:
            raise ValueError("layers have bytes, and a link carries some")

    @property
    def freed_bytes(self) -> int:
        """Of the device's memory, for keys and values; below 0 where the buffers take more."""
        return (self.layers - _BUFFERS) * self.layer_bytes if self.layers else 0

    @property
    def stream_ns(self) -> float:
        """To bring all of them once."""
        return self.layers * self.layer_bytes * NS_PER_S / self.link_bytes_per_s

    def law(self, law: StepLaw) -> StepLaw:
        """What a scheduler can believe of such steps: prompt tokens ride while copies last."""
        if self.stream_ns <= law.base_ns or law.prefill_ns <= 0.0:
            return law
        riding_tokens = int((self.stream_ns - law.base_ns) / law.prefill_ns)
        return replace(law, base_ns=self.stream_ns, free_tokens=law.free_tokens + riding_tokens)


class StreamedSteps:
    """How long steps of such an engine take."""

    def __init__(self, law: StepLaw, offload: LayerOffload) -> None:
        self._law = law
        self._stream_ns = offload.stream_ns

    def step_ns(
        self, prefill_tokens: int, decode_count: int, context_tokens: int, pair_tokens: int = 0
    ) -> float:
        """As `StepLaw.step_ns`, and no less than the copies take; an empty one takes no time."""
        step_ns = self._law.step_ns(prefill_tokens, decode_count, context_tokens, pair_tokens)
        return max(step_ns, self._stream_ns) if step_ns else 0.0
