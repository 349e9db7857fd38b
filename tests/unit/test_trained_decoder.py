"""The benchmark that trains a decoder with self-attention, on tiny models."""

import copy

import torch

from benchmarks.trained_decoder import hidden_states, new_student, train, translate
from model.checkpoints.build import new_engine
from model.config import DecoderKind
from model.encoding.forced_pass import forced_pass
from tests.tiny import LIMITS, tiny_config, tiny_model

PAIRS = [([5, 6, 7, 0], [8, 9, 0]), ([9, 0], [7, 6, 0])] * 4


def test_student_has_the_weights_of_its_teacher_and_learns() -> None:
    torch.manual_seed(0)
    teacher = tiny_model(tiny_config(), seed=1)
    student = new_student(teacher)
    assert student.config.decoder is DecoderKind.SELF_ATTENTION
    before = copy.deepcopy(student.state_dict())
    weights = teacher.state_dict()
    assert all(before[name].equal(weights[name]) for name in before if name in weights)
    train(student, PAIRS, minutes=60, max_steps=400)
    student.eval().requires_grad_(False)
    after = student.state_dict()
    changed = {name for name in before if not before[name].equal(after[name])}
    assert changed
    assert all(name.startswith("decoder.layers.") for name in changed)
    found = translate(new_engine(student, LIMITS), [source for source, _ in PAIRS], rows=3)
    assert found == [target for _, target in PAIRS]


def test_pass_for_training_gives_the_models_hidden_states() -> None:
    model = tiny_model(tiny_config(decoder=DecoderKind.SELF_ATTENTION), seed=2)
    source, target = torch.tensor([[5, 6, 0], [7, 0, 0]]), torch.tensor([[8, 9, 0], [6, 0, 0]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()
    with torch.no_grad():
        expected, _ = forced_pass(model, source, mask, target)
        hidden = hidden_states(model, source, mask, target)
        torch.testing.assert_close(model.decoder.logits(hidden), expected, atol=1e-5, rtol=0)
