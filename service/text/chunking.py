"""Chunking: cuts sentences over the token limit of a model into shorter pieces, without loss."""

from dataclasses import dataclass

from model.tokenization.tokenizer import WORD_START, Tokenizer
from service.text.letters import has_letters
from service.text.segmentation import Segments

# The end of a piece of at most `limit` tokens is searched in a window of WINDOW_CHARS * limit
# characters. In nearly every language, such a window contains a whole piece.
WINDOW_CHARS = 16

# Largest length of the window, as a multiple of the length of the previous piece. If one character
# becomes 18 tokens, a longer window would contain hundreds of pieces, which are all tokenised.
AHEAD = 8


@dataclass(slots=True)
class ChunkedText:
    segments: Segments
    sources: list[list[int]]  # token ids of each sentence, without EOS
    num_cut: int  # number of sentences that were cut


def chunk_sentences(segments: Segments, tokenizer: Tokenizer, limit: int) -> ChunkedText:
    """Cuts every sentence of more than `limit` tokens and keeps all other sentences.

    A sentence without tokens, such as a sentence of control characters, becomes part of a
    separator. So does a piece without letters: a model would change it, and take long for it.
    """
    separators: list[str] = [segments.separators[0]]
    sentences: list[str] = []
    sources: list[list[int]] = []
    num_cut = 0
    for sentence, separator in zip(segments.sentences, segments.separators[1:], strict=True):
        ids = tokenizer.encode(sentence)
        if 0 < len(ids) <= limit:  # as most sentences
            sentences.append(sentence)
            sources.append(ids)
            separators.append(separator)
            continue
        pieces = [(sentence, "", ids)]
        if ids:
            num_cut += 1
            pieces = cut_sentence(sentence, tokenizer, limit)
        for piece, gap, piece_ids in pieces:
            if piece_ids and (len(pieces) == 1 or has_letters(piece)):
                sentences.append(piece)
                sources.append(piece_ids)
                separators.append(gap)
            else:
                separators[-1] += piece + gap
        separators[-1] += separator
    return ChunkedText(Segments(tuple(separators), tuple(sentences)), sources, num_cut)


def cut_sentence(
    sentence: str, tokenizer: Tokenizer, limit: int
) -> list[tuple[str, str, list[int]]]:
    """Cuts a sentence into pieces of at most `limit` tokens.

    A piece ends before a word, at the last such place after more than limit/2 tokens. If there is
    none, it ends after `limit` tokens. Tokenised alone, a piece may have more tokens than inside
    the sentence. If these exceed `limit`, the piece is shortened, down to a single character.

    Returns the text of each piece, the white space after it, and its token ids.
    """
    pieces = []
    start = 0
    size = WINDOW_CHARS * limit
    while start < len(sentence):
        place = _place(sentence, start, tokenizer, limit, size)
        while len(ids := tokenizer.encode(sentence[start : start + place].rstrip())) > limit:
            if place == 1:
                break
            place = max(1, place * limit // len(ids))
        size = min(WINDOW_CHARS * limit, AHEAD * place)
        body = sentence[start : start + place].rstrip()
        end = start = start + len(body)
        while sentence[start : start + 1].isspace():
            start += 1
        pieces.append((body, sentence[end:start], ids))
    return pieces


def _place(text: str, start: int, tokenizer: Tokenizer, limit: int, size: int) -> int:
    """Returns the length in characters of the piece that starts at `start`.

    `size` is the length of the window in characters.
    """
    window = text[start : start + size]
    encoding = tokenizer.encode_with_offsets(window)
    if len(encoding.ids) > limit:
        ends = range(limit, limit // 2, -1)
        end = next((at for at in ends if encoding.pieces[at][:1] == WORD_START), limit)
        return max(1, encoding.offsets[end][0])
    if start + len(window) < len(text) and size < WINDOW_CHARS * limit:
        return _place(text, start, tokenizer, limit, WINDOW_CHARS * limit)
    if start + len(window) == len(text) or not encoding.ids:
        return len(window)
    # The end of the window may have cut the last token, so this token is left to the next piece.
    # But if it covers half of the window or more, it is kept. It is then probably a run of unknown
    # characters, which the tokenizer makes one token.
    last = encoding.offsets[-1][0]
    return last if last > len(window) // 2 else len(window)
