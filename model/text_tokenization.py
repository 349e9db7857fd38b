"""Text to the ids of an embedding model, by a Hugging Face `tokenizer.json`."""

from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, normalizers

from model.errors import CheckpointFormatError
from model.tokenization import Span, TokenizedText, trim


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A text as an embedding model gets it, special tokens among them.

    Attributes:
        tokenized: The tokens that are left after cutting; places are those in the text as it was
            given, less white space around them. Special tokens and those of a prompt have an empty
            place: before the text, or where what is left of it ends.
        num_tokens: How many there were before cutting.
    """

    tokenized: TokenizedText
    num_tokens: int

    @property
    def is_truncated(self) -> bool:
        """Whether tokens were cut off."""
        return self.num_tokens > len(self.tokenized.ids)


class TextTokenizer:
    """One vocabulary, with its normaliser and its special tokens.

    White space around a text, prompt included, is no part of it, as sentence-transformers has it.
    A text may be tokenised in several threads at once.

    Args:
        path: A `tokenizer.json`.
        max_tokens: Of a text, special tokens included; what is more is cut off at its end.
        is_lowercase: Whether texts are made lower case, whatever the file says.

    Raises:
        CheckpointFormatError: The file is damaged, or leaves no room for text.
    """

    def __init__(self, path: Path, max_tokens: int, is_lowercase: bool = False) -> None:
        try:
            self.tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises no narrower type
            raise CheckpointFormatError(f"{path} is not a tokenizer: {error}") from error
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        if is_lowercase:
            self._lower()
        self.num_special_tokens: int = self.tokenizer.num_special_tokens_to_add(False)
        if max_tokens <= self.num_special_tokens:
            raise CheckpointFormatError(
                f"{path} adds {self.num_special_tokens} special tokens to a text, and the limit "
                f"is {max_tokens}"
            )
        self.tokenizer.enable_truncation(max_tokens)
        self.max_tokens = max_tokens
        self.vocab_size = max(self.tokenizer.get_vocab().values(), default=-1) + 1

    def _lower(self) -> None:
        """Before the file's own normaliser; places remain those in the text as given."""
        own = self.tokenizer.normalizer
        steps = [normalizers.Lowercase(), *([own] if own is not None else [])]
        self.tokenizer.normalizer = normalizers.Sequence(steps)

    def tokenize(self, text: str, prompt: str = "") -> TextTokens:
        """The tokens of a prompt and a text.

        Args:
            text: Without lone surrogates.
            prompt: What to put before it.
        """
        whole = prompt + text
        stripped = whole.strip()
        encoding = self.tokenizer.encode(stripped)
        shift = len(whole) - len(whole.lstrip()) - len(prompt) if stripped else 0
        special = [mask == 1 for mask in encoding.special_tokens_mask]
        spans = places(encoding.offsets, special, shift)
        offsets = [trim(text, span, str.isspace) for span in spans]
        tokenized = TokenizedText(text, encoding.ids, encoding.tokens, offsets, special)
        cut = sum(len(part.ids) - self.num_special_tokens for part in encoding.overflowing)
        return TextTokens(tokenized, len(encoding.ids) + cut)

    def encode(self, prompt: str, text: str) -> list[int]:
        """The ids of a prompt and a text, whole and without special tokens.

        Args:
            prompt: What is put before it.
            text: Without lone surrogates.
        """
        encoding = self.tokenizer.encode((prompt + text).strip(), add_special_tokens=False)
        ids: list[int] = encoding.ids
        for part in encoding.overflowing:
            ids += part.ids
        return ids

    @property
    def special_ids(self) -> tuple[list[int], list[int]]:
        """What stands in front of a text, and what behind it."""
        whole = self.tokenizer.encode("a")
        bare = self.tokenizer.encode("a", add_special_tokens=False).ids
        first = next(
            place for place, mask in enumerate([*whole.special_tokens_mask, 0]) if not mask
        )
        return whole.ids[:first], whole.ids[first + len(bare) :]

    def count(self, text: str, prompt: str = "") -> int:
        """How many tokens a text has before cutting, special ones included."""
        return self.tokenize(text, prompt).num_tokens


def places(offsets: list[Span], special: list[bool], shift: int) -> list[Span]:
    """Shifted into the text, with an empty place for what is not in it."""
    shifted = []
    end = 0
    for (first, last), is_special in zip(offsets, special, strict=True):
        span = (end, end) if is_special else (max(0, first + shift), max(0, last + shift))
        shifted.append(span)
        end = max(end, span[1])
    return shifted
