"""Folders of embedding models: a Hugging Face encoder, and what becomes of its vectors.

The latter stands in sentence-transformers' own files beside it, where there are any.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path, PurePosixPath

from model.checkpoints import text_encoders
from model.checkpoints.json_files import (
    positive_integer,
    read_json,
    read_options,
    read_options_if_there,
)
from model.checkpoints.load import PACKAGE
from model.checkpoints.weight_files import find_weights, revision_of
from model.embedding_config import (
    DenseConfig,
    EmbeddingConfig,
    NormalizeConfig,
    Pooling,
    TextEncoderConfig,
)
from model.errors import CheckpointFormatError, CheckpointNotFoundError, UnsupportedModelError
from model.text_tokenization import TextTokenizer

MODULES = "modules.json"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
PROMPTS = "config_sentence_transformers.json"
LENGTHS = "sentence_bert_config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"

TANH = {"torch.nn.modules.activation.Tanh": True, "torch.nn.modules.linear.Identity": False}
SWITCH = "pooling_mode_"
SWITCHES = {
    "cls_token": Pooling.CLS,
    "max_tokens": Pooling.MAX,
    "mean_tokens": Pooling.MEAN,
    "mean_sqrt_len_tokens": Pooling.MEAN_SQRT_LEN,
    "weightedmean_tokens": Pooling.WEIGHTED_MEAN,
    "lasttoken": Pooling.LAST_TOKEN,
}


@dataclass(frozen=True)
class EmbeddingFiles:
    """Where the parts of one embedding model lie.

    Attributes:
        name: What the model is called: `all-MiniLM-L6-v2`.
        folder: All of its files are in it or below.
        encoder: The folder of the encoder: mostly the same.
        head: (kind, folder) of each module behind the encoder, in order; None where there is no
            `modules.json`.
    """

    name: str
    folder: Path
    encoder: Path
    head: tuple[tuple[str, Path], ...] | None

    @cached_property
    def revision(self) -> str:
        """Which version of the encoder's weights."""
        return revision_of(find_weights(self.encoder))


def find_embedding_models(reference: str) -> list[EmbeddingFiles]:
    """The embedding models behind a reference.

    Args:
        reference: A folder, or `package:NAME` for an installed package that carries models
            (it is not imported). Either may hold several.

    Raises:
        CheckpointNotFoundError: There is no such folder or package.
        CheckpointError: A model's files do not say what it is made of.
    """
    if reference.startswith(PACKAGE):
        roots = _package_folders(reference.removeprefix(PACKAGE))
    elif Path(reference).is_dir():
        roots = [path.parent for path in Path(reference).rglob(MODULES)] or [Path(reference)]
    else:
        raise CheckpointNotFoundError(f"{reference} is not a folder")
    return [read_folder(root) for root in sorted(roots)]


def _package_folders(name: str) -> list[Path]:
    try:
        files = metadata.files(name) or []
    except (metadata.PackageNotFoundError, ValueError) as error:  # ValueError: no name at all
        raise CheckpointNotFoundError(
            f"the package {name} is not installed; install it, or name a folder"
        ) from error
    found = {Path(str(file.locate())).parent for file in files if file.name == MODULES}
    if not found:
        raise CheckpointNotFoundError(f"the package {name} holds no {MODULES}")
    return sorted(found)


def read_folder(folder: Path) -> EmbeddingFiles:
    """The one model in a folder.

    Raises:
        CheckpointNotFoundError: There is none: it has neither `modules.json` nor an encoder.
        CheckpointFormatError: A part is missing, or `modules.json` is damaged or leads out of the
            folder.
        UnsupportedModelError: It names modules that are not implemented: all of them.
    """
    encoder, head = folder, None
    if (folder / MODULES).is_file():
        encoder, head = _read_modules(folder)
    elif missing := [name for name in (CONFIG, TOKENIZER) if not (folder / name).is_file()]:
        names = ", ".join(missing)
        raise CheckpointNotFoundError(f"{folder} holds no embedding model: no {names}")
    find_weights(encoder, (CONFIG, TOKENIZER))
    return EmbeddingFiles(_model_name(folder), folder, encoder, head)


def _model_name(folder: Path) -> str:
    """The folder's own, or that of the package around it where it is called `model`."""
    whole = folder.resolve()
    return whole.parent.name if whole.name == "model" else whole.name


def _read_modules(folder: Path) -> tuple[Path, tuple[tuple[str, Path], ...]]:
    path = folder / MODULES
    modules = read_json(path)
    try:
        parts = [(str(each["type"]), _inside(folder, each["path"])) for each in modules]
    except (TypeError, KeyError, ValueError) as error:
        raise CheckpointFormatError(f"{path} is no list of modules: {error!r}") from error
    kinds = [_kind(name) for name, _ in parts]
    wanted = {0: ("Transformer",), 1: ("Pooling",)}
    reasons = [
        f"module {number} is {parts[number][0]}, supported: {', '.join(known)}"
        for number, kind in enumerate(kinds)
        if kind not in (known := wanted.get(number, ("Dense", "Normalize")))
    ]
    if len(parts) < len(wanted):
        reasons.append(f"{len(parts)} modules are named, needed: Transformer, Pooling")
    if reasons:
        raise UnsupportedModelError(str(path), reasons)
    places = [place for _, place in parts]
    return places[0], tuple(zip(kinds[1:], places[1:], strict=True))


def _kind(name: str) -> str:
    """`Pooling` of `sentence_transformers.models.Pooling`; other packages' classes stay whole."""
    package, _, rest = name.partition(".")
    return rest.rpartition(".")[2] if package == "sentence_transformers" else name


def _inside(folder: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} is not in the folder")
    return folder / path


def read_config(files: EmbeddingFiles) -> EmbeddingConfig:
    """What the files say of the model, without its weights.

    Raises:
        CheckpointError: They are damaged, or ask for what is not implemented.
    """
    config = files.encoder / CONFIG
    encoder = text_encoders.read_config(read_options(config), str(config))
    pooling: tuple[Pooling, ...] = (Pooling.MEAN,)  # sentence-transformers' choice
    modules: list[DenseConfig | NormalizeConfig] = []
    for kind, folder in files.head or ():
        if kind == "Pooling":
            pooling = read_pooling(folder / CONFIG)
        else:
            modules.append(NormalizeConfig() if kind == "Normalize" else read_dense(folder))
    prompts, default = read_prompts(files.folder / PROMPTS)
    tokens = read_max_tokens(files.encoder, encoder)
    try:
        return EmbeddingConfig(encoder, pooling, tuple(modules), tokens, prompts, default)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(str(files.folder), error.reasons) from error


def read_pooling(path: Path) -> tuple[Pooling, ...]:
    """The ways of pooling that are switched on.

    Raises:
        CheckpointError: The file is damaged, or switches on what is not implemented.
    """
    options = read_options(path)
    named = options.get("pooling_mode", [])
    chosen = list(named) if isinstance(named, list) else [named]
    chosen += [
        name.removeprefix(SWITCH)
        for name, is_on in options.items()
        if name.startswith(SWITCH) and is_on is True
    ]
    known = {**{way.value: way for way in Pooling}, "max": Pooling.MAX, "mean": Pooling.MEAN}
    known |= SWITCHES
    reasons = [
        f"{name!r} is no way of pooling, supported: {', '.join(Pooling)}"
        for name in chosen
        if not isinstance(name, str) or name not in known
    ]
    if options.get("include_prompt", True) is not True:
        reasons.append("include_prompt is off: prompts are always pooled with the text")
    if not chosen:
        reasons.append("no way of pooling is switched on")
    if reasons:
        raise UnsupportedModelError(str(path), reasons)
    ways = {known[name] for name in chosen}
    return tuple(way for way in Pooling if way in ways)


def read_dense(folder: Path) -> DenseConfig:
    """A Dense module's sizes.

    Raises:
        CheckpointError: The file is damaged, or names an activation that is not implemented.
    """
    path = folder / CONFIG
    options = read_options(path)
    reasons: list[str] = []
    activation = str(options.get("activation_function", next(iter(TANH))))
    if activation not in TANH:
        reasons.append(f"activation_function is {activation}, supported: {', '.join(TANH)}")
    inputs = positive_integer(options, "in_features", 0, reasons)
    outputs = positive_integer(options, "out_features", 0, reasons)
    if reasons:
        raise UnsupportedModelError(str(path), reasons)
    return DenseConfig(inputs, outputs, bool(options.get("bias", True)), TANH[activation])


def read_prompts(path: Path) -> tuple[dict[str, str], str | None]:
    """Prompts by name, and the name of the one that is put before a text unasked.

    Raises:
        CheckpointFormatError: The file is damaged.
    """
    options = read_options_if_there(path)
    prompts = options.get("prompts") or {}
    default = options.get("default_prompt_name")
    is_plain = isinstance(prompts, dict) and all(isinstance(p, str) for p in prompts.values())
    if not is_plain or not (default is None or isinstance(default, str)):
        raise CheckpointFormatError(f"{path}: prompts are not texts by name")
    return prompts, default


def read_max_tokens(folder: Path, config: TextEncoderConfig) -> int:
    """What sentence-transformers takes: its own limit, or the tokenizer's; never over positions.

    Raises:
        CheckpointError: A file is damaged.
    """
    for name, option in ((LENGTHS, "max_seq_length"), (TOKENIZER_CONFIG, "model_max_length")):
        path = folder / name
        value = read_options_if_there(path).get(option)
        if value is None:
            continue
        # Tokenizers without a limit say 1e30, as a float or an integer.
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1:
            raise CheckpointFormatError(f"{path}: {option} is {value!r}, it must be at least 1")
        return int(min(value, config.max_tokens))
    return config.max_tokens


def load_tokenizer(files: EmbeddingFiles, config: EmbeddingConfig) -> TextTokenizer:
    """The tokenizer.

    Raises:
        CheckpointFormatError: The file is damaged, or its vocabulary is not the encoder's.
    """
    path = files.encoder / TOKENIZER
    options = read_options_if_there(files.encoder / LENGTHS)
    tokenizer = TextTokenizer(path, config.max_tokens, options.get("do_lower_case") is True)
    if tokenizer.vocab_size > config.encoder.vocab_size:
        raise CheckpointFormatError(
            f"{path} has ids up to {tokenizer.vocab_size - 1}; the weights are for "
            f"{config.encoder.vocab_size} ids"
        )
    return tokenizer
