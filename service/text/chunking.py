"""Cuts sentences that are longer than a model takes into pieces that are not; drops nothing."""

from dataclasses import dataclass

from model.tokenization.tokenizer import WORD_START, Encoding, Tokenizer
from service.text.segmentation import Segments

WINDOW_CHARS = 16
"""Characters looked at for each token that fits: enough for nearly every language, and few
enough that a sentence without end is not tokenised again and again."""

AHEAD = 8
"""Nor is more looked at than so many times the piece before: where a character is 18 tokens, a
hundred pieces would fit into a window of the usual size, and all of them be tokenised for one."""


@dataclass(slots=True)
class Fitted:
    """A text in sentences that fit.

    Attributes:
        segments: The sentences and all that stands between them; joined, the text.
        sources: Ids of each sentence, EOS not among them.
        num_cut: How many sentences had to be cut.
    """

    segments: Segments
    sources: list[list[int]]
    num_cut: int


def fit_sentences(segments: Segments, tokenizer: Tokenizer, limit: int) -> Fitted:
    """Has every sentence of more than `limit` tokens cut, and every other as it is.

    A sentence that has no tokens at all (control characters, say) becomes a separator.
    """
    separators: list[str] = [segments.separators[0]]
    sentences: list[str] = []
    sources: list[list[int]] = []
    num_cut = 0
    for sentence, separator in zip(segments.sentences, segments.separators[1:], strict=True):
        ids = tokenizer.encode(sentence)
        pieces = [(sentence, "", ids)]
        if len(ids) > limit:
            num_cut += 1
            pieces = cut_sentence(sentence, tokenizer, limit)
        for piece, gap, piece_ids in pieces:
            if piece_ids:
                sentences.append(piece)
                sources.append(piece_ids)
                separators.append(gap)
            else:
                separators[-1] += piece + gap
        separators[-1] += separator
    return Fitted(Segments(tuple(separators), tuple(sentences)), sources, num_cut)


def cut_sentence(
    sentence: str, tokenizer: Tokenizer, limit: int
) -> list[tuple[str, str, list[int]]]:
    """Pieces of at most `limit` tokens: text, the white space that followed it, and ids.

    A cut is made before the last word that begins in the second half of what fits, or, in a word
    without end, at the limit. Pieces and white space, joined, are the sentence.
    """
    pieces = []
    start = 0
    size = WINDOW_CHARS * limit
    while start < len(sentence):
        place = _place(sentence, start, tokenizer, limit, size)
        # A piece alone may take more tokens than it takes inside the sentence.
        while len(ids := tokenizer.encode(sentence[start : start + place].rstrip())) > limit:
            if place == 1:
                break
            place = max(1, place * limit // len(ids))
        size = min(WINDOW_CHARS * limit, AHEAD * place)
        body = sentence[start : start + place].rstrip()
        end = start + len(body)
        start = _past_spaces(sentence, end)
        pieces.append((body, sentence[end:start], ids))
    return pieces


def _past_spaces(text: str, place: int) -> int:
    """The next place where there is no white space."""
    while text[place : place + 1].isspace():
        place += 1
    return place


def _place(text: str, start: int, tokenizer: Tokenizer, limit: int, size: int) -> int:
    """How many characters of a text to take, looking at so many."""
    window = text[start : start + size]
    encoding = tokenizer.encode_with_offsets(window)
    if len(encoding.ids) > limit:
        return max(1, encoding.offsets[_last_word(encoding, limit)][0])
    if start + len(window) < len(text) and size < WINDOW_CHARS * limit:
        return _place(text, start, tokenizer, limit, WINDOW_CHARS * limit)
    if start + len(window) == len(text) or not encoding.ids:
        return len(window)
    # The end of the window may have cut its last token: leave that to the next piece, unless it
    # is most of the window, as characters that the vocabulary does not know are all one token.
    last = encoding.offsets[-1][0]
    return last if last > len(window) // 2 else len(window)


def _last_word(encoding: Encoding, limit: int) -> int:
    """The token to cut before: the last up to `limit` that begins a word, or that at `limit`."""
    for at in range(limit, limit // 2, -1):
        if encoding.pieces[at].startswith(WORD_START):
            return at
    return limit
