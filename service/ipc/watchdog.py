"""Kills a child process that hangs or is suspended; its supervisor then starts a new one."""

import asyncio
import logging
from collections.abc import Callable

from service.ipc.processes import Process, end_at_once

logger = logging.getLogger("regard.watchdog")

CHECKS = 10
"""Number of checks of a process in one timeout.

A process is killed when more than this number of checks have expected a message, but found none.
"""


class Watchdog:
    """Watches the messages of one child process.

    The watchdog counts checks, not seconds, because seconds also pass while the server itself is
    suspended. Only a message resets the count. A check that expects no message leaves the count
    unchanged.

    Args:
        name: Name of the process.
        process: The process.
        timeout_seconds: Returns the timeout in seconds. A silent process is killed after this
            time or a little later, and never earlier.
        expects_message: Called before each check. It returns whether the process must send a
            message soon. It may also send a Ping, which the process must answer.

    Attributes:
        num_heard: Number of messages from the process.
    """

    def __init__(
        self,
        name: str,
        process: Process,
        timeout_seconds: Callable[[], float],
        expects_message: Callable[[], bool],
    ) -> None:
        self.name = name
        self.process = process
        self.timeout_seconds = timeout_seconds
        self.expects_message = expects_message
        self.num_heard = 0

    def hear(self) -> None:
        """Counts a message of the process."""
        self.num_heard += 1

    async def run(self) -> None:
        """Checks the process until this method kills it. The caller may cancel the checks."""
        num_silent, num_heard = 0, 0
        while num_silent <= CHECKS:
            await asyncio.sleep(self.timeout_seconds() / CHECKS)
            expects_message = self.expects_message()
            if self.num_heard != num_heard:
                num_silent, num_heard = 0, self.num_heard
            elif expects_message:
                num_silent += 1
        logger.error("%s has sent nothing for more than %.3g s", self.name, self.timeout_seconds())
        end_at_once(self.process)
