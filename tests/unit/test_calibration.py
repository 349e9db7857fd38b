"""The comparison of int8 and float32 models on sample sentences."""

from dataclasses import replace

import pytest
import torch

from model.checkpoints.build import load_model
from model.checkpoints.calibration import MAX_CHANGE, SAMPLES, forced_pairs, mean_change
from model.checkpoints.load import ModelFiles, load_vocabularies
from model.precision import Precision

pytestmark = pytest.mark.checkpoint

CPU = torch.device("cpu")


def test_int8_of_a_trained_model_is_close_and_coarser_rounding_is_not(
    built_in: ModelFiles,
) -> None:
    exact = load_model(built_in, CPU, Precision.FLOAT32)
    pairs = forced_pairs(exact, built_in, load_vocabularies(built_in))
    assert len(pairs) == len(SAMPLES["en"])
    assert all(pair.target[-1] == exact.config.eos_id for pair in pairs)
    assert mean_change(exact, pairs) == 0
    assert 0 < mean_change(load_model(built_in, CPU, Precision.INT8), pairs) < MAX_CHANGE / 2
    with torch.no_grad():
        for parameter in exact.parameters():
            if parameter.dim() == 2 and min(parameter.shape) > 1:
                step = parameter.abs().amax(dim=1, keepdim=True) / 15
                parameter.copy_((parameter / step).round() * step)
    assert mean_change(exact, pairs) > MAX_CHANGE


def test_model_of_a_language_without_samples_gets_the_samples_of_all(
    built_in: ModelFiles,
) -> None:
    exact = load_model(built_in, CPU, Precision.FLOAT32)
    files = replace(built_in, source="fi")
    pairs = forced_pairs(exact, files, load_vocabularies(built_in))
    assert len(pairs) > len(SAMPLES["en"])
