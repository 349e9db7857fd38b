"""Makes the vocabulary of models with random weights, so that every engine gets the same texts."""

import random

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word(number: int) -> str:
    """Returns the word of a number from 0 on: `a`, `b`, ... `z`, `ba`, `bb` and so on."""
    digits = ""
    while True:
        number, digit = divmod(number, len(LETTERS))
        digits = LETTERS[digit] + digits
        if not number:
            return digits


def vocabulary(size: int) -> list[str]:
    return ["</s>", "<unk>", *map(word, range(size - 2))]


def sentences(count: int, tokens: int, vocab_size: int) -> list[str]:
    """Returns random sentences of `tokens - 1` words, each a token.

    The engine adds EOS as the last token.
    """
    generator = random.Random(1)
    words = vocabulary(vocab_size - 1)[2:]
    return [" ".join(generator.choices(words, k=tokens - 1)) for _ in range(count)]
