"""The server's end of the channel to a device worker."""

import asyncio

from service.ipc.channel import pack
from service.workers.messages import Loaded, LoadFailed, ToWorker, Unloaded, WorkerConfig


class WorkerLostError(Exception):
    """A worker ended before it answered a Load or an Unload."""


class WorkerLink:
    """The server's end of the channel to one worker.

    Args:
        name: Name of the worker.
        writer: Stream to the worker.
        config: First message to the worker.
    """

    def __init__(self, name: str, writer: asyncio.StreamWriter, config: WorkerConfig) -> None:
        self.name = name
        self.writer = writer
        self.config = config
        self.is_lost = False
        self.answers: dict[str, asyncio.Future[Loaded | LoadFailed | Unloaded]] = {}

    def send(self, message: ToWorker) -> None:
        """Sends a message without waiting. The message is lost if the worker is gone.

        The scheduler already combines the items of one turn of the event loop in one message. An
        `Outbox` (`service.ipc.channel`), which combines messages, would only delay this message by
        another turn.
        """
        if not self.writer.is_closing():
            self.writer.write(pack([message]))

    async def ask(self, model: str, message: ToWorker) -> Loaded | LoadFailed | Unloaded:
        """Sends a Load or an Unload, and returns the worker's answer.

        Only one call for a model may wait at a time. If there were a second call, the first one
        would never return.

        Raises:
            WorkerLostError: The worker is gone.
        """
        if self.is_lost:
            raise WorkerLostError(f"{self.name} has ended")
        future: asyncio.Future[Loaded | LoadFailed | Unloaded]
        future = self.answers[model] = asyncio.get_running_loop().create_future()
        self.send(message)
        try:
            return await future
        finally:
            self.answers.pop(model, None)

    def hear(self, model: str, answer: Loaded | LoadFailed | Unloaded) -> None:
        """Takes the worker's answer about a model."""
        future = self.answers.get(model)
        if future is not None and not future.done():
            future.set_result(answer)

    def lose(self) -> None:
        """Marks the worker as ended, and fails all calls of `ask` that wait for its answer."""
        self.is_lost = True
        for future in self.answers.values():
            if not future.done():
                future.set_exception(WorkerLostError(f"{self.name} ended"))
