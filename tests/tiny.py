"""Models small enough to be run hundreds of times in a test, with weights from a seed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from model.architectures.embedding import start_token
from model.architectures.output import FixedShortlist, Shortlist
from model.architectures.stack import Decoder, EncoderDecoder
from model.backends.base import ModelRunner, Scores
from model.backends.cuda.runner import CudaRunner
from model.backends.decoder_batch import DecodingCache, StepBatch
from model.backends.encoder_batch import encode_padded, run_whole
from model.backends.native.library import address, check, int32
from model.backends.native.runner import NativeRunner
from model.backends.torch_runner import TorchRunner
from model.checkpoints.weights import quantize_floats
from model.config import DecoderKind, ModelConfig, NormPosition
from model.engine.engine import Engine
from model.layers.attention import attention_weights
from model.sequence import DecodingOptions, EngineLimits, Finished, Hypothesis, Sequence

VOCAB_SIZE = 64
LIMITS = EngineLimits(max_rows=8, max_source_tokens=41, max_batch_tokens=256)


def tiny_config(**changes: Any) -> ModelConfig:
    """Returns a config of D 16, 2 heads, 2 + 2 layers and 64 ids, with changes.

    The output layer is its own: tied to random embeddings, it would predict each token again.
    """
    sizes: dict[str, Any] = {
        "d_model": 16,
        "num_heads": 2,
        "ffn_dim": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "source_vocab_size": VOCAB_SIZE,
        "target_vocab_size": VOCAB_SIZE,
        "tied_output": False,
    }
    return ModelConfig(**{**sizes, **changes})


def tiny_model(config: ModelConfig, seed: int) -> EncoderDecoder:
    """Makes a model whose parameters all come from the seed.

    The spreads, and a bias towards EOS, let targets differ in their tokens and lengths.
    """
    generator = torch.Generator().manual_seed(seed)
    model = EncoderDecoder(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(_spread(name, parameter.dim(), noise))
        model.decoder.output_bias[config.eos_id] += 5.0
    return model.eval()


def _spread(name: str, dim: int, noise: torch.Tensor) -> torch.Tensor:
    if name.endswith("norm.weight"):
        return 1.0 + 0.2 * noise
    if dim == 1:
        return 0.05 * noise
    return noise if "embedding" in name or "untied" in name else 0.2 * noise


@dataclass(frozen=True)
class Family:
    """A kind of decoder with a position of its norms, and a seed for the weights.

    With these seeds 40 sources lead to 35 or more different targets, and about half of the targets
    end in EOS. So equal targets mean equal computation.
    """

    decoder: DecoderKind
    norm: NormPosition
    seed: int

    def model(self, **changes: Any) -> EncoderDecoder:
        return tiny_model(tiny_config(decoder=self.decoder, norm=self.norm, **changes), self.seed)

    def __str__(self) -> str:
        return f"{self.decoder}-{self.norm}-norm"


FAMILIES = [
    Family(DecoderKind.SSRU, NormPosition.POST, 44),
    Family(DecoderKind.SSRU, NormPosition.PRE, 80),
    Family(DecoderKind.SELF_ATTENTION, NormPosition.POST, 96),
    Family(DecoderKind.SELF_ATTENTION, NormPosition.PRE, 19),
]


def tiny_sources(count: int, seed: int = 1, longest: int = 40) -> list[list[int]]:
    """Returns sources of 1 to `longest` tokens and EOS, with ids from 2 on."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [
        [*torch.randint(2, VOCAB_SIZE, (length,), generator=generator).tolist(), 0]
        for length in lengths
    ]


def pad(sources: list[list[int]], width: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns a batch (B, S) and its mask, True on tokens; the padding id also is a token's id."""
    width = max(width, *map(len, sources))
    batch = torch.full((len(sources), width), 5)
    mask = torch.zeros(len(sources), width, dtype=torch.bool)
    for row, source in enumerate(sources):
        batch[row, : len(source)] = torch.tensor(source)
        mask[row, : len(source)] = True
    return batch, mask


class Weights(NamedTuple):
    """The attention weights of a pass, one tensor for each layer; no `decoder` for an SSRU."""

    encoder: list[torch.Tensor]  # (B, H, S, S)
    decoder: list[torch.Tensor]  # (B, H, T, T)
    cross: list[torch.Tensor]  # (B, H, T, S)


def decoder_inputs(model: EncoderDecoder, target: torch.Tensor) -> torch.Tensor:
    """Returns the decoder inputs (B, T) for a target (B, T), shifted right by one."""
    start = torch.full_like(target[:, :1], start_token(model.config))
    return torch.cat([start, target[:, :-1]], dim=1)


def forced_pass(
    model: EncoderDecoder, source: torch.Tensor, mask: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """Returns the logits (B, T, V) that predict given targets (B, T).

    `source` has the ids (B, S): each row ends in EOS, then padding. `mask` (B, S) is True on
    tokens, and may leave some of them out.
    """
    (rows, width), length = source.shape, target.shape[1]
    tokens_first = mask.int().argsort(dim=1, descending=True, stable=True)
    memory = encode_padded(model.encoder, source, mask).take_along_dim(tokens_first[..., None], 1)
    cache = DecodingCache(model.config, rows, width, length, model.device, model.dtype)
    all_rows = torch.arange(rows, device=model.device)
    cache.fill_rows(all_rows, model.decoder.project_cross_kv(memory), mask.sum(dim=1))
    hidden = []
    for tokens in torch.split(decoder_inputs(model, target), 1, dim=1):
        hidden.append(run_whole(StepBatch(model.decoder, cache, tokens, (length, width))))
        cache.positions += 1
    return all_logits(model.decoder, torch.stack(hidden, dim=1))


def all_logits(decoder: Decoder, hidden: torch.Tensor) -> torch.Tensor:
    ids = torch.arange(len(decoder.output_bias), device=hidden.device)
    return decoder.logits_of(hidden.flatten(0, -2), ids).view(*hidden.shape[:-1], -1)


@contextmanager
def explicit_attention() -> Iterator[list[torch.Tensor]]:
    """Computes all attention without the fused kernel, and yields the list of the weights."""
    recorded: list[torch.Tensor] = []

    def explicit(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        recorded.append(attention_weights(query, key, bias))
        return recorded[-1] @ value

    with pytest.MonkeyPatch.context() as patch:
        for module in ("decoder_batch", "encoder_batch"):
            patch.setattr(f"model.backends.{module}.attention", explicit)
        yield recorded


def forced_weights(
    model: EncoderDecoder, source: torch.Tensor, mask: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, Weights]:
    """Returns the logits of `forced_pass` by explicit attention, and its weights."""
    with explicit_attention() as recorded:
        logits = forced_pass(model, source, mask, target)
    layers, is_ssru = model.config.encoder_layers, model.config.decoder is DecoderKind.SSRU
    encoder, steps = recorded[:layers], recorded[layers:]
    count = len(steps) // target.shape[1]
    others = [torch.cat(steps[number::count], dim=2) for number in range(count)]
    if is_ssru:
        return logits, Weights(encoder, [], others)
    return logits, Weights(encoder, others[::2], others[1::2])


def torch_runner(engine: Engine) -> TorchRunner:
    assert isinstance(engine.runner, TorchRunner)
    return engine.runner


def quantized(model: EncoderDecoder) -> EncoderDecoder:
    quantize_floats(model)
    return model


def translate(engine: Engine, sequences: list[Sequence]) -> dict[int, list[Hypothesis]]:
    """Admits sequences in order, as rows become free, and steps until all are finished."""
    waiting, finished = list(sequences), list[Finished]()
    while waiting or engine.num_rows:
        while waiting and waiting[0].options.beam_size <= engine.free_rows:
            engine.admit([waiting.pop(0)])
        finished += engine.step()
    results = {result.id: result.hypotheses for result in finished}
    assert len(results) == len(finished) == len(sequences)
    return results


def greedy_ids(engine: Engine, sources: list[list[int]]) -> list[list[int]]:
    """Returns the greedy targets of the sources, admitted in order as rows become free."""
    results = translate(engine, [Sequence(i, source) for i, source in enumerate(sources)])
    return [results[i][0].tokens for i in range(len(sources))]


def assert_greedy(
    model: EncoderDecoder, source: list[int], target: list[int], prefix: tuple[int, ...] = ()
) -> None:
    """Checks that one teacher-forced pass predicts each token after the prefix, and the end."""
    config = model.config
    with torch.no_grad():
        (logits,) = forced_pass(model, *pad([source]), torch.tensor([target]))
    logits[:, config.unk_id] = -torch.inf
    assert tuple(target) == (*prefix, *logits.argmax(dim=1).tolist()[len(prefix) :])
    assert config.eos_id not in target[:-1]
    assert target[-1] == config.eos_id or len(target) == config.max_target_tokens(len(source))


def tiny_shortlist(candidates: int = 4) -> Shortlist:
    """Returns a shortlist with a number of candidates for each source id, and 0 to 4 for all."""
    generator = np.random.default_rng(0)
    lists = generator.integers(0, VOCAB_SIZE, (VOCAB_SIZE, candidates)).astype(np.uint32)
    offsets = (np.arange(VOCAB_SIZE + 1) * candidates).astype(np.uint64)
    return Shortlist(5, offsets, np.sort(lists, axis=1).reshape(-1), is_shared=True)


FIXED_SHORTLIST = FixedShortlist(np.array([0, *range(3, VOCAB_SIZE, 2)], np.int32))


def next_scores(runner: ModelRunner, source: list[int]) -> Scores:
    """Decodes one token of row 0, and returns the log-probabilities from which it was chosen."""
    if isinstance(runner, CudaRunner):
        ((found,),) = runner.search([[0]], [[0.0]], 1)
        return Scores(torch.tensor([found.totals]), np.array([found.ids]))
    if not isinstance(runner, NativeRunner):
        return runner.decode(1, [[0]], np.ones(1, np.int64), 1).wait().scores[0]
    runner.decode(1, [], np.ones(1, np.int64), 1)
    return native_scores(runner, [0], source)


def native_scores(runner: NativeRunner, rows: list[int], source: list[int]) -> Scores:
    """Returns the log-probabilities of rows of one source, after a call that decoded one token."""
    size = runner.config.target_vocab_size
    ids = np.arange(size) if runner.shortlist is None else runner.shortlist.ids(source)
    wanted, logits = int32(rows), np.empty((len(rows), len(ids)), np.float32)
    places = address(wanted), address(logits)
    check(runner.library.batch_logits(runner.batch.handle, len(rows), *places, len(ids)))
    return Scores(torch.log_softmax(torch.from_numpy(logits), dim=-1), ids)


def forced_log_probs(
    runner: ModelRunner, source: list[int], target: list[int]
) -> NDArray[np.float32]:
    """Returns the log-probabilities (T, V) while the runner decodes a given target in row 0.

    They are -inf for the ids that the runner leaves out.
    """
    log_probs = np.full((len(target), runner.model.config.target_vocab_size), -np.inf, np.float32)
    with torch.inference_mode():
        runner.enter(0, [Sequence(0, source, DecodingOptions(return_scores=True))])
        for step, token in enumerate(target):
            scores = next_scores(runner, source)
            ids = np.broadcast_to(scores.ids, scores.log_probs.shape)
            log_probs[step, ids[0]] = scores.log_probs[0].numpy()
            runner.set_tokens([0], [token])
        runner.leave(0, 1)
    return log_probs


def assert_same_hypotheses(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """Checks that tokens are equal, and scores equal within the rounding of float32 sums."""
    assert [h.tokens for h in found] == [h.tokens for h in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
        assert one.score == pytest.approx(other.score, abs=1e-4)
