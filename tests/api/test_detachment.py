"""The field `detachment` of POST /attention, with the built-in models."""

import numpy as np
import pytest

from tests.api.servers import Server
from tests.api.test_attention import CAT, ask, asking, data, item

pytestmark = pytest.mark.checkpoint

TEXT = "The children went to the beach with their parents because the weather was beautiful."
UNRELATED = "As ações da empresa caíram dois por cento na segunda-feira."


def test_translation_of_another_text_is_detached(real_server: Server) -> None:
    own = item(real_server, TEXT, detachment=True)["detachment"]
    other = item(real_server, TEXT, target_text=UNRELATED, detachment=True)["detachment"]
    assert 0 < own < 0.3 < other < 1


def test_score_is_that_of_the_mean_of_the_last_layer(real_server: Server) -> None:
    found = item(real_server, detachment=True, probabilities={})
    received = data(found)[0, 0].mean(axis=0)
    expected = np.abs(received - 1 / len(received)).sum() / 2
    assert found["detachment"] == pytest.approx(expected, abs=1e-6)
    assert found["probabilities"]["ranks"][0] == 1


def test_each_text_has_its_own_score(real_server: Server) -> None:
    texts = [CAT, "She swam in the pool."]
    together = ask(real_server, texts, detachment=True, decimals=3)["items"]
    for text, found in zip(texts, together, strict=True):
        alone = item(real_server, text, detachment=True)["detachment"]
        assert found["detachment"] == pytest.approx(alone, abs=0.00051)


def test_without_the_field_there_is_none(real_server: Server) -> None:
    assert "detachment" not in item(real_server)


def test_embedded_text_has_none(real_server: Server) -> None:
    response = real_server.post(
        "/attention", json={"text": CAT, "task": "embed", "detachment": True}
    )
    assert response.status_code == 400
    assert "detachment is only for translations" in response.json()["error"]


def test_bertviz_has_none(real_server: Server) -> None:
    response = real_server.post("/attention", json=asking(detachment=True, format="bertviz"))
    assert response.status_code == 400
    assert "bertviz has no detachment" in response.json()["error"]
