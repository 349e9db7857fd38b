"""Holds sample texts, on which the loaders compare a rounded model with its float32 form.

A rounded model is in int8 or float16.
"""

SAMPLES = {
    "en": (
        "The library opens at nine, but on Sundays it stays closed.",
        "She had never seen so many birds on the lake before.",
        "Please send us the signed form by the end of the month.",
        "The engineers found out why the bridge moved in the wind.",
    ),
    "pt": (
        "A biblioteca abre às nove, mas aos domingos fica fechada.",
        "Ela nunca tinha visto tantos pássaros no lago.",
    ),
    "es": (
        "La biblioteca abre a las nueve, pero los domingos está cerrada.",
        "Nunca había visto tantos pájaros en el lago.",
    ),
    "fr": (
        "La bibliothèque ouvre à neuf heures, mais elle est fermée le dimanche.",
        "Elle n'avait jamais vu autant d'oiseaux sur le lac.",
    ),
    "de": (
        "Die Bibliothek öffnet um neun, aber sonntags bleibt sie geschlossen.",
        "Sie hatte noch nie so viele Vögel auf dem See gesehen.",
    ),
    "it": ("La biblioteca apre alle nove, ma la domenica resta chiusa.",),
    "ru": ("Библиотека открывается в девять, но по воскресеньям она закрыта.",),
    "zh": ("图书馆九点开门，但是星期天不开门。",),
}
"""Maps language codes to sample sentences.

A translation model gets the sentences of one of its source languages. If the map has none of these
languages, the model gets all sentences. Each embedding model gets all sentences, and then the texts
in `DEGENERATE`.
"""

DEGENERATE = ("word " * 100, "....", "1 2 3 4 5 6 7 8 9", "a" * 30, "!!!! ???? ....", "x")
"""Texts that are no sentences. In such texts most tokens attend to the same few tokens, and the
rounding errors of these few tokens do not cancel out."""


def all_samples() -> list[str]:
    """Returns the sentences of all languages."""
    return [text for each in SAMPLES.values() for text in each]
