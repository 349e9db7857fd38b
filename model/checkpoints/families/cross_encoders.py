"""Reads folders of cross-encoders. Does not import torch.

A cross-encoder reads a query and a text together, and gives one score. It is an encoder with a
classification head of one label or with modules of sentence-transformers. Or it is a language model
that answers yes or no.

Source: transformers, `*ForSequenceClassification` of the families in HEADS; sentence-transformers,
cross_encoder/model.py; the README of Qwen/Qwen3-Reranker-0.6B.
"""

from dataclasses import dataclass, replace
from typing import Any

from tokenizers import Tokenizer

from model.checkpoints.families import text_encoders
from model.checkpoints.families.colbert import PROMPTS
from model.checkpoints.families.encoder_family import Options
from model.checkpoints.families.sentence_transformers import (
    CONFIG,
    IDENTITY,
    LOGIT_SCORE,
    TOKENIZER,
    TOKENIZER_CONFIG,
    EmbeddingFiles,
    is_cross_encoder,
    is_reranker,
    read_config,
    read_max_tokens,
    read_prompts,
    read_tokenizer,
)
from model.checkpoints.formats.files import read_options_if_there
from model.config import (
    Activation,
    DenseConfig,
    EmbeddingConfig,
    HeadConfig,
    LayerNormConfig,
    Pooling,
)
from model.errors import UnsupportedModelError
from model.regular_files import check_file
from model.tokenization.pairs import PairTokenizer, PromptedPairTokenizer

BERT = ("pooler.dense", "classifier")
ROBERTA = ("classifier.dense", "classifier.out_proj")
HEADS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("bert", "new", "gte", "deberta-v2"), BERT),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "mpnet"), ROBERTA),
    "distilbert": ("pre_classifier", "classifier"),
    "modernbert": ("head.dense", "head.norm", "classifier"),
    "qwen3": ("score",),
}
"""Maps a `model_type` to the names of the layers of its classification head."""

ARCHITECTURES = [
    f"{text_encoders.FAMILIES[kind].embedders[0].removesuffix('Model')}ForSequenceClassification"
    for kind in HEADS
]
SEGMENTED = ("bert", "new", "gte")
"""Values of `model_type` whose tokenizers tell a query from a text by types of tokens."""

RAW = {None: False, "torch.nn.modules.activation.Sigmoid": False, IDENTITY: True}
"""Maps the function between logit and score to whether the logit itself is the score."""

LANGUAGE_MODEL = "qwen3"
TASK = "Judge whether the Document meets the requirements based on the Query and the Instruct"
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
OPENING = (
    f"<|im_start|>system\n{TASK} provided. Note that the answer can only be "
    '"yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: '
)
CLOSING = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
TEMPLATE = "chat_template"


class CrossEncoderFiles(EmbeddingFiles):
    """The files of one cross-encoder. Without a `head`, `config.json` names its classifier."""


@dataclass(frozen=True, slots=True)
class CrossEncoderConfig:
    """Config of a cross-encoder: the encoder, and the modules that make a score of its states."""

    model: EmbeddingConfig
    vocab_size: int
    # Number of token types that the model distinguishes, 1 or 2. Type 0 is the query, and type 1 is
    # the text. With 2 types, the token table has a second row for each token. The ids of tokens
    # in a text are therefore their ids in the query plus `vocab_size`.
    num_segments: int
    label: str  # name of the only label
    is_raw: bool = False  # whether sentence-transformers returns the logit, and not its sigmoid
    # In a language model, the ids of one or two tokens, such as yes and no. The score is the logit
    # of the first one, less that of the second one.
    answers: tuple[int, ...] = ()
    instruction: str | None = None  # a part of the prompt of a language model


def by_architecture(files: EmbeddingFiles) -> EmbeddingFiles:
    """Returns CrossEncoderFiles for a folder whose files say that it scores pairs."""
    options = read_options_if_there(files.encoder / CONFIG)
    if files.head is not None:
        is_ours = is_cross_encoder(files.folder)
    elif options.get("model_type") == LANGUAGE_MODEL:
        is_ours = is_reranker(files.folder)
    else:
        is_ours = options.get("architectures") in [[name] for name in ARCHITECTURES]
    parts = files.name, files.folder, files.encoder, files.head
    return CrossEncoderFiles(*parts) if is_ours else files


def read_cross_encoder(files: CrossEncoderFiles) -> CrossEncoderConfig:
    options = Options.of(files.encoder / CONFIG)
    labels = options.get("id2label")
    if not isinstance(labels, dict | None):
        raise UnsupportedModelError(options.name, ["id2label must be an object"])
    answers = _read_answers(files, options)
    if files.head is not None:
        model = read_config(files)
        num_labels: object = model.output_size
    else:
        model = _read_classifier(files, options)
        usual = 2 if labels is None else len(labels)
        num_labels = 1 if answers else options.get("num_labels", usual)
    if num_labels != 1:
        reason = (
            f"the classifier has {num_labels} labels; a model that reranks has 1 label. Serve "
            "a cross-encoder with 1 label, or an embedding model"
        )
        raise UnsupportedModelError(options.name, [reason])
    encoder, is_segmented = model.encoder, options.get("model_type") in SEGMENTED
    num_segments = max(1, min(encoder.token_types, 2)) if is_segmented else 1
    folded = replace(encoder, vocab_size=encoder.vocab_size * num_segments)
    return CrossEncoderConfig(
        replace(model, encoder=folded, prompts={}, default_prompt=None),
        encoder.vocab_size,
        num_segments,
        str((labels or {}).get("0", "LABEL_0")),
        _is_raw(files, options),
        answers,
        _read_instruction(files, options),
    )


def _read_classifier(files: CrossEncoderFiles, options: Options) -> EmbeddingConfig:
    kind = options.get("model_type")
    encoder = text_encoders.read_config(options.values, options.name)
    width, pooling, bias, activation = encoder.d_model, Pooling.CLS, True, Activation.TANH
    if kind == "distilbert":
        activation = Activation.RELU
    if kind == "deberta-v2":
        activation = options.activation("pooler_hidden_act", "gelu")
        options.check({"pooler_hidden_size": (width,)})
    if kind == "modernbert":
        options.check({"classifier_pooling": ("cls", "mean")})
        activation = options.activation("classifier_activation", "gelu")
        options.refuse()
        pooling = Pooling(options.get("classifier_pooling", "cls"))
        bias = bool(options.get("classifier_bias", False))
    options.refuse()
    dense = DenseConfig(width, width, bias, activation)
    norms = [LayerNormConfig(width, encoder.blocks[0].norm)] * (kind == "modernbert")
    head: tuple[HeadConfig, ...] = (dense, *norms, DenseConfig(width, 1))
    if kind == LANGUAGE_MODEL:
        pooling, head = Pooling.LAST_TOKEN, (DenseConfig(width, 1, has_bias=False),)
    return EmbeddingConfig(encoder, (pooling,), head, read_max_tokens(files, encoder))


def _read_answers(files: CrossEncoderFiles, options: Options) -> tuple[int, ...]:
    """Returns the ids of the answers of a language model; no ids if it has a classifier."""
    ids: list[Any]
    if files.head is None and options.get("architectures") == ["Qwen3ForCausalLM"]:
        path = files.encoder / TOKENIZER
        check_file(path)
        tokenizer = Tokenizer.from_file(str(path))
        ids = [tokenizer.token_to_id(answer) for answer in ("yes", "no")]
    elif files.head is not None and files.head[0][0] == LOGIT_SCORE:
        path = files.head[0][1] / CONFIG
        score = Options.of(path)
        ids = [score.get("true_token_id"), score.get("false_token_id")]
        ids = ids[:1] if ids[1] is None else ids
    else:
        return ()
    limit = options.get("vocab_size", 0)
    if any(type(each) is not int or not 0 <= each < limit for each in ids):
        reason = f"the ids of its answers are {ids}, needed: numbers from 0 to {limit - 1}"
        raise UnsupportedModelError(str(path), [reason])
    return tuple(ids)


def _read_instruction(files: CrossEncoderFiles, options: Options) -> str | None:
    """Returns the task in the prompt of a language model, and None for other models."""
    own = files.folder / PROMPTS
    prompts, default = read_prompts(own)
    if options.get("model_type") != LANGUAGE_MODEL:
        if default:
            reason = f"default_prompt_name is {default!r}; such cross-encoders are not served"
            raise UnsupportedModelError(str(own), [reason])
        return None
    path = files.encoder / f"{TEMPLATE}.jinja"
    if path.is_file():
        check_file(path)
        template = path.read_text("utf-8", "replace")
    else:
        path = files.encoder / TOKENIZER_CONFIG
        template = str(read_options_if_there(path).get(TEMPLATE))
    if TASK not in template and ("'document'" in template or '"document"' in template):
        reason = f"its {TEMPLATE} is not that of Qwen3-Reranker, the only one that is implemented"
        raise UnsupportedModelError(str(path), [reason])
    if default is not None and default not in prompts:
        reason = f"the default prompt {default!r} is not among the prompts"
        raise UnsupportedModelError(str(own), [reason])
    return INSTRUCTION if default is None else prompts[default]


def _is_raw(files: CrossEncoderFiles, options: Options) -> bool:
    """Returns whether the score is the logit itself, and not its sigmoid.

    Since version 5.4 of sentence-transformers, its own file names the function between the two.
    """
    own = read_options_if_there(files.folder / PROMPTS).get("activation_fn")
    older = options.get("sentence_transformers")
    given = own or (older.get("activation_fn") if isinstance(older, dict) else None)
    name = given or options.get("sbert_ce_default_activation_function") or None
    if name not in RAW and str(name).startswith("torch."):  # others are ignored by their library
        known = ", ".join(filter(None, RAW))
        reason = f"activation_fn is {name}, supported: {known}"
        raise UnsupportedModelError(str(files.folder), [reason])
    return RAW.get(name, False)


def load_pair_tokenizer(
    files: CrossEncoderFiles, config: CrossEncoderConfig
) -> PairTokenizer | PromptedPairTokenizer:
    max_tokens, name = config.model.max_tokens, str(files.encoder / TOKENIZER)
    tokenizer = read_tokenizer(files, max_tokens, config.vocab_size)
    if config.instruction is not None:
        parts = f"{OPENING}{config.instruction}\n<Query>: ", "\n<Document>: ", CLOSING
        return PromptedPairTokenizer(tokenizer, max_tokens, parts, name)
    inputs = read_options_if_there(files.encoder / TOKENIZER_CONFIG).get("model_input_names")
    has_segments = not isinstance(inputs, list) or "token_type_ids" in inputs
    return PairTokenizer(tokenizer, max_tokens, name, has_segments)
