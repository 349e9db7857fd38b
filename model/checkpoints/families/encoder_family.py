"""Defines a family of text encoders, and reads the options that several families have.

Does not import torch.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from model.checkpoints.formats.files import read_options, unsupported
from model.config import Activation, AttentionSpec, BlockSpec, NormSpec, Rope, TextEncoderConfig
from model.errors import UnsupportedModelError

MAX_LAYERS = 1000
MAX_SIZE = 2**24
"""Largest value of most integers, as a damaged number must not fill the memory."""

ACTIVATIONS = {
    "gelu": Activation.GELU,
    "gelu_new": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "relu": Activation.RELU,
    "silu": Activation.SWISH,
    "swish": Activation.SWISH,
}

FULL, LOCAL = "full_attention", "sliding_attention"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a file, and the reasons to refuse it.

    A method that finds an unusable value adds a reason, and returns the default of the option.
    """

    values: Mapping[str, Any]
    name: str  # of the file, for messages
    reasons: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path) -> "Options":
        return cls(read_options(path), str(path))

    def get(self, option: str, default: Any = None) -> Any:
        return self.values.get(option, default)

    def changed(self, **values: Any) -> "Options":
        return replace(self, values={**self.values, **values})

    def renamed(self, names: Mapping[str, str]) -> "Options":
        known = {names.get(option, option): value for option, value in self.values.items()}
        return replace(self, values=known)

    def check(self, supported: Mapping[str, Collection[Any]]) -> None:
        self.reasons.extend(unsupported(self.values, supported))

    def refuse(self) -> None:
        if self.reasons:
            raise UnsupportedModelError(self.name, self.reasons)

    def integer(self, option: str, default: int, most: int = MAX_SIZE) -> int:
        """Returns an integer from 1 to `most`."""
        value = self.values.get(option, default)
        if type(value) is not int or not 1 <= value <= most:
            self.reasons.append(f"{option} is {value!r}, it must be an integer from 1 to {most}")
            return default
        return value

    def number(self, option: str, default: float, limit: float = 1e12) -> float:
        value = self.values.get(option, default)
        if type(value) not in (int, float) or not 0 < value < limit:
            reason = f"{option} is {value!r}, it must be a number above 0 and below {limit:g}"
            self.reasons.append(reason)
            return default
        return float(value)

    def norm(self, option: str, eps: float, **fields: bool) -> NormSpec:
        return NormSpec(self.number(option, eps, limit=1), **fields)

    def activation(self, option: str, default: str) -> Activation:
        activation = ACTIVATIONS.get(str(self.values.get(option, default)))
        if activation is None:
            known = ", ".join(ACTIVATIONS)
            self.reasons.append(f"{option} is {self.values[option]!r}, supported: {known}")
        return activation or Activation.GELU

    def sizes(
        self,
        ffn_dim: int,
        layers: int,
        positions: int,
        vocab: int,
        width: int = 768,
        heads: int = 12,
    ) -> dict[str, int]:
        """Returns sizes by our names; the arguments are defaults."""
        return {
            "d_model": self.integer("hidden_size", width),
            "heads": self.integer("num_attention_heads", heads),
            "ffn_dim": self.integer("intermediate_size", ffn_dim),
            "layers": self.integer("num_hidden_layers", layers, MAX_LAYERS),
            "vocab_size": self.integer("vocab_size", vocab),
            "max_positions": self.integer("max_position_embeddings", positions),
        }

    def layer_types(self, default: list[str]) -> list[str]:
        """Returns FULL or LOCAL for each layer."""
        kinds = self.values.get("layer_types")
        kinds = default if kinds is None else kinds
        is_list = isinstance(kinds, list) and len(kinds) == len(default)
        if not is_list or any(kind not in (FULL, LOCAL) for kind in kinds):
            reason = f"layer_types must name {FULL} or {LOCAL} for each of {len(default)} layers"
            self.reasons.append(reason)
            return default
        return [*kinds]

    def rope(self, option: str, theta: float, kind: str | None = None) -> Rope:
        """Returns rotary positions without scaling; `option` names theta in older files.

        Newer files have `rope_parameters`, for all layers or for each kind of layer.
        """
        theta = self.number(option, theta)
        own: Any = self.values.get("rope_parameters") or {}
        if kind is not None and isinstance(own, dict):
            own = own.get(kind) or {}
        is_plain = isinstance(own, dict) and own.get("rope_type", "default") == "default"
        if not is_plain or self.values.get("rope_scaling"):
            place = kind or "the model"
            reason = f"{place} must have no rope_scaling, and no rope_type except 'default'"
            self.reasons.append(reason)
            return Rope(theta)
        return Rope(replace(self, values=own).number("rope_theta", theta))


Reader = Callable[[Options], TextEncoderConfig]


@dataclass(frozen=True, slots=True)
class Family:
    """The encoders of one `model_type`."""

    # Architectures whose hidden states serve as embeddings, as in folders of sentence-transformers.
    # Every other architecture has a head for another task, for which its states were trained.
    embedders: tuple[str, ...]
    prefix: str  # of tensor names in files that also contain a task head
    # A name table of `model.checkpoints.weights`. Some encoders have only a part of the parameters.
    names: Mapping[str, str]
    read: Reader
    # Matches the tensors that embeddings do not need, but not those of a classification head. Files
    # with such a head are therefore refused.
    ignored: re.Pattern[str]
    # Whether a folder without `modules.json` is refused, because most models of the `model_type`
    # write texts and were not trained to embed.
    needs_modules: bool = False


def text_encoder(
    options: Options,
    sizes: Mapping[str, int],
    attention: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    layer: Mapping[str, Any],
    **tables: Any,
) -> TextEncoderConfig:
    """Returns the config of an encoder, unless there are reasons to refuse its file.

    `attention` and `layer` have fields of AttentionSpec and BlockSpec. If the attention of layers
    differs, it has an item for each layer.
    """
    options.refuse()
    width, heads = sizes["d_model"], sizes["heads"]
    try:
        if "head_dim" in sizes:
            plain = AttentionSpec(heads, sizes["kv_heads"], sizes["head_dim"])
        else:
            plain = AttentionSpec.of_width(width, heads)
        each = [attention] * sizes["layers"] if isinstance(attention, Mapping) else attention
        mixers = [replace(plain, **fields) for fields in each]
        blocks = tuple(BlockSpec(width, sizes["ffn_dim"], mixer, **layer) for mixer in mixers)
        return TextEncoderConfig(blocks, sizes["vocab_size"], sizes["max_positions"], **tables)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(options.name, error.reasons) from error


def joined_projections(tensor: str) -> dict[str, str]:
    """Returns the names of queries, keys and values that are thirds of one tensor of a layer."""
    names = enumerate(("query", "key", "value"))
    return {f"mixer.{name}": f"{tensor}[{part}/3]" for part, name in names}
