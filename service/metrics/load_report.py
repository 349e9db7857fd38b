"""Reports the load of the server to load-balancing proxies, in the format of ORCA.

ORCA (Open Request Cost Aggregation) is a standard that Envoy and gRPC support.

Source: https://github.com/cncf/xds/blob/main/xds/data/orca/v3/orca_load_report.proto
"""

from dataclasses import dataclass

HEADER = b"endpoint-load-metrics"

INTERVAL_SECONDS = 0.5
"""Time between two samples of the load, while requests arrive."""

SMOOTHING = 0.4
"""Weight of the newest sample in the reported numbers."""

MIN_RATE = 0.01
"""Smallest reported rate. A proxy ignores a report with the rate 0. A server that fails all
requests therefore reports this rate, so that the proxy sends it few requests."""


@dataclass(frozen=True, slots=True)
class Load:
    # Larger of the used shares of the request limit and of the token limit.
    utilization: float = 0.0
    work_seconds: float = 0.0  # estimated time to compute the tokens in progress
    num_ok: int = 0  # successful requests since the start


class LoadReport:
    """Computes the value of the response header from samples of the load.

    The proxy computes the weight of a server as its rate divided by its utilization. The
    utilization is proportional to the work in progress. By Little's law, the weight is therefore a
    constant divided by the response time. Servers with equal settings have the same constant.
    Refused and failed requests do not count in the rate, so a server that refuses fast attracts no
    load.
    """

    def __init__(self) -> None:
        self.value = b""  # empty before the second sample, and at the first sample after a pause
        self._last: tuple[float, int] | None = None
        self._rate = 0.0
        self._utilization = 0.0

    def add(self, load: Load, now: float) -> None:
        last, self._last = self._last, (now, load.num_ok)
        if last is None or now - last[0] > 4 * INTERVAL_SECONDS:
            self.value = b""  # after a pause, the old numbers have no meaning
            return
        rate = (load.num_ok - last[1]) / (now - last[0])
        weight = SMOOTHING if self.value else 1.0
        self._rate += weight * (rate - self._rate)
        self._utilization += weight * (load.utilization - self._utilization)
        self.value = (
            f"TEXT application_utilization={max(self._utilization, 1e-6):.6f},"
            f"rps_fractional={max(self._rate, MIN_RATE):.2f},"
            f"named_metrics.work_seconds={load.work_seconds:.3f}"
        ).encode("ascii")
