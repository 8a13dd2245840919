"""Keys and values of vLLM's preempted requests in host memory: the connector beside the scheduler.

vLLM knows only one way to preempt, which is to compute again. It has an interface for those who
bring keys and values from elsewhere, and here elsewhere is the host: what the scheduler's plan
swaps out is copied before its blocks are written over, and given back as tokens that need not be
computed when the request begins again.

    scheduler's side   `save` by the plan; what is kept is offered when the request comes back
    worker's side       copies, in the order of the model's own work: both before a step

What vLLM's prefix cache still has of a request is not copied back. Copies wait for each other and
for the step; there is nothing under way between two steps.

Touches vLLM's interface for connectors, and tensors without naming their library. Refuses to know
why a request was preempted.
"""

from typing import Any, NamedTuple

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
)

from headway.errors import ConfigError

__all__ = ["SwapConnector", "SwapWork"]


class _Kept(NamedTuple):
    """What the host has of a request."""

    ticket: int
    block_first: int
    """Index, among the request's blocks, of the first that is kept."""
    end: int
    """The tokens before it are there: in the prefix, or kept."""


class _Save(NamedTuple):
    """Copy these blocks out."""

    ticket: int
    block_ids: list[int]


class _Load(NamedTuple):
    """Copy what is kept, but for the first so many blocks, into these."""

    ticket: int
    skip: int
    block_ids: list[int]


class SwapWork(KVConnectorMetadata):  # type: ignore[misc]
    """What the workers copy around one step."""

    def __init__(self, saves: list[_Save], loads: list[_Load], drops: list[int]) -> None:
        self.saves, self.loads, self.drops = saves, loads, drops


class SwapConnector(KVConnectorBase_V1):  # type: ignore[misc]
    """Both sides of it; vLLM makes one in the scheduler and one in each worker.

    Invariants: a worker keeps what the scheduler's side has a ticket for, as of the last step.
    """

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._block_tokens = vllm_config.cache_config.block_size
        self._block_count = kv_cache_config.num_blocks
        self._ticket = 0
        self._kept: dict[str, _Kept] = {}
        self._saves: list[_Save] = []
        self._loads: list[_Load] = []
        self._drops: list[int] = []
        self._caches: list[tuple[Any, bool]] = []
        """Of each layer: the tensor, and whether blocks are its second dimension."""
        self._host: dict[int, list[Any]] = {}
        """Ticket -> the blocks of each layer."""

    # -- the scheduler's side ----------------------------------------------------------------------

    def save(self, request_id: str, block_first: int, block_ids: list[int], end: int) -> None:
        """Keep a request's tokens up to an end, whose blocks from the first on are these."""
        self.forget(request_id)
        self._ticket += 1
        self._kept[request_id] = _Kept(self._ticket, block_first, end)
        self._saves.append(_Save(self._ticket, block_ids))

    def forget(self, request_id: str) -> None:
        """What is kept of a request is of no use; there may be nothing."""
        kept = self._kept.pop(request_id, None)
        if kept is not None:
            self._drops.append(kept.ticket)

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """Tokens beyond the prefix cache's that are kept; they are there when the step begins."""
        kept = self._kept.get(request.request_id)
        if kept is None:
            return 0, False
        if num_computed_tokens < kept.block_first * self._block_tokens:
            self.forget(request.request_id)  # the prefix that it goes on from is gone
            return 0, False
        return max(0, kept.end - num_computed_tokens), False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """The request begins, with blocks for what is kept."""
        kept = self._kept.pop(request.request_id, None)
        if kept is None:
            return
        if num_external_tokens > 0:
            first = (kept.end - num_external_tokens) // self._block_tokens
            block_ids = blocks.get_block_ids()[0][first : -(-kept.end // self._block_tokens)]
            self._loads.append(_Load(kept.ticket, first - kept.block_first, block_ids))
        self._drops.append(kept.ticket)

    def build_connector_meta(self, scheduler_output: Any) -> SwapWork:
        """What the workers do for this step."""
        work = SwapWork(self._saves, self._loads, self._drops)
        self._saves, self._loads, self._drops = [], [], []
        return work

    def request_finished(
        self, request: Any, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        """Nothing of it is kept on, and its blocks are free."""
        self.forget(request.request_id)
        return False, None

    # -- the worker's side -------------------------------------------------------------------------

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        """Where keys and values lie.

        Raises:
            ConfigError: a layer's cache is of a shape whose blocks cannot be told.
        """
        self._caches = []
        for name, cache in kv_caches.items():
            if self._block_count not in cache.shape[:2]:
                raise ConfigError(
                    f"swap: the cache of layer `{name}` has the shape `{tuple(cache.shape)}`,"
                    f" in which `{self._block_count}` blocks are not to be found",
                    hint="leave out --kv-transfer-config: victims are then recomputed",
                )
            self._caches.append((cache, cache.shape[0] != self._block_count))

    def handle_preemptions(self, kv_connector_metadata: SwapWork) -> None:
        """Copy out, before the step can write over it."""
        for ticket, block_ids in kv_connector_metadata.saves:
            self._host[ticket] = [
                (cache[:, block_ids] if is_second else cache[block_ids]).cpu()
                for cache, is_second in self._caches
            ]

    def start_load_kv(self, forward_context: Any, **rest: Any) -> None:
        """Copy in, before the step reads it."""
        work = self._get_connector_metadata()
        for ticket, skip, block_ids in work.loads:
            for (cache, is_second), kept in zip(self._caches, self._host[ticket], strict=True):
                if is_second:
                    cache[:, block_ids] = kept[:, skip:].to(cache.device)
                else:
                    cache[block_ids] = kept[skip:].to(cache.device)
        for ticket in work.drops:
            self._host.pop(ticket, None)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing is under way."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: Any, attn_metadata: Any, **rest: Any
    ) -> None:
        """Only victims are saved."""

    def wait_for_save(self) -> None:
        """Nothing is under way."""
