"""The attacks of `benchmarks.attacks` for a second each: sentences beside them are answered.

`tests.api.test_connections_memory` has the replies that are read slowly.
"""

import asyncio
import threading
from contextlib import suppress

import pytest

from benchmarks.attacks import ATTACKS
from tests.api.conftest import ServeLive
from tests.workers import until

BUDGET = 16 * 2**20
ATTACK_SECONDS = 1.5


async def attack(name: str, port: int) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(ATTACKS[name](port), ATTACK_SECONDS)


@pytest.mark.parametrize("name", sorted(ATTACKS.keys() - {"slow_readers"}))
def test_sentences_are_answered_beside_an_attack(serve_live: ServeLive, name: str) -> None:
    server = serve_live(max_buffered_bytes=BUDGET)
    attacker = threading.Thread(target=asyncio.run, args=(attack(name, server.port),))
    attacker.start()
    peak = answered = 0
    while attacker.is_alive():
        assert server.translate("Hello.").json() == {"translatedText": "Hello."}
        answered += 1
        peak = max(peak, server.pool.budget.used)
    attacker.join()
    assert answered
    # Replies that are computed already are not refused, and may exceed the budget for a moment.
    assert peak <= BUDGET + 2**20
    until(lambda: not server.pool.connections)
    assert (server.pool.budget.used, len(server.pool.budget.transfers)) == (0, 0)
    assert server.translate("Hello.").status_code == 200
