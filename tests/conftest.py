"""Configures all tests, so that none depends on the current speed of the machine.

Numpy computes with one thread. With more, the threads of several test processes wait for each
other in busy loops. Child processes inherit the variable.
"""

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile("regard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("regard")
