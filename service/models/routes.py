"""The routes between languages: the models that translate each language pair."""

from collections.abc import Callable, Collection, Sequence

from service.errors import SHOWN_CHARS, UnsupportedLanguageError
from service.models.remote import ServedRemote
from service.models.served import Direction, NotLoadedError, OnDemand, ServedModel
from service.text.language_codes import display_name, match_language

PIVOT = "en"
"""Language through which two models translate a pair that no single model has."""


class Routes:
    """The routes of a catalog.

    Args:
        models: Models on this server. Of two models of one pair, the later one is preferred.
        unloaded: Names of models that must be loaded before they are used.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        remote: Sequence[ServedRemote],
        on_demand: Collection[OnDemand],
        offered: Collection[str],
        unloaded: Collection[str],
    ) -> None:
        self.unloaded = frozenset(unloaded)
        self.multilingual = [model for model in models if not model.files.source]
        self.local = [*(each for each in reversed(models) if each.files.source), *self.multilingual]
        # Of two models of one pair, the model on this server is preferred to the remote one, unless
        # this is marked.
        all_: list[ServedModel | ServedRemote] = [
            *(each for each in remote if not each.files.is_first),
            *models,
            *(each for each in remote if each.files.is_first),
        ]
        self.pairs: dict[tuple[str, str], ServedModel | ServedRemote | OnDemand]
        self.pairs = {(each.source, each.target): each for each in on_demand if each.source}
        self.pairs |= {(m.files.source, m.files.target): m for m in all_ if m.files.source}
        files = [model.files for model in all_]
        codes = {code for f in files for code in (*f.sources, *f.targets)}
        self.languages = sorted(codes.union(*self.pairs))
        if offered:
            found = {match_language(code, self.languages) for code in offered}
            self.languages = sorted(filter(None, found))

    def offers(self) -> dict[str, list[str]]:
        """Maps each source language to its target languages, including the source.

        A language that is translated to no other language is left out. The caller must not modify
        the result.
        """
        found = {code: self.targets(code) for code in self.languages}
        return {code: targets for code, targets in found.items() if len(targets) > 1}

    def targets(self, source: str) -> list[str]:
        """Returns the languages that a source can be translated to, including the source."""
        return self._reachable(source, self._direct_targets)

    def sources(self, target: str) -> list[str]:
        """Returns the languages that can be translated to a target, including the target."""
        return self._reachable(target, self._direct_sources)

    def _reachable(self, code: str, direct: Callable[[str], set[str]]) -> list[str]:
        found = direct(code)
        if PIVOT in found:
            found |= direct(PIVOT)
        return sorted((found | {code}).intersection(self.languages))

    def _direct_targets(self, source: str) -> set[str]:
        found = {target for s, target in self.pairs if s == source}
        lists = (m.files.targets for m in self.multilingual if source in m.files.sources)
        return found.union(*lists) - {source}

    def _direct_sources(self, target: str) -> set[str]:
        found = {source for source, t in self.pairs if t == target}
        lists = (m.files.sources for m in self.multilingual if target in m.files.targets)
        return found.union(*lists) - {target}

    def language(self, code: str) -> str:
        """Returns the served language that a client's code means: `PT_br` may mean `pt`."""
        if code in self.languages:
            return code
        found = match_language(code, self.languages)
        if found is None:
            supported = f"supported: {', '.join(self.languages)}"
            message = f"{code[:SHOWN_CHARS]} is not supported"
            raise UnsupportedLanguageError(message, details=supported)
        return found

    def route(self, source: str, target: str) -> tuple[Direction, ...]:
        """Returns the models that translate from one served language to another, in order.

        The route is empty if both languages are the same. A direct model is preferred to a route
        through English, and a single-pair model to a multilingual one. Of several single-pair
        models on this server, the last one is used; of several multilingual models, the first.

        Raises:
            NotLoadedError: Models of the route must be loaded first.
        """
        if source == target:
            return ()
        if direct := self._direct(source, target):
            return self.loaded(direct)
        first, second = self._direct(source, PIVOT), self._direct(PIVOT, target)
        if first is None or second is None:
            raise UnsupportedLanguageError(
                f"{display_name(target)} ({target}) is not available as a target language from "
                f"{display_name(source)} ({source})",  # LibreTranslate's text
                details=f"available: {', '.join(self.targets(source))}",
            )
        return self.loaded(first, second)

    def _direct(self, source: str, target: str) -> Direction | OnDemand | None:
        if source == target:
            return None
        own = self.pairs.get((source, target))
        if isinstance(own, OnDemand):
            return own
        able = (
            model.direction(source, target)
            for model in self.local
            if source in model.files.sources and target in model.files.targets
        )
        local = next(able, None)
        if not isinstance(own, ServedRemote):
            return local
        is_loaded = local is not None and local.name not in self.unloaded
        return own.direction(source, target, local if is_loaded else None)

    def loaded(self, *legs: Direction | OnDemand) -> tuple[Direction, ...]:
        """Returns the legs of a route; raises NotLoadedError if models must be loaded first."""
        names = tuple(each.name for each in legs)
        if not self.unloaded.isdisjoint(names):
            raise NotLoadedError(names)
        return tuple(each for each in legs if isinstance(each, Direction))
