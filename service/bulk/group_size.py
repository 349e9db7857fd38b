"""The number of rows that an actor computes together.

The rows of a group are computed in the order of their lengths. The sentences of a batch then have
nearly the same length, and end at nearly the same time. A larger group has more sentences of each
length, but more of its rows are computed again if a process is killed.
"""

from service.ipc.machine import uses_gpu, worker_devices
from service.settings import Settings

BATCH_ROWS = {False: 48, True: 1024}
"""Number of rows per batch of a device worker. The key tells whether the worker uses a GPU.

The setting REGARD_MAX_ROWS overrides this number. On two cores, batches of 48 rows take 2 % less
CPU time than batches of 64 rows, the default of a server.
"""

BATCHES_IN_FLIGHT = 32
"""Number of batches of each device worker that the scheduler has at a time."""

GROUP_BATCHES = (4, 40)
"""Smallest and largest number of batches of each device worker in a group."""

GROUP_SECONDS = 2.0


class GroupSize:
    """Chooses the size of groups, so that a group takes about GROUP_SECONDS.

    Args:
        batch_rows: Number of rows of one batch of each device worker.

    Attributes:
        rows: Number of rows of the next group.
        in_flight: Number of rows that the engine computes at a time.
    """

    def __init__(self, batch_rows: int) -> None:
        self.fewest, self.most = [batches * batch_rows for batches in GROUP_BATCHES]
        self.in_flight = BATCHES_IN_FLIGHT * batch_rows
        self.rows = self.fewest
        self.ended = 0.0

    def add(self, rows: int, begun: float, ended: float) -> None:
        """Adapts the size to a computed group.

        Two groups are in progress at a time, and the first of them gets nearly all of the device.
        The time of a group therefore counts from the end of the group before.

        Args:
            rows: Number of rows of the group.
            begun: Time at which the group began, in seconds.
            ended: Time at which the group ended, in seconds.
        """
        seconds = ended - max(begun, self.ended)
        self.ended = ended
        wanted = rows * GROUP_SECONDS / seconds if seconds > 0 else self.most
        self.rows = int(min(max(wanted, self.fewest), self.most))


def batch_rows(settings: Settings, cores: int) -> int:
    """Returns the number of rows in one batch of each device worker of an actor."""
    rows = settings.max_rows or BATCH_ROWS[uses_gpu(settings.device)]
    return rows * len(worker_devices(settings.workers, settings.device, cores))
