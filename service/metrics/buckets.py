"""Upper bounds of the buckets of histograms."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
STAGE_SECONDS = (0.00025, 0.0005, *SECONDS)
POWERS = tuple(float(2**n) for n in range(11))
TOKENS = tuple(float(2**n) for n in range(16))
RATIOS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75)
