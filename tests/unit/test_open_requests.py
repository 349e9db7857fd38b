"""The running requests that the unloading of a model waits for."""

import asyncio

from service.api.context import CHECK_SECONDS, OpenRequests
from service.metrics.figures import NO_MODEL
from service.tasks.context import RequestContext


def request(model: str) -> RequestContext:
    return RequestContext("id", model=model)


async def test_requests_for_the_model_and_those_yet_unknown_are_waited_for() -> None:
    requests = OpenRequests()
    of_model, of_other, unknown = request("a"), request("b"), request(NO_MODEL)
    for each in (of_model, of_other, unknown):
        requests.begin(each)
    waiting = asyncio.create_task(requests.drained({"a"}))
    await asyncio.sleep(0)
    later = request("a")  # begun after the model was removed
    requests.begin(later)
    requests.end(of_model)
    await asyncio.sleep(2 * CHECK_SECONDS)
    assert not waiting.done()
    requests.end(unknown)
    await waiting
    await requests.drained({"c"})
