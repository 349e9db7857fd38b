"""Computes machines and money for a number of requests a day."""

import math
from dataclasses import dataclass

from benchmarks.report import markdown

SECONDS_OF_DAY = 86_400.0
HOURS_OF_MONTH = 730.0


@dataclass(frozen=True)
class Demand:
    requests_per_day: float  # requests of a day
    sentences_per_request: float = 1.0  # mean number of sentences of a request
    peak_factor: float = 3.0  # rate of the busiest minutes, divided by the mean rate of the day

    @property
    def sentences_per_second(self) -> float:
        mean = self.requests_per_day * self.sentences_per_request / SECONDS_OF_DAY
        return mean * self.peak_factor


@dataclass(frozen=True)
class Supply:
    cpu_seconds_per_1000: float  # CPU seconds of the server for 1,000 sentences
    cores: int = 2  # cores of a machine
    utilisation: float = 0.6  # share of the cores that may be busy at the peak
    # number of zones. With several, the peak is still served when one zone has failed.
    zones: int = 1
    price_per_core_hour: float = 0.0  # price of a core for an hour, in any currency


@dataclass(frozen=True)
class Plan:
    sentences_per_second: float  # sentences per second at the peak
    busy_cores: float  # cores that are busy at the peak
    machines: int
    mean_utilisation: float  # share of all cores that is busy on average over the day
    price_per_month: float  # price of all machines, for 730 hours
    price_per_million: float  # price of a million sentences


def plan(demand: Demand, supply: Supply) -> Plan:
    """Computes the machines that serve a demand.

    Each zone gets the same number of machines. All zones but one can serve the peak.
    """
    peak = demand.sentences_per_second
    busy_cores = peak * supply.cpu_seconds_per_1000 / 1000
    needed = busy_cores / (supply.utilisation * supply.cores)
    serving_zones = max(1, supply.zones - 1)
    machines = supply.zones * max(1, math.ceil(needed / serving_zones))
    price = machines * supply.cores * HOURS_OF_MONTH * supply.price_per_core_hour
    sentences = demand.requests_per_day * demand.sentences_per_request
    mean_busy = busy_cores / demand.peak_factor
    per_million = price / (sentences * HOURS_OF_MONTH / 24 / 1e6)
    return Plan(
        peak, busy_cores, machines, mean_busy / (machines * supply.cores), price, per_million
    )


def plan_table(demands: list[Demand], supply: Supply) -> str:
    heads = ["requests a day", "sentences/s at the peak", "busy cores", "machines"]
    heads += ["mean utilisation", "price a month", "price for a million sentences"]
    rows = []
    for demand in demands:
        found = plan(demand, supply)
        rows.append(
            [
                f"{demand.requests_per_day:,.0f}",
                *(f"{each:,.3g}" for each in (found.sentences_per_second, found.busy_cores)),
                *(f"{found.machines:,}", f"{found.mean_utilisation:.1%}"),
                *(f"{found.price_per_month:,.2f}", f"{found.price_per_million:,.3f}"),
            ]
        )
    return markdown(heads, rows)
