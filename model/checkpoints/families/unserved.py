"""Gives advice about folders that are not served, such as folders for other software."""

from pathlib import Path

from model.checkpoints.families.hf_config import CONFIG
from model.checkpoints.formats.json_files import read_options
from model.errors import CheckpointError

TRANSLATORS = ("bart", "mbart", "t5", "mt5", "umt5", "fsmt", "pegasus", "blenderbot")
"""Values of `model_type` of translation models that are not served."""

VOCABULARY = "vocab.txt"
TOKENIZER = "tokenizer.json"
CTRANSLATE2_WEIGHTS = "model.bin"


def translator_advice(folder: Path) -> str:
    """Returns advice about a folder without a served translation model, for an error message.

    The advice is empty unless the folder holds `.gz` files, a model for CTranslate2, or a model of
    one of the types in `TRANSLATORS`.

    Args:
        folder: The folder, which need not exist.
    """
    compressed = sorted(path.name for path in folder.glob("*.gz"))
    if compressed:
        return f". {', '.join(compressed)} must be unpacked: `gunzip {folder}/*.gz`"
    if (folder / CTRANSLATE2_WEIGHTS).is_file() and any(folder.glob("*vocabulary.*")):
        return (
            ". The folder was converted for CTranslate2, whose files are not served. Serve the "
            "Hugging Face or Marian folder that it was made from"
        )
    if _model_type(folder) in TRANSLATORS:
        return (
            ". The served translation models are Marian's (Firefox, OPUS-MT), M2M100, "
            "NLLB-200 and SMaLL-100. Take for example Helsinki-NLP/opus-mt-en-de or "
            "facebook/nllb-200-distilled-600M"
        )
    return ""


def tokenizer_advice(folder: Path) -> str:
    """Returns advice on how to make a missing `tokenizer.json` from `vocab.txt`.

    The advice is empty if `tokenizer.json` exists, or if there is no `vocab.txt`.
    """
    if (folder / TOKENIZER).is_file() or not (folder / VOCABULARY).is_file():
        return ""
    return (
        f". {VOCABULARY} cannot replace {TOKENIZER}. To make {TOKENIZER}, run in transformers: "
        f"AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
    )


def _model_type(folder: Path) -> object:
    try:
        return read_options(folder / CONFIG).get("model_type")
    except CheckpointError:
        return None
