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


@pytest.fixture
def loads() -> BackgroundLoads:
    return BackgroundLoads()


def loaded_model() -> LoadedModel:
    return LoadedModel({}, torch.device("cpu"), "float32")


def wait(loads: BackgroundLoads) -> list[tuple[str, Outcome]]:
    assert select.select([loads.fileno()], [], [], LIMIT_SECONDS)[0]
    return loads.finished()


def test_outcome_can_be_waited_for_and_is_returned_once(loads: BackgroundLoads) -> None:
    assert not select.select([loads.fileno()], [], [], 0)[0]
    model = loaded_model()
    loads.begin("a", lambda: model)
    assert wait(loads) == [("a", model)]
    assert loads.finished() == []
    assert not select.select([loads.fileno()], [], [], 0)[0]


def test_one_loads_after_the_other(loads: BackgroundLoads) -> None:
    begun: list[str] = []
    may_end = threading.Event()

    def load(name: str) -> LoadedModel:
        begun.append(name)
        assert may_end.wait(LIMIT_SECONDS)
        return loaded_model()

    loads.begin("a", lambda: load("a"))
    until(lambda: begun)
    loads.begin("b", lambda: load("b"))
    assert begun == ["a"]
    assert sys.getswitchinterval() < USUAL_SWITCH_SECONDS
    may_end.set()
    found: list[tuple[str, Outcome]] = []
    while len(found) < 2:
        found += wait(loads)
    assert [name for name, _ in found] == ["a", "b"]
    assert sys.getswitchinterval() == pytest.approx(USUAL_SWITCH_SECONDS)


def test_next_load_does_not_wait_for_a_dropped_load_that_hangs(loads: BackgroundLoads) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def hang() -> LoadedModel:
        begun.set()
        assert may_end.wait(LIMIT_SECONDS)
        return loaded_model()

    loads.begin("a", hang)
    assert begun.wait(LIMIT_SECONDS)
    loads.begin("b", loaded_model)
    assert loads.drop("a")
    assert [name for name, _ in wait(loads)] == ["b"]
    may_end.set()


def test_dropped_load_has_no_outcome_though_its_model_is_loaded_again(
    loads: BackgroundLoads,
) -> None:
    may_end = threading.Event()

    def load(model: LoadedModel) -> LoadedModel:
        assert may_end.wait(LIMIT_SECONDS)
        return model

    old, new = loaded_model(), loaded_model()
    loads.begin("a", lambda: load(old))
    assert loads.drop("a")
    assert not loads.drop("a")
    loads.begin("a", lambda: load(new))
    may_end.set()
    found: list[tuple[str, Outcome]] = []
    while loads.num_running:
        found += wait(loads)
    ((_, outcome),) = found
    assert outcome is new


def test_load_that_is_dropped_before_its_turn_is_not_begun(loads: BackgroundLoads) -> None:
    may_end = threading.Event()

    def first() -> LoadedModel:
        assert may_end.wait(LIMIT_SECONDS)
        return loaded_model()

    begun: list[str] = []

    def unwanted() -> LoadedModel:
        begun.append("b")
        return loaded_model()

    loads.begin("a", first)
    loads.begin("b", unwanted)
    assert loads.drop("b")
    loads.begin("c", loaded_model)
    may_end.set()
    found: list[tuple[str, Outcome]] = []
    while loads.num_running:
        found += wait(loads)
    assert [name for name, _ in found] == ["a", "c"]
    assert not begun


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
