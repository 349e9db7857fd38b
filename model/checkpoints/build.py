"""A filled model and its engine, from the files of a model."""

import torch

from model.checkpoints import marian
from model.checkpoints.load import ModelFiles, check_vocabularies, load_vocabularies
from model.checkpoints.marian_format import MarianFile
from model.device import Precision
from model.engine import Engine
from model.sequence import EngineLimits
from model.shortlist import Shortlist
from model.transformer import EncoderDecoder


def load_model(files: ModelFiles, device: torch.device, precision: Precision) -> EncoderDecoder:
    """The model, filled, on its device and in its precision.

    Raises:
        CheckpointError: The files are damaged, unsupported, or do not fit each other.
    """
    vocabularies = load_vocabularies(files)
    file = MarianFile(files.weights)
    tokenizer = vocabularies.target
    config = marian.read_config(file, files.max_length_factor, tokenizer.eos_id, tokenizer.unk_id)
    check_vocabularies(config, vocabularies, files.name)
    model = marian.load_weights(file, config, is_quantized=precision is Precision.INT8)
    model.precision = precision
    return model.to(device, precision.dtype)


def load_engine(
    files: ModelFiles,
    device: torch.device,
    precision: Precision,
    limits: EngineLimits,
    use_shortlist: bool,
) -> Engine:
    """An engine around the model.

    Args:
        files: Where the model lies.
        device: Where it computes.
        precision: In which precision.
        limits: Of the batch.
        use_shortlist: Whether output is restricted to the lexical shortlist that came along.

    Raises:
        CheckpointError: The files are damaged, unsupported, or do not fit each other.
    """
    model = load_model(files, device, precision)
    shortlist = None
    if use_shortlist and files.shortlist is not None:
        config = model.config
        shortlist = Shortlist.read(
            files.shortlist,
            config.source_vocab_size,
            config.target_vocab_size,
            files.has_shared_vocab,
        )
    return Engine(model, limits, shortlist)
