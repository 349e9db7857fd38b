"""Clients of attention beside clients that translate and clients that disconnect.

The slices of a worker wait for the test, so that the running items are known.
"""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from model.encoding.capture_pass import TeacherForcedPass
from service.scheduling.policies import MAX_SLOTS
from service.server import create_app
from service.workers import loading
from tests.api.conftest import REAL
from tests.api.servers import LiveServer, Server, SocketServer, make_settings
from tests.api.test_attention import CAT, asking
from tests.api.test_disconnect import post_of
from tests.workers import PULSE_SECONDS, LoadTranslationModel, Threads, opened, until

pytestmark = pytest.mark.checkpoint


class Gate:
    """Holds attention back in the workers of this process.

    Attributes:
        may_advance: Until it is set, slices take a moment and change nothing.
        begun: Jobs of each pass that was begun.
    """

    def __init__(self) -> None:
        self.may_advance = opened()
        self.begun: list[int] = []


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate()

    class GatedPass(TeacherForcedPass):
        is_begun = False

        def advance(self) -> bool:
            if not self.is_begun:
                self.is_begun = True
                found.begun.append(len(self.captured))
            return not found.may_advance.wait(PULSE_SECONDS) or super().advance()

    monkeypatch.setattr(loading, "TeacherForcedPass", GatedPass)
    yield found
    found.may_advance.set()


def send(server: SocketServer, path: str, text: str | list[str]) -> socket.socket:
    fields: dict[str, Any] = {"query": 0} if path.endswith("steps") else {}
    if path == "/translate":
        fields = {"q": text, "return_alignment": True}
    connection = server.connect()
    connection.sendall(post_of({**asking(text), **fields}, path))
    return connection


@pytest.fixture(params=["live", "apart"])
def server(
    request: pytest.FixtureRequest, load_real: LoadTranslationModel, gate: Gate
) -> Iterator[SocketServer]:
    if request.param == "apart":
        yield request.getfixturevalue("serve_real")(dtype="float32")
        return
    with LiveServer(
        create_app(make_settings(**REAL | {"dtype": "float32"}), Threads(load_real))
    ) as live:
        yield live


@pytest.mark.parametrize("path", ["/attention", "/attention/steps", "/translate"])
def test_client_that_leaves_frees_its_slot(server: SocketServer, gate: Gate, path: str) -> None:
    gate.may_advance.clear()
    with send(server, path, CAT):
        until(lambda: gate.begun)
    until(lambda: server.num_cancelled("running", task="attention") == 1)
    task = "translate" if path == "/translate" else "attention"
    until(lambda: server.num_requests("cancelled", task=task) == 1)
    assert server.core.admission.tokens == server.core.admission.requests == 0
    gate.may_advance.set()
    with send(server, "/attention", CAT) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
    assert gate.begun == [1, 1]


def test_client_that_leaves_has_no_waiting_items(server: SocketServer, gate: Gate) -> None:
    """Its waiting items are dropped and its running items aborted; another client is answered."""
    gate.may_advance.clear()
    labels = {"task": "attention", "model": "en-pt", "lane": "interactive"}
    with send(server, "/attention", [f"Cat {n}." for n in range(MAX_SLOTS + 3)]):
        until(lambda: server.sample("regard_queue_depth", **labels) == 3)
        staying = send(server, "/attention", CAT)
        until(lambda: server.sample("regard_queue_depth", **labels) == 4)
    until(lambda: server.num_cancelled("queued", task="attention") == 3)
    assert server.num_cancelled("running", task="attention") == MAX_SLOTS
    gate.may_advance.set()
    with staying:
        assert staying.recv(12) == b"HTTP/1.1 200"
    assert server.sample("regard_queue_depth", **labels) == 0


def test_translations_are_answered_while_attention_waits(server: SocketServer, gate: Gate) -> None:
    gate.may_advance.clear()
    with send(server, "/attention", CAT) as connection:
        until(lambda: gate.begun)
        for number in range(5):
            assert server.translate(f"It is {number}.").status_code == 200
        gate.may_advance.set()
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_attention_is_answered_while_translations_run(float_server: Server) -> None:
    texts = [f"The {number} cats sat on the mat and looked." for number in range(12)]
    expected = float_server.post("/attention", json=asking(texts[0])).json()
    translating = [float_server.begin_translate(texts) for _ in range(6)]
    asked = [
        float_server.begin("POST", "/attention", json=asking(texts[0], kinds=["encoder", "cross"]))
        for _ in range(6)
    ]
    for each in asked:
        (found,) = each.result().json()["items"]
        assert found["alignment"] == expected["items"][0]["alignment"]
        assert found["attentions"][1] == expected["items"][0]["attentions"][0]
    replies = {tuple(each.result().json()["translatedText"]) for each in translating}
    assert len(replies) == 1
