"""Decodes with random weights of a well-known shape, in Regard's engine and in transformers.

Neither engine can choose the end-of-sentence token, so both decode every row to the same number of
tokens.
"""

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from model.architectures.stack import EncoderDecoder
from model.checkpoints.build import new_engine
from model.config import Activation, DecoderKind, ModelConfig, NormPosition
from model.precision import Precision
from model.sequence import EngineLimits, Sequence

EOS, UNK = 0, 1

EOS_BIAS = -1e4
"""Bias of EOS in the output layer; it is so low that decoding never chooses EOS."""
STANDARD_DEVIATION = 0.02
PADDED_TO = 32
"""Smallest number of tokens to which Regard pads a source on a GPU."""


@dataclass(frozen=True)
class Shape:
    """A model's sizes, and the number of rows and tokens to decode."""

    name: str
    layers: int
    d_model: int
    ffn_dim: int
    num_heads: int
    vocab_size: int
    # whether the model has pre-norm and ReLU, as NLLB has; otherwise it has post-norm and swish, as
    # OPUS-MT has
    is_nllb: bool
    rows: int = 64  # number of sentences decoded at once
    tokens: int = 30  # number of tokens of each source, EOS included, and of each target

    @property
    def case(self) -> str:
        return f"{self.name}, {self.rows} rows"

    def tiny(self) -> "Shape":
        return replace(self, layers=1, d_model=16, ffn_dim=32, num_heads=2, vocab_size=64)

    def config(self) -> ModelConfig:
        return ModelConfig(
            d_model=self.d_model,
            num_heads=self.num_heads,
            ffn_dim=self.ffn_dim,
            encoder_layers=self.layers,
            decoder_layers=self.layers,
            source_vocab_size=self.vocab_size,
            target_vocab_size=self.vocab_size,
            eos_id=EOS,
            unk_id=UNK,
            pad_id=self.vocab_size - 1,
            start_id=self.vocab_size - 1,
            decoder=DecoderKind.SELF_ATTENTION,
            norm=NormPosition.PRE if self.is_nllb else NormPosition.POST,
            activation=Activation.RELU if self.is_nllb else Activation.SWISH,
            max_length_factor=1.0,
        )


CASES = {
    "opus-mt": Shape("opus-mt", 6, 512, 2048, 8, 58101, is_nllb=False),
    "nllb-600m": Shape("nllb-600m", 12, 1024, 4096, 16, 256206, is_nllb=True),
}


@dataclass(frozen=True)
class Timing:
    """Seconds of one run, from source ids to target ids."""

    seconds: float  # seconds for all rows, the encoder included
    step_seconds: float  # mean seconds of a decode step


class RegardContestant:
    def __init__(self, shape: Shape, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.device = shape, device
        limits = EngineLimits(
            max_rows=shape.rows,
            max_batch_tokens=max(4096, shape.rows * max(PADDED_TO, shape.tokens)),
        )
        self.engine = new_engine(random_model(shape.config(), device, dtype), limits)
        self.sources = random_sources(shape).tolist()

    def run(self) -> Timing:
        synchronize(self.device)
        began = time.perf_counter()
        self._admit()
        synchronize(self.device)
        encoded = time.perf_counter()
        while self.engine.num_rows:
            self.engine.step()
        synchronize(self.device)
        ended = time.perf_counter()
        steps = sum(stats.phase == "decode" for stats in self.engine.drain_stats())
        assert steps == self.shape.tokens, f"ended after {steps} steps"
        return Timing(ended - began, (ended - encoded) / steps)

    def count_kernels(self) -> float:
        """Counts the kernels of one decode step in the middle of a run."""
        self._admit()
        self.engine.step()
        tokens = self.engine.tokens_per_step
        count = count_kernels(self.engine.step, self.device) / tokens
        while self.engine.num_rows:
            self.engine.step()
        self.engine.drain_stats()
        return count

    def _admit(self) -> None:
        self.engine.admit([Sequence(row, source) for row, source in enumerate(self.sources)])


class TransformersContestant:
    """`generate` of transformers with random weights of the same shape."""

    def __init__(self, shape: Shape, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.device = shape, device
        self.model = transformers_model(shape).to(device, dtype).eval()
        self.ids = random_sources(shape).to(device)
        self.mask = torch.ones_like(self.ids)

    def run(self) -> Timing:
        """Decodes all rows at once.

        `generate` does not report the time of a decode step. A second run therefore decodes only
        one token. The first run is longer by `tokens - 1` steps, so the difference of the two run
        times, divided by `tokens - 1`, is the time of a step.
        """
        whole = self._seconds(self.shape.tokens)
        return Timing(whole, (whole - self._seconds(1)) / (self.shape.tokens - 1))

    def count_kernels(self) -> float:
        longer = count_kernels(lambda: self._generate(self.shape.tokens), self.device)
        shorter = count_kernels(lambda: self._generate(1), self.device)
        return (longer - shorter) / (self.shape.tokens - 1)

    def _seconds(self, tokens: int) -> float:
        synchronize(self.device)
        began = time.perf_counter()
        self._generate(tokens)
        synchronize(self.device)
        return time.perf_counter() - began

    def _generate(self, tokens: int) -> None:
        ids = self.model.generate(self.ids, attention_mask=self.mask, max_new_tokens=tokens)
        assert ids.shape[1] == tokens + 1, f"ended after {ids.shape[1] - 1} tokens"


def random_model(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> EncoderDecoder:
    """Makes Regard's model with random weights that never choose the end-of-sentence token."""
    model = EncoderDecoder(config)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, STANDARD_DEVIATION)
        model.decoder.output_bias[config.eos_id] = EOS_BIAS
    model.precision = Precision.BFLOAT16 if dtype is torch.bfloat16 else Precision.FLOAT32
    return model.to(device, dtype).eval()


def transformers_model(shape: Shape) -> Any:
    """Makes the model of transformers with random weights; it decodes greedily, without EOS."""
    transformers: Any = importlib.import_module("transformers")
    sizes = {
        "vocab_size": shape.vocab_size,
        "d_model": shape.d_model,
        "encoder_layers": shape.layers,
        "decoder_layers": shape.layers,
        "encoder_ffn_dim": shape.ffn_dim,
        "decoder_ffn_dim": shape.ffn_dim,
        "encoder_attention_heads": shape.num_heads,
        "decoder_attention_heads": shape.num_heads,
        "activation_function": "relu" if shape.is_nllb else "swish",
        "scale_embedding": True,
        "pad_token_id": UNK,  # M2M100 requires an id that is also a position
        "decoder_start_token_id": shape.vocab_size - 1,
        "eos_token_id": EOS,
        "forced_eos_token_id": None,
    }
    torch.manual_seed(0)
    model: Any
    if shape.is_nllb:
        model = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**sizes))
    else:
        model = transformers.MarianMTModel(transformers.MarianConfig(**sizes))
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=shape.vocab_size - 1,
        pad_token_id=UNK,
        num_beams=1,
        do_sample=False,
        use_cache=True,
    )
    return model


def random_sources(shape: Shape, count: int | None = None) -> torch.Tensor:
    """Draws random source ids (B, S); each row ends in EOS."""
    generator = torch.Generator().manual_seed(0)
    size = (shape.rows if count is None else count, shape.tokens)
    ids = torch.randint(2, shape.vocab_size - 1, size, generator=generator)
    ids[:, -1] = EOS
    return ids


def step_bytes(shape: Shape, element_bytes: int) -> float:
    """Returns the bytes that a decode step must move, on average over all steps.

    A step reads every weight of the decoder and of the output layer once. For each row and layer it
    reads the keys and values of the source and of the target so far, and writes one new position.
    Activations and logits do not count, because a fused step need not write them to memory.
    """
    width = shape.d_model
    # A step uses 4 matrices of self-attention, but only 2 of cross-attention: query and output.
    layer = 6 * width**2 + 2 * width * shape.ffn_dim
    weights = shape.layers * layer + shape.vocab_size * width
    mean_target = (shape.tokens - 1) / 2
    positions = shape.tokens + mean_target + 1
    caches = shape.rows * shape.layers * 2 * width * positions
    return element_bytes * (weights + caches)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def count_kernels(call: Callable[[], object], device: torch.device) -> float:
    """Counts the kernels of a call on a GPU without copies, or its PyTorch operators on a CPU."""
    on_gpu = device.type == "cuda"
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CUDA if on_gpu else kinds.CPU]) as profile:
        call()
        synchronize(device)
    events = profile.events() or []
    if on_gpu:
        names = [e.name for e in events if str(e.device_type).endswith("CUDA")]
        return float(sum(not name.startswith(("Memcpy", "Memset")) for name in names))
    return float(sum(e.name.startswith("aten::") for e in events))
