"""Builds a stand-in for a Marian model that CTranslate2 cannot run.

The stand-in has the same sizes, and CTranslate2 can run it. The command is:

    python -m benchmarks.peers.ctranslate2_build WEIGHTS SETTINGS FOLDER

`benchmarks.files` writes WEIGHTS and SETTINGS. WEIGHTS holds the Marian model's weights under
their own names, and its shortlist: the target pieces allowed for each source piece. The Marian
decoder has no self-attention, but a decoder of CTranslate2 needs it. So each decoder layer gets a
copy of the self-attention of one of the last encoder layers.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import sentencepiece
from ctranslate2.converters import marian

ATTENTION = ("Wq", "Wk", "Wv", "Wo", "bq", "bk", "bv", "bo", "Wo_ln_scale", "Wo_ln_bias")


def main() -> None:
    weights, settings, folder = sys.argv[1:]
    arrays = dict(np.load(weights))
    facts = json.loads(Path(settings).read_text("utf-8"))
    build(arrays, facts, Path(folder))


def build(arrays: dict[str, Any], facts: dict[str, Any], folder: Path) -> None:
    """Writes the model folder: weights in int8, the shortlist (if any), and the settings."""
    layers = (facts["encoder_layers"], facts["decoder_layers"])
    add_self_attention(arrays, *layers)
    spec = ctranslate2.specs.TransformerSpec.from_config(layers, facts["num_heads"], pre_norm=False)
    marian.set_transformer_spec(spec, arrays)
    source, target = pieces(facts["source_vocab"]), pieces(facts["target_vocab"])
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.add_source_eos = False
    spec.config.decoder_start_token = "</s>"
    spec.validate()
    spec.optimize(quantization="int8")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spec.save(str(folder))
    write_map(folder / "vmap.txt", arrays, source, target)
    (folder / "standin.json").write_text(json.dumps(facts), "utf-8")


def add_self_attention(arrays: dict[str, Any], encoder: int, decoder: int) -> None:
    """Copies the self-attention of the last encoder layers to the decoder layers."""
    for layer in range(decoder):
        copied = encoder - decoder + layer + 1
        for name in ATTENTION:
            arrays[f"decoder_l{layer + 1}_self_{name}"] = arrays[f"encoder_l{copied}_self_{name}"]


def pieces(path: str) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    return [processor.id_to_piece(i) for i in range(processor.vocab_size())]


def write_map(path: Path, arrays: dict[str, Any], source: list[str], target: list[str]) -> None:
    """Writes the shortlist, if there is one, as a vocabulary map of CTranslate2.

    Each line has a source piece, a tab, the allowed target pieces, and the source piece itself. The
    first line has no source piece: its target pieces are always allowed.
    """
    if "shortlist_offsets" not in arrays:
        return
    offsets, ids = arrays["shortlist_offsets"], arrays["shortlist_ids"]
    frequent = range(int(arrays["shortlist_frequent"]))
    lines = ["\t" + " ".join(target[i] for i in frequent)]
    for index, piece in enumerate(source):
        allowed = [target[i] for i in ids[offsets[index] : offsets[index + 1]]]
        lines.append(f"{piece}\t{' '.join([*allowed, piece])}")
    path.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
