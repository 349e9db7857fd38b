"""Runs CTranslate2 in int8 with random weights, in the shape of a well-known model.

    python -m benchmarks.peers.ctranslate2_shape SHAPE FOLDER WORKERS BATCH_SIZE SENTENCES

SHAPE is a JSON object with the attributes of `benchmarks.random_weights.Shape`. FOLDER receives the
model. The process obeys `benchmarks.peers.protocol`. Every sentence is decoded to `tokens` tokens.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np

from benchmarks.peers import protocol
from benchmarks.peers.protocol import sentences, vocabulary

EOS, UNK = 0, 1
EOS_BIAS = -1e4
POSITIONS = 512
STANDARD_DEVIATION = 0.02


def build(shape: dict[str, Any], folder: Path) -> None:
    layers, width, vocab = shape["layers"], shape["d_model"], shape["vocab_size"]
    activations = ctranslate2.specs.common_spec.Activation
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (layers, layers),
        shape["num_heads"],
        pre_norm=shape["is_nllb"],
        activation=activations.RELU if shape["is_nllb"] else activations.SWISH,
    )
    Weights(width, shape["ffn_dim"]).fill(spec, vocab)
    pieces = vocabulary(vocab)
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.add_source_eos = False
    spec.config.decoder_start_token = pieces[-1]
    spec.validate()
    spec.optimize(quantization="int8")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spec.save(str(folder))


class Weights:
    def __init__(self, width: int, inner: int) -> None:
        self.width = width
        self.inner = inner
        self.generator = np.random.default_rng(0)

    def fill(self, spec: Any, vocab: int) -> None:
        """Fills a whole model; encoder, decoder and output layer share one embedding table."""
        table = self._random(vocab, self.width)
        positions = self._random(POSITIONS, self.width)
        bias = np.zeros(vocab, np.float32)
        bias[EOS] = EOS_BIAS
        spec.decoder.projection.weight, spec.decoder.projection.bias = table, bias
        spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = table
        for side in (spec.encoder, spec.decoder):
            side.position_encodings.encodings = positions
            side.scale_embeddings = True
            if hasattr(side, "layer_norm"):
                self._norm(side.layer_norm)
            for layer in side.layer:
                self._attention(layer.self_attention, (3,))
                if side is spec.decoder:
                    self._attention(layer.attention, (1, 2))
                self._linear(layer.ffn.linear_0, self.inner, self.width)
                self._linear(layer.ffn.linear_1, self.width, self.inner)
                self._norm(layer.ffn.layer_norm)

    def _attention(self, spec: Any, parts: tuple[int, ...]) -> None:
        for linear, count in zip(spec.linear, (*parts, 1)):  # noqa: B905 - equal lengths
            self._linear(linear, count * self.width, self.width)
        self._norm(spec.layer_norm)

    def _linear(self, spec: Any, out: int, width: int) -> None:
        spec.weight, spec.bias = self._random(out, width), np.zeros(out, np.float32)

    def _norm(self, spec: Any) -> None:
        spec.gamma, spec.beta = np.ones(self.width, np.float32), np.zeros(self.width, np.float32)

    def _random(self, *size: int) -> Any:
        return self.generator.standard_normal(size, dtype=np.float32) * STANDARD_DEVIATION


class Translator:
    """Translates texts of `tokens - 1` words to `tokens` tokens."""

    def __init__(self, shape: dict[str, Any], folder: str, workers: int, batch_size: int) -> None:
        if not (Path(folder) / "model.bin").exists():
            build(shape, Path(folder))
        self.tokens = shape["tokens"]
        self.batch_size = batch_size
        self.translator = ctranslate2.Translator(
            folder, compute_type="int8", inter_threads=workers, intra_threads=1
        )

    def __call__(self, texts: list[str]) -> list[str]:
        pieces = [[*text.split(), "</s>"] for text in texts]
        starts = range(0, len(pieces), self.batch_size)
        running = [self._begin(pieces[i : i + self.batch_size]) for i in starts]
        found = [result.result().hypotheses[0] for batch in running for result in batch]
        assert all(len(each) == self.tokens for each in found)
        return [" ".join(each) for each in found]

    def _begin(self, batch: list[list[str]]) -> Any:
        return self.translator.translate_batch(
            batch,
            beam_size=1,
            min_decoding_length=self.tokens,
            max_decoding_length=self.tokens,
            asynchronous=True,
        )


def main() -> None:
    words, folder, *numbers = sys.argv[1:]
    shape = json.loads(words)
    workers, batch_size, count = map(int, numbers)
    texts = sentences(count, shape["tokens"], shape["vocab_size"])
    protocol.serve(texts, Translator(shape, folder, workers, batch_size))


if __name__ == "__main__":
    main()
