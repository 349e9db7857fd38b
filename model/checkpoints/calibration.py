"""Measures how much a translation model in int8 or float16 differs from its float32 form.

The float32 model translates sample sentences. Both forms then read these translations, token by
token. The measure is the mean difference of the log-probabilities of these tokens.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import torch

from model.architectures.seq2seq import EncoderDecoder
from model.backends.torch_runner import TorchRunner
from model.checkpoints.load import ModelFiles, Vocabularies
from model.checkpoints.samples import SAMPLES, all_samples
from model.encoding.forced_pass import forced_pass
from model.engine.engine import Engine
from model.sequence import EngineLimits, Sequence

MAX_CHANGE = 0.025
"""Largest mean change of a token's log-probability at which `auto` selects int8 or float16.

Int8 has 255 quantisation steps. In int8, the change of the built-in models is 0.004 to 0.007. With
fewer steps the change is larger: 0.013 to 0.016 with 63 steps, 0.032 to 0.034 with 31 steps, and
0.19 with 15 steps.
"""

MAX_TOKENS = 48
"""Largest number of tokens of a sample. Longer samples are cut, because they would slow loading."""


@dataclass(frozen=True, slots=True)
class ForcedPair:
    """A sample and its translation, as ids.

    Attributes:
        source: Ids of the sample, EOS included.
        target: Ids of its translation by the float32 model.
        log_probs: Log-probability of each token of the target in the float32 model (T).
    """

    source: list[int]
    target: list[int]
    log_probs: torch.Tensor


def forced_pairs(
    model: EncoderDecoder, files: ModelFiles, vocabularies: Vocabularies
) -> list[ForcedPair]:
    """Returns the samples of the model's source language, with their translations.

    If the source language has no samples, the samples of all languages are used. The model
    translates the samples, and gives the log-probabilities of the translations' tokens.

    Args:
        model: The model in float32 on the CPU.
        files: Files of the model, which name its languages.
        vocabularies: Tokenizers of the model.
    """
    language = _language(files)
    if files.tokens is not None and not files.source:
        vocabularies = vocabularies.between(files.tokens, language, _target(files, language))
    texts = SAMPLES.get(language) or all_samples()
    tokenizer, first_id = vocabularies.source, vocabularies.first_id
    ids = [tokenizer.encode(text)[: MAX_TOKENS - 1] for text in texts]
    sources = [[*each, tokenizer.eos_id] for each in ids]
    limits = EngineLimits(max_rows=len(sources), max_source_tokens=MAX_TOKENS)
    engine = Engine(TorchRunner(model, limits), limits)
    engine.admit([Sequence(i, source, first_id=first_id) for i, source in enumerate(sources)])
    targets: dict[int, list[int]] = {}
    while engine.num_rows:
        targets |= {done.id: done.hypotheses[0].tokens for done in engine.step()}
    pairs = [(source, targets[i]) for i, source in enumerate(sources)]
    return [ForcedPair(*pair, log_probs(model, *pair)) for pair in pairs]


def mean_change(model: EncoderDecoder, pairs: SequenceOf[ForcedPair]) -> float:
    """Returns the mean absolute change of the log-probabilities from those in `pairs`."""
    changes = [log_probs(model, pair.source, pair.target) - pair.log_probs for pair in pairs]
    return float(torch.cat(changes).abs().mean())


@torch.inference_mode()
def log_probs(model: EncoderDecoder, source: list[int], target: list[int]) -> torch.Tensor:
    """Returns the log-probability of each token of a target (T), in float32 on the CPU."""
    device = model.device
    mask = torch.ones(1, len(source), dtype=torch.bool, device=device)
    tokens = torch.tensor([target], device=device)
    logits, _ = forced_pass(model, torch.tensor([source], device=device), mask, tokens)
    scores = torch.log_softmax(logits[0].float(), dim=-1)  # (T, V)
    return scores.gather(1, tokens[0, :, None])[:, 0].cpu()


def _language(files: ModelFiles) -> str:
    """Returns a source language of the model, if possible a language that has samples."""
    return next((code for code in SAMPLES if code in files.sources), files.sources[0])


def _target(files: ModelFiles, source: str) -> str:
    """Returns a target language, if possible different from the source language."""
    others = (code for code in files.targets if code != source)
    return next(others, source)
