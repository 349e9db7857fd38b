"""Folders of cross-encoders with random weights, made by transformers."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.hf_files import new_model
from tests.tiny_text import write_json, write_modules

WORDS = "<s> <pad> </s> <unk> the cat sat on a mat train is late where did who runs home .".split()
SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS),
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
    "num_labels": 1,
}
IDS = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")}
DEBERTA: dict[str, Any] = {
    "relative_attention": True,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 8,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {}),
    "roberta": (
        "Roberta",
        {"type_vocab_size": 1},
    ),
    "xlm-roberta": (
        "XLMRoberta",
        {"type_vocab_size": 1},
    ),
    "mpnet": ("MPNet", {}),
    "distilbert": (
        "DistilBert",
        {"hidden_dim": 64},
    ),
    "deberta": (
        "DebertaV2",
        DEBERTA,
    ),
    "gte": (
        "Gte",
        {"type_vocab_size": 2},
    ),
    "modernbert": (
        "ModernBert",
        IDS,
    ),
    "modernbert, mean": (
        "ModernBert",
        {**IDS, "classifier_pooling": "mean", "classifier_bias": True},
    ),
}
SEGMENTED = ("bert", "gte")
"""The families that read segments."""


def limit_of(family: str) -> int:
    """Returns the largest number of tokens; some families count positions from the padding id."""
    return 38 if family in ("roberta", "xlm-roberta", "mpnet") else SIZES["max_position_embeddings"]


def tokenizer(family: str) -> Tokenizer:
    """Makes a tokenizer of WORDS that adds special tokens as the family's post-processor does."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    if family in SEGMENTED:
        made.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 0))
    elif family == "roberta":
        made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    else:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>",
            pair="<s> $A </s> </s> $B </s>",
            special_tokens=[("<s>", 0), ("</s>", 2)],
        )
    return made


MODULES = "sentence_transformers"


def make_modular(folder: Path, activation: str | None = None, *others: tuple[str, str]) -> None:
    """Adds the files that sentence-transformers writes since version 5.4.

    `others` has the folder and the kind of each module after the transformer.
    """
    kinds = [("", "base.modules.transformer.Transformer"), *others]
    write_modules(folder, *((place, f"{MODULES}.{kind}") for place, kind in kinds))
    own = {"model_type": "CrossEncoder", "activation_fn": activation}
    empty: dict[str, Any] = {"prompts": {}, "default_prompt_name": None}
    write_json(folder / "config_sentence_transformers.json", own | empty)
    task = {"transformer_task": "sequence-classification", "module_output_name": "scores"}
    if not others:
        write_json(folder / "sentence_bert_config.json", task)


def write_cross_encoder(folder: Path, family: str = "bert", **changes: Any) -> Any:
    kind, own = FAMILIES[family]
    torch.manual_seed(5)
    model = new_model(f"{kind}ForSequenceClassification", **SIZES | own | changes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.2)
    model.save_pretrained(folder)
    tokenizer(family).save(str(folder / "tokenizer.json"))
    return model
