"""Configures all tests, so that none depends on the current speed of the machine."""

from hypothesis import HealthCheck, settings

settings.register_profile("regard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("regard")
