"""The built-in model aligns what is the same in both languages: numerals and names."""

import re

import pytest
import torch

from model.checkpoints.build import load_engine
from model.checkpoints.load import ModelFiles, load_vocabularies
from model.precision import Precision
from model.sequence import EngineLimits
from service.tasks.alignment.alignment import align, text_span
from tests.tiny import forced_weights, greedy_ids, torch_runner

pytestmark = pytest.mark.checkpoint

SENTENCES = [
    "In 1987, 42 ships left Boston for Manchester.",
    "Flight 305 from Oslo to Chicago was cancelled on 12 March.",
    "Anna Keller paid 75 euros for room 208 in Budapest.",
    "Of the 600 people in Springfield, 87 speak Esperanto.",
    "Maria and Paulo have lived at 19 Garrett Street in Boston since 2004.",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_what_is_spelt_alike_is_aligned(built_in: dict[str, ModelFiles], text: str) -> None:
    files = built_in["en-pt"]
    vocabularies = load_vocabularies(files)
    engine = load_engine(
        files, torch.device("cpu"), Precision.FLOAT32, EngineLimits(max_rows=4), False
    )
    source = vocabularies.source.tokenize(text)
    target = vocabularies.target.detokenize(greedy_ids(engine, [source.ids])[0])
    ids = torch.tensor([source.ids])
    with torch.no_grad():
        model = torch_runner(engine).model
        mask = torch.ones_like(ids, dtype=torch.bool)
        _, attentions = forced_weights(model, ids, mask, torch.tensor([target.ids]))
    found = align(attentions.cross[-1][0, 0].numpy(), source, target)
    pairs = {  # "2004." may be one piece, and then is one word
        tuple(
            side.text[slice(*text_span(side, word))].strip(".")
            for side, word in ((source, found.source_words[one]), (target, written))
        )
        for (one, _, _), written in zip(found.pairs, found.target_words, strict=True)
    }
    alike = set(re.findall(r"\d+|[A-Z]\w+", text)) & set(re.findall(r"\w+", target.text))
    assert len(alike) >= 4, target.text
    assert {(word, word) for word in alike} <= pairs
