"""Chooses the number of replicas by the waiting tokens and the used rows of all replicas.

Ray Serve copies this module by value into its controller. The module therefore imports
nothing of the server.
"""

import math
from typing import Any

from ray.serve.config import AutoscalingContext

QUEUED_TOKENS = "queued_tokens"
"""Name under which each replica reports the source tokens of its waiting sentences and texts."""

USED_ROWS = "used_rows"
"""Name under which each replica reports the largest share of used batch rows of any model."""

KEPT_ROWS = 0.5
"""A replica is kept if the others would otherwise use a larger share of their rows, on average.

Without this limit, an empty queue would remove busy replicas. Only waiting tokens add a replica.
"""


class QueuedTokensPolicy:
    """Needs a replica for each `target_tokens`. Ray Serve applies the limits and the delays."""

    def __init__(self, target_tokens: float) -> None:
        self.target_tokens = target_tokens

    def __call__(self, context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        metrics = context.aggregated_metrics or {}
        tokens = sum(metrics.get(QUEUED_TOKENS, {}).values())
        used = sum(metrics.get(USED_ROWS, {}).values())
        for_rows = min(context.current_num_replicas, math.ceil(used / KEPT_ROWS))
        return max(1, math.ceil(tokens / self.target_tokens), for_rows), {}
