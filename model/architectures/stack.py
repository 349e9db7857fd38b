"""Defines stacks of layers: encoders, decoders and text encoders, and the translation model."""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.embedding import Embedding, TextEmbedding
from model.config import AttentionSpec, BlockSpec, ModelConfig, NormPosition, TextEncoderConfig
from model.layers.attention import MultiHeadAttention, RelativeVectors, new_norm
from model.layers.block import Block
from model.layers.positions import RelativeBias, distance_bias
from model.precision import Precision
from model.quantization.int8 import Int8Linear, QuantizedMatrix


class Stack(nn.Module):
    """An embedding, layers and a final norm."""

    embedding: Embedding | TextEmbedding

    def __init__(self, embedding: Embedding | TextEmbedding, specs: Sequence[BlockSpec]) -> None:
        super().__init__()
        self.embedding = embedding
        self.specs = [spec.mixer for spec in specs]
        self.layers = nn.ModuleList(Block(spec) for spec in specs)
        is_normed = specs and specs[-1].norm_position is not NormPosition.POST
        self.norm = new_norm(specs[-1].d_model, specs[-1].norm) if is_normed else nn.Identity()
        mixer = specs[0].mixer if specs else None
        self.relative_bias: RelativeBias | None = None
        self.relative_vectors: RelativeVectors | None = None
        if mixer is not None and mixer.is_disentangled:
            self.relative_vectors = RelativeVectors(specs[0].d_model, mixer, specs[0].norm)
        elif mixer is not None and mixer.buckets:
            self.relative_bias = RelativeBias(mixer)

    @property
    def device(self) -> torch.device:
        return next(self.embedding.parameters()).device

    @property
    def blocks(self) -> list[Block]:
        return cast("list[Block]", list(self.layers))

    def biases(self, length: int) -> Sequence[Tensor | None]:
        """Returns the bias by distance of each layer (`model.layers.positions`), or None.

        The tables are for texts of up to `length` tokens. Equal layers share one.
        """
        found = {spec: self._bias(spec, length) for spec in dict.fromkeys(self.specs)}
        return [found[spec] for spec in self.specs]

    def _bias(self, spec: AttentionSpec | None, length: int) -> Tensor | None:
        table = None if spec is None else distance_bias(spec, length, self.device)
        if self.relative_bias is not None:
            learned = self.relative_bias(length)
            table = learned if table is None else learned + table
        return None if table is None else table.to(next(self.embedding.parameters()).dtype)


class TextEncoder(Stack):
    embedding: TextEmbedding

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__(TextEmbedding(config), config.blocks)
        self.config = config


class Encoder(Stack):
    embedding: Embedding


class Decoder(Stack):
    """Maps target ids and memory to hidden states, and hidden states to logits."""

    embedding: Embedding

    def __init__(self, config: ModelConfig, embedding: Embedding) -> None:
        super().__init__(embedding, [config.decoder_block] * config.decoder_layers)
        if config.has_output_bias:
            self.output_bias = nn.Parameter(torch.zeros(config.target_vocab_size))
        else:  # a buffer and not a parameter, because no tensor of the checkpoint fills the bias
            zeros = torch.zeros(config.target_vocab_size, device="cpu")
            self.register_buffer("output_bias", zeros, persistent=False)
        self.int8_output: Int8Linear | None = None
        self.padded_output: Tensor | None = None
        untied = None if config.tied_output else torch.empty(len(self.output_bias), config.d_model)
        self.untied_weight = None if untied is None else nn.Parameter(untied)

    @property
    def output_weight(self) -> Tensor:
        if self.int8_output is not None:
            return self.int8_output.integers
        return self.embedding.weight if self.untied_weight is None else self.untied_weight

    def pad_output(self, multiple: int) -> Tensor:
        """Returns the output weight (W, D): V rows, and rows of zeros up to W, a multiple.

        If W is larger than V, the first call copies the weight. `output_weight` is then a view of
        the copy, so that the model does not hold the weight twice.
        """
        weight = self.output_weight
        size, width = weight.shape
        padding = -size % multiple
        if not padding:
            return weight.detach()
        if self.padded_output is None or len(self.padded_output) != size + padding:
            self.padded_output = weight.detach().new_zeros(size + padding, width)
            self.padded_output[:size] = weight.detach()
            weight.data = self.padded_output[:size]
        return self.padded_output

    def quantize(self, matrix: QuantizedMatrix) -> None:
        """Replaces the output weight by an int8 matrix; all layers then round keys and values."""
        self.int8_output = Int8Linear(matrix, None)
        for module in self.layers.modules():
            if isinstance(module, MultiHeadAttention):
                module.rounds_to_half = True
        self.untied_weight = None

    def multiply(
        self, hidden: Tensor, weight: Tensor, scales: Tensor | None, bias: Tensor
    ) -> Tensor:
        """Returns float32 logits (..., U) of hidden states (..., D), for rows of the weight."""
        if self.int8_output is not None and scales is not None:
            return self.int8_output.multiply(hidden, weight, scales, bias)
        return F.linear(hidden, weight, bias).float()

    def project_cross_kv(self, memory: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Returns each layer's keys and values (B, H, S, K)."""
        return [layer.cross_attention.project_key_value(memory) for layer in self.blocks]

    def logits_of(self, hidden: Tensor, ids: Tensor) -> Tensor:
        bias = self.output_bias[ids]
        if self.int8_output is None:
            return self.multiply(hidden, self.output_weight[ids], None, bias)
        rows, scales = self.int8_output.rows(ids), self.int8_output.scales[ids]
        return self.multiply(hidden, rows, scales, bias)


class EncoderDecoder(nn.Module):
    """A translation model."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.precision = Precision.FLOAT32
        source = Embedding(config.source_vocab_size, config)
        target = source
        if config.max_positions or not config.shared_embeddings:
            target = Embedding(config.target_vocab_size, config)
        self.encoder = Encoder(source, [config.encoder_block] * config.encoder_layers)
        self.decoder = Decoder(config, target)
        self.share_embeddings()

    def share_embeddings(self) -> None:
        if self.config.shared_embeddings:
            self.decoder.embedding.weight = self.encoder.embedding.weight

    @property
    def device(self) -> torch.device:
        return self.decoder.output_bias.device

    @property
    def dtype(self) -> torch.dtype:
        return self.decoder.output_bias.dtype
