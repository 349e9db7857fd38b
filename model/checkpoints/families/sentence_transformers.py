"""Folders of embedding models: a Hugging Face encoder, and what becomes of its vectors.

The latter stands in sentence-transformers' own files beside it, where there are any.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from model.checkpoints.families import text_encoders
from model.checkpoints.families.sentence_modules import (
    CONFIG,
    TOKENIZER_CONFIG,
    read_dense,
    read_max_tokens,
    read_normalize,
    read_pooling,
    read_prompts,
    read_transformer_options,
)
from model.checkpoints.folder_names import title_of
from model.checkpoints.formats.json_files import (
    read_json,
    read_options,
    read_options_if_there,
    unsupported,
)
from model.checkpoints.formats.weight_files import find_weights, revision_of
from model.checkpoints.load import PACKAGE, installed_files
from model.embedding_config import (
    DenseConfig,
    EmbeddingConfig,
    NormalizeConfig,
    Pooling,
)
from model.errors import CheckpointFormatError, CheckpointNotFoundError, UnsupportedModelError
from model.tokenization.text import TextTokenizer

MODULES = "modules.json"
TOKENIZER = "tokenizer.json"
PROMPTS = "config_sentence_transformers.json"
TOKENIZER_SUPPORTED = {"truncation_side": ("right",)}


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
    found = {path.parent for path in installed_files(name) if path.name == MODULES}
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
    return title_of(whole.parent if whole.name == "model" else whole)


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
    options = read_options(config)
    encoder = text_encoders.read_config(options, str(config))
    text_encoders.check_embedder(options, str(config))
    pooling: tuple[Pooling, ...] = (Pooling.MEAN,)  # sentence-transformers' choice
    modules: list[DenseConfig | NormalizeConfig] = []
    for kind, folder in files.head or ():
        if kind == "Pooling":
            pooling = read_pooling(folder / CONFIG)
        else:
            modules.append((read_normalize if kind == "Normalize" else read_dense)(folder))
    prompts, default = read_prompts(files.folder / PROMPTS)
    tokens = read_max_tokens(files.encoder, encoder)
    try:
        return EmbeddingConfig(encoder, pooling, tuple(modules), tokens, prompts, default)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(str(files.folder), error.reasons) from error


def load_tokenizer(files: EmbeddingFiles, config: EmbeddingConfig) -> TextTokenizer:
    """The tokenizer.

    Raises:
        CheckpointError: A file is damaged or asks for what is not implemented, or the vocabulary
            is not the encoder's.
    """
    path = files.encoder / TOKENIZER
    own = files.encoder / TOKENIZER_CONFIG
    reasons = unsupported(read_options_if_there(own), TOKENIZER_SUPPORTED)
    if reasons:
        raise UnsupportedModelError(str(own), reasons)
    options = read_transformer_options(files.encoder)
    tokenizer = TextTokenizer(path, config.max_tokens, options.get("do_lower_case") is True)
    if tokenizer.vocab_size > config.encoder.vocab_size:
        raise CheckpointFormatError(
            f"{path} has ids up to {tokenizer.vocab_size - 1}; the weights are for "
            f"{config.encoder.vocab_size} ids"
        )
    return tokenizer
