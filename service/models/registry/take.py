"""Finds the models of the settings on this disk before a server starts.

If REGARD_PULL is true, missing models are pulled first.
"""

from service.models.registry.cache import ModelCache
from service.models.registry.commands import pull_models
from service.models.registry.describe import placements_of
from service.models.registry.locate import locate, missing_files
from service.models.registry.manifest import read_entries
from service.settings import Settings


def take_models(settings: Settings) -> Settings:
    """Returns settings in which each local model is a complete folder or package on this disk.

    A server calls this function once, before any other process starts. No request is sent to a
    registry afterwards.
    """
    cache = ModelCache.at(settings.model_cache)
    if settings.pull:
        entries = read_entries(settings.models)
        pull_models([e for e in entries if missing_files(e, cache)], cache, settings)
    located = locate(settings.models, cache, settings.offline)
    return settings.with_models([model.place for model in located], placements_of(located))
