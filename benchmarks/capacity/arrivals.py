"""Draws random times of requests for a trace that stands for a day, with calm periods and bursts.

The rate follows a daily curve, which is high in the middle of the trace. Bursts begin at random
times. During a burst, the rate is constant and does not follow the curve. The bursts and the calm
periods alternate as in a Markov-modulated Poisson process with two states.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

NIGHT, DAY, BURST = "night", "day", "burst"
KINDS = (NIGHT, DAY, BURST)


@dataclass(frozen=True)
class Shape:
    seconds: float  # length of the trace
    mean_rate: float  # requests per second outside bursts, averaged over the trace
    # largest deviation of the daily curve from `mean_rate`, as a share of `mean_rate`
    swing: float = 0.5
    burst_rate: float = 0.0  # mean requests per second in bursts
    # the rate of each burst differs from `burst_rate` by at most this share
    burst_spread: float = 0.2
    burst_seconds: float = 30.0  # mean length of a burst
    # mean time between two bursts; `math.inf` for a trace without bursts
    calm_seconds: float = math.inf
    seed: int = 1  # seed of the random numbers

    def daily_rate(self, moment: float) -> float:
        turn = 2 * math.pi * moment / self.seconds
        return self.mean_rate * (1 - self.swing * math.cos(turn))


@dataclass(frozen=True)
class Period:
    """A part of a trace."""

    begin: float  # start in seconds from the start of the trace
    end: float  # end in seconds from the start of the trace
    kind: str  # `night`, `day` or `burst`
    rate: Callable[[float], float]  # function that returns the requests per second at a given time
    peak: float  # largest value of `rate`

    @property
    def mean_rate(self) -> float:
        return self.rate((self.begin + self.end) / 2)


@dataclass(frozen=True)
class Trace:
    """The arrivals of requests, at random times."""

    moments: list[float]  # times of the requests, in seconds from the start
    texts: list[int]  # index of the sentence of each request
    periods: list[Period]  # periods of the trace, in order

    def first(self, number: int) -> "Trace":
        return replace(self, moments=self.moments[:number], texts=self.texts[:number])

    def kind_at(self, moment: float) -> str:
        begins = [period.begin for period in self.periods]
        return self.periods[max(0, bisect_right(begins, moment) - 1)].kind


def constant(rate: float) -> Callable[[float], float]:
    return lambda moment: rate


def poisson(shape: Shape) -> list[Period]:
    return [Period(0.0, shape.seconds, DAY, constant(shape.mean_rate), shape.mean_rate)]


def day(shape: Shape, generator: random.Random) -> list[Period]:
    """Divides a trace into periods of night, day and bursts. A burst has a constant rate."""
    found: list[Period] = []
    for begin, end in _bursts(shape, generator):
        found += _calm(shape, found[-1].end if found else 0.0, begin)
        spread = shape.burst_spread
        rate = shape.burst_rate * generator.uniform(1 - spread, 1 + spread)
        found.append(Period(begin, end, BURST, constant(rate), rate))
    return found + _calm(shape, found[-1].end if found else 0.0, shape.seconds)


def _bursts(shape: Shape, generator: random.Random) -> Iterator[tuple[float, float]]:
    if math.isinf(shape.calm_seconds):
        return
    moment = generator.expovariate(1 / shape.calm_seconds)
    while moment < shape.seconds:
        end = moment + generator.expovariate(1 / shape.burst_seconds)
        yield moment, min(end, shape.seconds)
        moment = end + generator.expovariate(1 / shape.calm_seconds)


def _calm(shape: Shape, begin: float, end: float) -> list[Period]:
    """Divides the time between two bursts at the times where day and night change."""
    cuts = [begin, *(c for c in (shape.seconds / 4, 3 * shape.seconds / 4) if begin < c < end), end]
    peak = shape.mean_rate * (1 + shape.swing)
    periods = []
    for start, stop in zip(cuts, cuts[1:], strict=False):
        is_day = shape.seconds / 4 <= (start + stop) / 2 <= 3 * shape.seconds / 4
        periods.append(Period(start, stop, DAY if is_day else NIGHT, shape.daily_rate, peak))
    return periods


def record(periods: list[Period], num_texts: int, seed: int) -> Trace:
    """Draws the times of requests, and a sentence for each."""
    generator = random.Random(seed)
    moments: list[float] = []
    for period in periods:
        moment = period.begin
        while (moment := moment + generator.expovariate(period.peak)) < period.end:
            if generator.random() * period.peak < period.rate(moment):  # thinning
                moments.append(moment)
    texts = [generator.randrange(num_texts) for _ in moments]
    return Trace(moments, texts, periods)


def day_trace(shape: Shape, num_texts: int) -> Trace:
    return record(day(shape, random.Random(shape.seed)), num_texts, shape.seed)
