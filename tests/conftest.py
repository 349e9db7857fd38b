"""For all tests: none is about how fast this machine is at the moment."""

from hypothesis import HealthCheck, settings

settings.register_profile("regard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("regard")
