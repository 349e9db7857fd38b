"""Models that a worker loads in a thread beside its work."""

import gc
import select
import sys
import threading
import weakref

import numpy as np
import pytest
import torch

from model.architectures.stack import EncoderDecoder
from model.backends.native.library import LIBRARIES
from model.backends.native.runner import NativeTextEncoder, PackedModel
from model.quantization.int8 import quantize
from service.workers.background_load import USUAL_SWITCH_SECONDS, BackgroundLoads, Outcome
from service.workers.device_memory import give_back_memory, held_bytes
from service.workers.loading import LoadedModel
from tests.text_models import new_model
from tests.tiny import LIMITS, quantized, tiny_config, tiny_model
from tests.workers import LIMIT_SECONDS, until


class Loads(BackgroundLoads):
    """Loads that wait until the test lets them end; `begun` has their names."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []
        self.may_end = threading.Event()

    def start(self, name: str) -> LoadedModel:
        """Begins the load of a model; returns the model."""
        model = loaded_model()

        def load() -> LoadedModel:
            self.begun.append(name)
            assert self.may_end.wait(LIMIT_SECONDS)
            return model

        self.begin(name, load)
        return model

    def wait(self) -> list[tuple[str, Outcome]]:
        assert select.select([self.fileno()], [], [], LIMIT_SECONDS)[0]
        return self.finished()

    def end(self) -> list[tuple[str, Outcome]]:
        """Lets all loads end, and returns their outcomes."""
        self.may_end.set()
        found: list[tuple[str, Outcome]] = []
        while self.num_running:
            found += self.wait()
        return found


@pytest.fixture
def loads() -> Loads:
    return Loads()


def loaded_model() -> LoadedModel:
    return LoadedModel({}, torch.device("cpu"), "float32")


def names(outcomes: list[tuple[str, Outcome]]) -> list[str]:
    return [name for name, _ in outcomes]


def test_outcome_can_be_waited_for_and_is_returned_once(loads: Loads) -> None:
    assert not select.select([loads.fileno()], [], [], 0)[0]
    model = loads.start("a")
    assert loads.end() == [("a", model)]
    assert loads.finished() == []
    assert not select.select([loads.fileno()], [], [], 0)[0]


def test_one_loads_after_the_other(loads: Loads) -> None:
    loads.start("a")
    until(lambda: loads.begun)
    loads.start("b")
    assert loads.begun == ["a"]
    assert sys.getswitchinterval() < USUAL_SWITCH_SECONDS
    assert names(loads.end()) == ["a", "b"]
    assert sys.getswitchinterval() == pytest.approx(USUAL_SWITCH_SECONDS)


def test_next_load_does_not_wait_for_a_dropped_load_that_hangs(loads: Loads) -> None:
    loads.start("a")
    until(lambda: loads.begun)
    loads.begin("b", loaded_model)
    assert loads.drop("a")
    assert names(loads.wait()) == ["b"]
    loads.may_end.set()


def test_dropped_load_has_no_outcome_though_its_model_is_loaded_again(loads: Loads) -> None:
    loads.start("a")
    assert loads.drop("a")
    assert not loads.drop("a")
    new = loads.start("a")
    ((_, outcome),) = loads.end()
    assert outcome is new


def test_load_that_is_dropped_before_its_turn_is_not_begun(loads: Loads) -> None:
    for name in "abc":
        loads.start(name)
    assert loads.drop("b")
    assert names(loads.end()) == loads.begun == ["a", "c"]


def test_held_bytes_are_those_of_all_weights_once() -> None:
    model = EncoderDecoder(tiny_config())
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in model.state_dict().values()
    }
    found = held_bytes(model)
    assert found >= sum(storages.values()) > 0
    assert held_bytes(model, [model], {"again": model}) == found


def test_held_bytes_count_arrays_and_views() -> None:
    array = np.zeros(1000, np.float32)
    tensor = torch.zeros(10, 10)
    assert held_bytes([array, {"a": tensor}]) == 4400
    assert held_bytes([tensor, tensor[:, 3], tensor.T]) == 400
    assert held_bytes([torch.from_numpy(array), array]) == 4000
    assert held_bytes("text", 7, None) == 0


@pytest.mark.skipif(not LIBRARIES, reason="nothing was compiled for this processor")
def test_held_bytes_count_weights_of_native_code_once() -> None:
    text_model = new_model(d_model=64, num_heads=4, ffn_dim=128)
    quantize(text_model.encoder.layers)
    before = held_bytes(text_model)
    text_model.native = NativeTextEncoder(text_model.encoder)
    assert held_bytes(text_model) == before + text_model.native.native_bytes
    model = quantized(tiny_model(tiny_config(d_model=64, num_heads=4, ffn_dim=128), seed=3))
    before = held_bytes(model)
    packed = PackedModel(model, LIMITS, LIBRARIES[0])
    longest = LIMITS.max_source_tokens
    positions = 1 + max(longest, model.config.max_target_tokens(longest))
    own = positions * model.config.d_model * 4
    bias = model.decoder.output_bias.nbytes  # with the ids that are never chosen
    assert held_bytes(model, packed) == before + own + bias + packed.native_bytes
    # Sums and biases of each matrix and of the vocabulary are its own: 4 bytes each.
    assert 0 < packed.native_bytes < before / 4


def test_cycles_of_frozen_objects_are_found() -> None:
    class Node:
        pass

    node, other = Node(), Node()
    node.next, other.next = other, node  # type: ignore[attr-defined]
    gc.collect()
    gc.freeze()
    left = weakref.ref(node)
    del node, other
    gc.collect()
    assert left() is not None  # as it was frozen
    give_back_memory()
    assert left() is None
