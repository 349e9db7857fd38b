"""CTranslate2 with a stand-in model, driven through the messages of `benchmarks.peers.protocol`.

    python -m benchmarks.peers.ctranslate2 FOLDER SOURCE WORKERS full|vmap

With `vmap`, a vocabulary map restricts the output; with `full`, the output may have any token.

The built-in models have an SSRU, a recurrent unit, in each decoder layer. CTranslate2 has no SSRU,
so it cannot load their weights. The stand-in has their shape and most of their weights, with
self-attention in place of the SSRU. Its output has no meaning, so only
its speed is measured.

The stand-in must do as much work as the real model. So every batch is decoded to a fixed length:
the mean source length of the batch, times `tokens_ratio` of the folder's settings.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers import protocol

BATCH_SIZE = 16
"""Fastest batch size from 8 to 128 on two cores, in int8 with two streams of one thread each."""


def load(folder: str, workers: int, is_restricted: bool) -> protocol.Translate:
    """Loads the stand-in and returns a function from texts to translations."""
    import ctranslate2
    import sentencepiece

    settings = json.loads((Path(folder) / "standin.json").read_text("utf-8"))
    source = sentencepiece.SentencePieceProcessor(model_file=settings["source_vocab"])
    target = sentencepiece.SentencePieceProcessor(model_file=settings["target_vocab"])
    translator = ctranslate2.Translator(
        folder, compute_type="int8", inter_threads=workers, intra_threads=1
    )

    def start(batch: list[list[str]]) -> Any:
        tokens = sum(map(len, batch)) * settings["tokens_ratio"] / len(batch)
        length = max(1, round(tokens))
        return translator.translate_batch(
            batch,
            beam_size=1,
            min_decoding_length=length,
            max_decoding_length=length,
            use_vmap=is_restricted,
            asynchronous=True,
        )

    def translate(texts: list[str]) -> list[str]:
        pieces = [[*source.encode(text, out_type=str), "</s>"] for text in texts]
        order = sorted(range(len(texts)), key=lambda i: len(pieces[i]), reverse=True)
        batches = [order[i : i + BATCH_SIZE] for i in range(0, len(order), BATCH_SIZE)]
        results = [start([pieces[i] for i in batch]) for batch in batches]
        outputs = [""] * len(texts)
        for batch, translated in zip(batches, results):  # noqa: B905 - equal lengths
            for i, result in zip(batch, translated):  # noqa: B905
                outputs[i] = target.decode(result.result().hypotheses[0])
        return outputs

    return translate


def main() -> None:
    folder, source, workers, restricted = sys.argv[1:]
    sentences = protocol.read_lines(source)
    protocol.serve(sentences, load(folder, int(workers), restricted == "vmap"))


if __name__ == "__main__":
    main()
