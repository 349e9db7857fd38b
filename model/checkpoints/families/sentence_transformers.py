"""Reads folders of embedding models: a Hugging Face encoder, and the modules after it.

`modules.json` of sentence-transformers lists the modules. A folder without this file holds
only an encoder, whose token vectors are averaged. Does not import torch.

Source: sentence-transformers, models/Pooling, Dense, Normalize and Transformer up to version 6.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from safetensors import SafetensorError, safe_open

from model.checkpoints.families import colbert, text_encoders
from model.checkpoints.families.colbert import PROMPTS, Modules, is_multi_vector
from model.checkpoints.families.encoder_family import Options
from model.checkpoints.folders import PACKAGE, files_of, package_titles, title_of
from model.checkpoints.formats.files import (
    WEIGHTS,
    check_pointers,
    find_weights,
    read_json,
    read_options,
    read_options_if_there,
    revision_of,
    weight_files,
)
from model.config import (
    Activation,
    DenseConfig,
    EmbeddingConfig,
    HeadConfig,
    LayerNormConfig,
    NormalizeConfig,
    NormSpec,
    Pooling,
    SparseConfig,
    TextEncoderConfig,
)
from model.errors import CheckpointFormatError, CheckpointNotFoundError, UnsupportedModelError
from model.regular_files import MAX_WEIGHT_BYTES, check_file
from model.tokenization.text import TextTokenizer

CONFIG = "config.json"
MODULES = "modules.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
VOCABULARY = "vocab.txt"
TRANSFORMER_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_camembert_config.json",
    "sentence_xlm-roberta_config.json",
)
"""Names of the file with the encoder's options, newest first. The first existing file is read."""

IDENTITY = "torch.nn.modules.linear.Identity"
# Maps the activations of Dense modules to ours, the default first.
DENSE_ACTIVATIONS: dict[str, Activation | None] = {
    "torch.nn.modules.activation.Tanh": Activation.TANH,
    "torch.nn.modules.activation.GELU": Activation.GELU,
    "torch.nn.modules.activation.ReLU": Activation.RELU,
    "torch.nn.modules.activation.SiLU": Activation.SWISH,
    IDENTITY: None,
}
SWITCH = "pooling_mode_"
# Maps the names in older files to ways of pooling. The vectors are concatenated in this order.
SWITCHES = {
    "cls_token": Pooling.CLS,
    "max_tokens": Pooling.MAX,
    "mean_tokens": Pooling.MEAN,
    "mean_sqrt_len_tokens": Pooling.MEAN_SQRT_LEN,
    "weightedmean_tokens": Pooling.WEIGHTED_MEAN,
    "lasttoken": Pooling.LAST_TOKEN,
}
WAYS = {**SWITCHES, **{way.value: way for way in Pooling}}

# Options that change the computation of a module. Each option has its implemented values, the
# default first.
TRANSFORMER_SUPPORTED: dict[str, tuple[Any, ...]] = {"processing_kwargs": ({}, None)}
SINGLE_SUPPORTED = dict.fromkeys(("query_length", "document_length", "query_expansion"), (None,))
SCORES = "scores"
LOGIT_SCORE, SPLADE = "LogitScore", "SpladePooling"
STATIC, SPARSE_STATIC = "StaticEmbedding", "SparseStaticEmbedding"
# Maps the last module of a model to (`transformer_task`, `module_output_name`) of its Transformer.
TASKS = {
    "Transformer": ("sequence-classification", SCORES),
    SPLADE: ("fill-mask", "token_embeddings"),
    LOGIT_SCORE: ("text-generation", "causal_logits"),
}
USUAL_TASK = "feature-extraction", "token_embeddings"
HEAD_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "module_input_name": ("sentence_embedding",),
    "module_output_name": ("sentence_embedding", None),
    "use_residual": (False,),
}
TOKEN_SUPPORTED = HEAD_SUPPORTED | {
    "module_input_name": ("token_embeddings",),
    "module_output_name": ("token_embeddings", None),
}
SCORE_SUPPORTED = HEAD_SUPPORTED | {"module_output_name": (SCORES,)}
STATIC_TOKENS = 2**16  # largest number for a static model, which has no limit of its own

# A Router has modules for queries, and others for documents.
ROUTERS, ROUTER_CONFIG = ("Router", "Asym"), "router_config.json"
FORMS = "query", "document"
ASYM_ROUTES = {"doc": "document"}  # in older folders


@dataclass(frozen=True)
class EmbeddingFiles:
    """The files of one embedding model, all below `folder`.

    `encoder` is the folder of the encoder, usually `folder` itself. `head` has (kind, folder) of
    each module after the encoder; it is None without `modules.json`. A static model has a table of
    tokens in place of an encoder. If a model has a Router, `query` has the files for queries, and
    the other fields are those for documents.
    """

    name: str
    folder: Path
    encoder: Path
    head: Modules | None = None
    kind: str = "Transformer"  # of the first module
    query: "EmbeddingFiles | None" = None
    default_form: str = FORMS[1]  # of a text, if a request names none

    @cached_property
    def revision(self) -> str:
        return revision_of(find_weights(self.encoder))

    @property
    def num_bytes(self) -> int:
        own = sum(path.stat().st_size for path in weight_files(find_weights(self.encoder)))
        return own + (self.query.num_bytes if self.query else 0)

    @property
    def is_static(self) -> bool:
        return self.kind in (STATIC, SPARSE_STATIC)

    @property
    def is_multi(self) -> bool:
        return is_multi_vector(self.folder)


def find_embedding_models(reference: str) -> list[EmbeddingFiles]:
    """Returns the embedding models in a folder, or in a package (`package:NAME`).

    Raises:
        CheckpointNotFoundError: There is no such folder or package, or no model in it.
        CheckpointError: A model's files are damaged or missing, or a module is not implemented.
    """
    folders = _model_folders(files_of(reference))
    if not reference.startswith(PACKAGE):
        return [read_folder(folder) for folder in folders or [Path(reference)]]
    if not folders:
        name = reference.removeprefix(PACKAGE)
        raise CheckpointNotFoundError(f"the package {name} holds no {MODULES} and no encoder")
    named = zip(folders, package_titles(reference, folders), strict=True)
    return [replace(read_folder(folder), name=title) for folder, title in named]


def _model_folders(paths: list[Path]) -> list[Path]:
    """Returns the folders with `modules.json`, and those with an encoder that are not below."""
    found = {path.parent for path in paths if path.name == MODULES}
    folders = sorted(path.parent for path in paths if path.name == CONFIG)
    for folder in folders:  # a folder comes before its subfolders
        if found.isdisjoint((folder, *folder.parents)) and _is_encoder(folder):
            found.add(folder)
    return sorted(found)


def _is_encoder(folder: Path) -> bool:
    if not any((folder / name).is_file() for name in WEIGHTS):
        return False
    try:
        return _model_type(folder) in text_encoders.FAMILIES
    except CheckpointFormatError:
        return (folder / TOKENIZER).is_file()  # `read_folder` reports the damaged config


def _model_type(folder: Path) -> str:
    return str(read_options(folder / CONFIG).get("model_type"))


def read_folder(folder: Path) -> EmbeddingFiles:
    """Returns the one model in a folder, or refuses the folder with a CheckpointError."""
    listed = _listed_modules(folder)
    alone = (("Transformer", folder),)
    if listed is None or (is_cross_encoder(folder) and _kinds(listed) == alone):
        _check_encoder(folder)
        return _checked(EmbeddingFiles(_name_of(folder), folder, folder))
    routes = _read_router(folder, listed)
    if not routes:
        return _read_route(folder, listed)
    query, document = (_read_route(folder, routes[form]) for form in FORMS)
    return replace(document, query=query, default_form=next(iter(routes)))


def _check_encoder(folder: Path) -> None:
    if missing := [name for name in (CONFIG, TOKENIZER) if not (folder / name).is_file()]:
        reason = f"{folder} holds no embedding model: it has no {', '.join(missing)}"
        raise CheckpointNotFoundError(reason + _tokenizer_advice(folder))
    kind = _model_type(folder)
    if kind not in text_encoders.FAMILIES:
        known = ", ".join(text_encoders.FAMILIES)
        raise CheckpointNotFoundError(
            f"{folder} holds no embedding model: model_type is {kind!r}, supported: {known}"
        )
    if text_encoders.FAMILIES[kind].needs_modules and not is_reranker(folder):
        raise CheckpointNotFoundError(
            f"{folder} holds no embedding model: it has no {MODULES}, without which a model of the "
            f"model_type {kind!r} writes texts. Save it with sentence-transformers if it embeds"
        )


def _name_of(folder: Path) -> str:
    whole = folder.resolve()
    return title_of(whole.parent if whole.name == "model" else whole)


def _checked(files: EmbeddingFiles) -> EmbeddingFiles:
    encoder = files.encoder
    try:
        weights = find_weights(encoder, (TOKENIZER,) if files.is_static else (CONFIG, TOKENIZER))
    except CheckpointFormatError as error:
        raise CheckpointFormatError(f"{error}{_tokenizer_advice(encoder)}") from error
    check_pointers([weights, encoder / TOKENIZER])
    return files


def _tokenizer_advice(folder: Path) -> str:
    if (folder / TOKENIZER).is_file() or not (folder / VOCABULARY).is_file():
        return ""
    return (
        f". {VOCABULARY} cannot replace {TOKENIZER}. To make {TOKENIZER}, run in transformers: "
        f"AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
    )


def is_reranker(folder: Path) -> bool:
    """Returns whether a language model without `modules.json` reranks.

    Its architecture says so, or else its name does: Qwen3-Reranker is a Qwen3ForCausalLM.
    """
    named = str(read_options(folder / CONFIG).get("architectures"))
    return "ForSequenceClassification" in named or "rerank" in title_of(folder.resolve()).lower()


def is_cross_encoder(folder: Path) -> bool:
    """Returns whether sentence-transformers wrote a folder as a cross-encoder."""
    return read_options_if_there(folder / PROMPTS).get("model_type") == "CrossEncoder"


def _listed_modules(folder: Path) -> Modules | None:
    """Returns the class and the folder of each module; None without `modules.json`."""
    path = folder / MODULES
    if not path.is_file():
        return None
    try:
        modules = read_json(path)
        return tuple((str(each["type"]), _inside(folder, each["path"])) for each in modules)
    except (TypeError, KeyError, ValueError) as error:
        raise CheckpointFormatError(f"{path} is not a list of modules: {error!r}") from error


def _read_router(folder: Path, listed: Modules) -> dict[str, Modules]:
    """Returns the modules for each form of a text, the default form first; {} without a Router.

    Source: sentence-transformers, base/modules/router.py; models/Asym.py up to version 4.
    """
    numbers = [number for number, (name, _) in enumerate(listed) if _kind(name) in ROUTERS]
    if not numbers:
        return {}
    before, (_, place), after = listed[: numbers[0]], listed[numbers[0]], listed[numbers[0] + 1 :]
    path = place / ROUTER_CONFIG
    path = path if path.is_file() else place / CONFIG
    options = read_options(path)
    try:
        own, types = options.get("parameters") or {}, options["types"]
        parts = {ASYM_ROUTES.get(route, route): ids for route, ids in options["structure"].items()}
        routes = {form: _route_of(form, own.get("route_mappings") or {}) for form in FORMS}
        default = own.get("default_route") or next(iter(parts))
        default = ASYM_ROUTES.get(default, default)
        reasons = []
        if {*parts} != {*routes.values()}:
            reasons.append(f"it has the routes {', '.join(parts)}, supported: {', '.join(FORMS)}")
        elif default not in parts:
            reasons.append(f"default_route is {default!r}, it must be a route")
        if is_multi_vector(folder) or is_cross_encoder(folder):
            reasons.append("ColBERT models and cross-encoders with a router are not served")
        if reasons:
            raise UnsupportedModelError(str(path), reasons)
        between = {
            form: [(str(types[each]), _inside(place, each)) for each in parts[routes[form]]]
            for form in sorted(FORMS, key=lambda form: routes[form] != default)
        }
        return {form: (*before, *modules, *after) for form, modules in between.items()}
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise CheckpointFormatError(f"{path} is not a router: {error!r}") from error


def _route_of(form: str, mappings: Mapping[str, str]) -> str:
    keys = (form, "text"), (form, None), (None, "text"), (None, None)
    return next((mappings[str(key)] for key in keys if str(key) in mappings), form)


def _read_route(folder: Path, listed: Modules) -> EmbeddingFiles:
    modules = _kinds(listed)
    kinds = [kind for kind, _ in modules]
    usual: tuple[str, ...] = ("Dense", "LayerNorm", "Normalize")
    wanted: tuple[tuple[str, ...], ...] = (("Transformer",), ("Pooling",))
    if kinds[:1] == [STATIC] or kinds == [SPARSE_STATIC]:
        wanted = ((kinds[0],),)
    elif kinds[1:] == [SPLADE]:
        wanted = (("MLMTransformer", "Transformer"), (SPLADE,))
    elif kinds[1:] == [LOGIT_SCORE]:
        wanted = (("Transformer",), (LOGIT_SCORE,))
    elif is_multi_vector(folder):
        wanted, usual = (("Transformer",),), (*usual, colbert.MODULE)
    reasons = [
        f"module {number} is {name}, supported: {', '.join(known)}"
        for number, (name, _) in enumerate(listed)
        if kinds[number] not in (known := wanted[number] if number < len(wanted) else usual)
    ]
    if len(listed) < len(wanted):
        reasons.append(f"it lists {len(listed)} modules, needed: Transformer, Pooling")
    if reasons:
        raise UnsupportedModelError(str(folder / MODULES), reasons)
    kind, encoder = modules[0]
    return _checked(EmbeddingFiles(_name_of(folder), folder, encoder, modules[1:], kind))


def _kinds(listed: Modules) -> Modules:
    return tuple((_kind(name), place) for name, place in listed)


def _kind(name: str) -> str:
    """Returns `Pooling` for `sentence_transformers.models.Pooling`; names of others stay whole."""
    package, _, rest = name.partition(".")
    return rest.rpartition(".")[2] if package in ("sentence_transformers", "pylate") else name


def _inside(folder: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} is not in the folder")
    return folder / path


def read_config(files: EmbeddingFiles) -> EmbeddingConfig:
    path, head = files.encoder / CONFIG, files.head or ()
    prompts, default = read_prompts(files.folder / PROMPTS)
    options: dict[str, Any] = {}
    is_sparse = files.kind == SPARSE_STATIC
    if files.is_static:
        encoder = _read_static(find_weights(files.encoder), is_sparse)
        tokens = read_max_tokens(files, encoder) if is_sparse else STATIC_TOKENS
    else:
        options = read_options(path)
        encoder = text_encoders.read_config(options, str(path))
        tokens = read_max_tokens(files, encoder)
        if files.head is not None or not files.is_multi:
            text_encoders.check_embedder(options, str(path))
    pooling, pools_prompt = _read_pooling(head)
    modules = _read_head(files, encoder.d_model)
    scored = (folder for kind, folder in head if kind == SPLADE)
    sparse = next((text_encoders.read_splade(options, folder / CONFIG) for folder in scored), None)
    sparse = SparseConfig() if is_sparse else sparse
    multi = None
    if files.is_multi:
        own, vocabulary = _read_transformer_options(files), files.encoder / TOKENIZER
        multi = colbert.read_multi_vector(files.folder, own, head, vocabulary, tokens)
        prompts, default = {}, None
    try:
        config = EmbeddingConfig(
            encoder, pooling, modules, tokens, prompts, default, sparse, multi, pools_prompt
        )
    except UnsupportedModelError as error:
        raise UnsupportedModelError(str(files.folder), error.reasons) from error
    if files.query is not None:
        query = read_config(files.query)
        if (query.output_size, query.sparse is None) != (config.output_size, sparse is None):
            sizes = f"{query.output_size} for queries, {config.output_size} for documents"
            reason = f"the sizes of vectors are {sizes}; both must be alike, dense or sparse"
            raise UnsupportedModelError(str(files.folder), [reason])
    return config


def _read_pooling(head: Modules) -> tuple[tuple[Pooling, ...], bool]:
    """Returns the ways of pooling, and whether a prompt is pooled."""
    kind, folder = head[0] if head else ("", Path())
    if kind != "Pooling":
        return (Pooling.LAST_TOKEN if kind == LOGIT_SCORE else Pooling.MEAN,), True
    options = Options.of(folder / CONFIG)
    chosen = options.get("pooling_mode") or _switched_on(options.values)
    chosen = chosen if isinstance(chosen, list) else [chosen]
    options.reasons.extend(
        f"{name!r} is not a way of pooling, supported: {', '.join(Pooling)}"
        for name in chosen
        if not isinstance(name, str) or name not in WAYS
    )
    # With `include_prompt`, the tokens of a prompt are pooled together with those of the text.
    options.check({"include_prompt": (True, False)})
    options.refuse()
    return tuple(WAYS[name] for name in chosen), bool(options.get("include_prompt", True))


def _switched_on(options: Mapping[str, Any]) -> list[str]:
    names = [name for name, is_on in options.items() if is_on is True]
    on = {name.removeprefix(SWITCH) for name in names if name.startswith(SWITCH)}
    return [*(name for name in SWITCHES if name in on), *sorted(on - SWITCHES.keys())]


def _read_head(files: EmbeddingFiles, width: int) -> tuple[HeadConfig, ...]:
    """Returns the modules after pooling, or after an encoder of the given width."""
    modules: list[HeadConfig] = []
    head = files.head or ()
    supported = TOKEN_SUPPORTED if files.is_multi else HEAD_SUPPORTED
    if files.is_multi and files.head is None:  # Stanford's ColBERT
        options = Options.of(files.folder / colbert.METADATA)
        modules.append(DenseConfig(width, options.integer("dim", 128), has_bias=False))
        options.refuse()
    for number, (kind, folder) in enumerate(head, 1):
        if kind == LOGIT_SCORE:
            modules.append(DenseConfig(width, 1, has_bias=False))
        elif kind == "Dense":
            is_score = number == len(head) and is_cross_encoder(files.folder)
            modules.append(_read_dense(folder / CONFIG, SCORE_SUPPORTED if is_score else supported))
        elif kind == "LayerNorm":
            options = Options.of(folder / CONFIG)
            modules.append(LayerNormConfig(options.integer("dimension", 0), NormSpec(1e-5)))
            options.refuse()
        elif kind == "Normalize":  # in older versions, it has no config
            read_options_if_there(folder / CONFIG, supported)
            modules.append(NormalizeConfig())
    if files.is_multi and not (modules and isinstance(modules[-1], NormalizeConfig)):
        modules.append(NormalizeConfig())  # PyLate and Stanford's ColBERT always scale vectors
    return tuple(modules)


def _read_dense(path: Path, supported: Mapping[str, tuple[Any, ...]]) -> DenseConfig:
    options, known = Options.of(path), DENSE_ACTIVATIONS
    options.check(supported)
    activation = str(options.get("activation_function", next(iter(known))))
    if activation not in known:
        options.reasons.append(
            f"activation_function is {activation}, supported: {', '.join(known)}"
        )
    inputs, outputs = (options.integer(f"{side}_features", 0) for side in ("in", "out"))
    options.refuse()
    return DenseConfig(inputs, outputs, bool(options.get("bias", True)), known[activation])


def _read_static(weights: Path, is_sparse: bool) -> TextEncoderConfig:
    """Returns the config of a table of tokens, from the header of its safetensors file.

    If it is sparse, each token has only a number, its weight.
    """
    try:
        check_file(weights, MAX_WEIGHT_BYTES)
        with safe_open(weights, "numpy") as tensors:
            (name,) = tensors.keys()
            shape = tensors.get_slice(name).get_shape()
            rows, width = (*shape, 1) if is_sparse else shape
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointFormatError(f"{weights} is not one table of tokens: {error}") from error
    return TextEncoderConfig(
        (), rows, STATIC_TOKENS, has_positions=False, norms_embedding=False, width=width
    )


def read_prompts(path: Path) -> tuple[dict[str, str], str | None]:
    options = read_options_if_there(path)
    prompts = options.get("prompts") or {}
    default = options.get("default_prompt_name")
    is_plain = isinstance(prompts, dict) and all(isinstance(p, str) for p in prompts.values())
    if not is_plain or not (default is None or isinstance(default, str)):
        raise CheckpointFormatError(
            f"{path}: prompts must map names to texts, and default_prompt_name must be a text"
        )
    return prompts, default


def read_max_tokens(files: EmbeddingFiles, config: TextEncoderConfig) -> int:
    """Returns the largest number of tokens of a text, as sentence-transformers computes it."""
    value, option = _read_transformer_options(files).get("max_seq_length"), "max_seq_length"
    if value is None:
        option = "model_max_length"
        own = read_options_if_there(files.encoder / TOKENIZER_CONFIG)
        value = own.get(option, config.max_tokens)
    # In tokenizers without a limit, the value is 1e30, as a float or an integer.
    if type(value) not in (int, float) or not value >= 1:
        raise CheckpointFormatError(
            f"{files.encoder}: {option} is {value!r}, it must be at least 1"
        )
    return int(min(value, config.max_tokens))


def _read_transformer_options(files: EmbeddingFiles) -> dict[str, Any]:
    paths = [files.encoder / name for name in TRANSFORMER_CONFIGS]
    path = next((path for path in paths if path.is_file()), paths[0])
    last = files.head[-1][0] if files.head else ""
    if files.head is None and is_cross_encoder(files.folder):
        last = "Transformer"
    task, output = TASKS.get(last, USUAL_TASK)
    supported = {"transformer_task": (task,), "module_output_name": (output, None)}
    if not files.is_multi:
        supported |= SINGLE_SUPPORTED
    return read_options_if_there(path, supported | TRANSFORMER_SUPPORTED)


def load_tokenizer(files: EmbeddingFiles, config: EmbeddingConfig) -> TextTokenizer:
    """Returns the tokenizer, which puts the marker of documents before texts in ColBERT models."""
    markers = () if config.multi is None else config.multi.markers[1:]
    return read_tokenizer(files, config.max_tokens, config.encoder.vocab_size, markers)


def read_tokenizer(
    files: EmbeddingFiles, max_tokens: int, vocab_size: int, markers: Sequence[int] = ()
) -> TextTokenizer:
    path, own = files.encoder / TOKENIZER, files.encoder / TOKENIZER_CONFIG
    read_options_if_there(own, {"truncation_side": ("right",)})
    is_lowercase = _read_transformer_options(files).get("do_lower_case") is True
    tokenizer = TextTokenizer(path, max_tokens, is_lowercase, not files.is_static, markers)
    if tokenizer.vocab_size > vocab_size:
        raise CheckpointFormatError(
            f"{path} has ids up to {tokenizer.vocab_size - 1}; the weights are for {vocab_size} ids"
        )
    return tokenizer
