"""Reads folders of embedding models: a Hugging Face encoder, and the modules after it.

`modules.json` of sentence-transformers lists the modules. A folder without this file holds
only an encoder. The encoder's token vectors are then averaged.
"""

from dataclasses import dataclass, replace
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
from model.checkpoints.families.unserved import tokenizer_advice
from model.checkpoints.folder_names import title_of
from model.checkpoints.folder_search import PACKAGE, files_of, package_titles
from model.checkpoints.formats.git_lfs import check_pointers
from model.checkpoints.formats.json_files import (
    read_json,
    read_options,
    read_options_if_there,
    unsupported,
)
from model.checkpoints.formats.weight_files import WEIGHTS, find_weights, revision_of
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
    """The files of one embedding model.

    Attributes:
        name: Name of the model, such as `all-MiniLM-L6-v2`.
        folder: The folder that holds all files of the model.
        encoder: The folder of the encoder, which is usually `folder` itself.
        head: (kind, folder) of each module after the encoder, in order; None if there is no
            `modules.json`.
    """

    name: str
    folder: Path
    encoder: Path
    head: tuple[tuple[str, Path], ...] | None

    @cached_property
    def revision(self) -> str:
        """Returns the first digits of the sha256 checksum of the encoder's weights."""
        return revision_of(find_weights(self.encoder))


def find_embedding_models(reference: str) -> list[EmbeddingFiles]:
    """Returns the embedding models in a folder or in an installed package.

    Args:
        reference: A folder, or `package:NAME` for an installed package, which is not imported.
            A folder or a package may hold several models.

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
    titles = package_titles(reference, folders)
    found = [read_folder(folder) for folder in folders]
    return [replace(files, name=title) for files, title in zip(found, titles, strict=True)]


def _model_folders(paths: list[Path]) -> list[Path]:
    """Returns the folders with `modules.json`, and the folders with only an encoder.

    An encoder is left out if a folder above it is in the result. Such an encoder is a part of the
    model in the folder above.
    """
    found = {path.parent for path in paths if path.name == MODULES}
    folders = sorted(path.parent for path in paths if path.name == CONFIG)
    for folder in folders:  # a folder comes before its subfolders
        if found.isdisjoint((folder, *folder.parents)) and _is_encoder(folder):
            found.add(folder)
    return sorted(found)


def _is_encoder(folder: Path) -> bool:
    """Returns whether a folder holds an encoder of a served family, and the encoder's weights."""
    if not any((folder / name).is_file() for name in WEIGHTS):
        return False
    try:
        return _model_type(folder) in text_encoders.FAMILIES
    except CheckpointFormatError:
        return (folder / TOKENIZER).is_file()  # `read_folder` reports the damaged config


def _model_type(folder: Path) -> str:
    return str(read_options(folder / CONFIG).get("model_type"))


def read_folder(folder: Path) -> EmbeddingFiles:
    """Returns the one model in a folder.

    Raises:
        CheckpointNotFoundError: The folder has neither `modules.json` nor a served encoder.
        CheckpointFormatError: A part is missing or is a pointer of Git LFS, a JSON file is
            damaged, or `modules.json` names a path outside the folder.
        UnsupportedModelError: Modules are not implemented; the error lists all of them.
    """
    encoder, head = folder, None
    if (folder / MODULES).is_file():
        encoder, head = _read_modules(folder)
    elif missing := [name for name in (CONFIG, TOKENIZER) if not (folder / name).is_file()]:
        reason = f"{folder} holds no embedding model: it has no {', '.join(missing)}"
        raise CheckpointNotFoundError(reason + tokenizer_advice(folder))
    elif (kind := _model_type(folder)) not in text_encoders.FAMILIES:
        known = ", ".join(text_encoders.FAMILIES)
        raise CheckpointNotFoundError(
            f"{folder} holds no embedding model: model_type is {kind!r}, supported: {known}"
        )
    try:
        weights = find_weights(encoder, (CONFIG, TOKENIZER))
    except CheckpointFormatError as error:
        raise CheckpointFormatError(f"{error}{tokenizer_advice(encoder)}") from error
    check_pointers([weights, encoder / TOKENIZER])
    return EmbeddingFiles(_model_name(folder), folder, encoder, head)


def _model_name(folder: Path) -> str:
    """Returns the name of the folder, or of its parent if the folder is called `model`."""
    whole = folder.resolve()
    return title_of(whole.parent if whole.name == "model" else whole)


def _read_modules(folder: Path) -> tuple[Path, tuple[tuple[str, Path], ...]]:
    path = folder / MODULES
    modules = read_json(path)
    try:
        parts = [(str(each["type"]), _inside(folder, each["path"])) for each in modules]
    except (TypeError, KeyError, ValueError) as error:
        raise CheckpointFormatError(f"{path} is not a list of modules: {error!r}") from error
    kinds = [_kind(name) for name, _ in parts]
    wanted = {0: ("Transformer",), 1: ("Pooling",)}
    reasons = [
        f"module {number} is {parts[number][0]}, supported: {', '.join(known)}"
        for number, kind in enumerate(kinds)
        if kind not in (known := wanted.get(number, ("Dense", "Normalize")))
    ]
    if len(parts) < len(wanted):
        reasons.append(f"it lists {len(parts)} modules, needed: Transformer, Pooling")
    if reasons:
        raise UnsupportedModelError(str(path), reasons)
    places = [place for _, place in parts]
    return places[0], tuple(zip(kinds[1:], places[1:], strict=True))


def _kind(name: str) -> str:
    """Returns the last part of a name such as `sentence_transformers.models.Pooling`.

    The names of classes outside sentence-transformers stay whole.
    """
    package, _, rest = name.partition(".")
    return rest.rpartition(".")[2] if package == "sentence_transformers" else name


def _inside(folder: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} is not in the folder")
    return folder / path


def read_config(files: EmbeddingFiles) -> EmbeddingConfig:
    """Returns the config of the model. The weights are not read.

    Raises:
        CheckpointError: The files are damaged, or an option is not implemented.
    """
    config = files.encoder / CONFIG
    options = read_options(config)
    encoder = text_encoders.read_config(options, str(config))
    text_encoders.check_embedder(options, str(config))
    pooling: tuple[Pooling, ...] = (Pooling.MEAN,)  # the default of sentence-transformers
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
    """Returns the tokenizer.

    Raises:
        CheckpointError: A file is damaged, an option is not implemented, or the vocabulary does
            not match the encoder.
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
