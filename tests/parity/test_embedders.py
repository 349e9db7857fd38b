"""Whole folders of embedding models against transformers: tokens, prompts, vectors, attention.

The folders are those that save_pretrained and sentence-transformers write. Where a family's makers
write other options than transformers, its folder has theirs.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import processors
from torch import Tensor, nn
from torch.testing import assert_close

from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.encoder_family import ACTIVATIONS
from model.checkpoints.families.sentence_transformers import EmbeddingFiles, find_embedding_models
from model.checkpoints.families.text_encoders import FAMILIES, read_config
from model.checkpoints.formats.files import read_options
from model.config import Pooling
from model.encoding.capture_pass import TextCapturePass
from model.encoding.embedding import EmbeddingJob, embed
from model.errors import CheckpointNotFoundError, UnsupportedModelError
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    AttentionNorm,
    EdgeKnockout,
    HeadKnockout,
    Knockout,
    Reduction,
    TraceQuery,
)
from model.layers.attention import PLAIN
from model.layers.block import ACTIVATIONS as LAYER_ACTIVATIONS
from tests.attention_jobs import assert_steps_add_up, finished, text_maps, text_steps
from tests.embedding_reference import CPU, embed_alone_and_together, load_folder
from tests.hf_files import new_model, randomize, transformers
from tests.text_tokenizers import KINDS
from tests.tiny_cross_encoder import DEBERTA
from tests.tiny_text import write_dense, write_json, write_modules

SIZES: dict[str, Any] = {
    "vocab_size": 1000,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 300,
}
DISTIL_SIZES: dict[str, Any] = {
    "vocab_size": 1000,
    "dim": 32,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 64,
    "max_position_embeddings": 300,
}
MODERN: dict[str, Any] = {
    "local_attention": 16,
    **dict.fromkeys(("pad_token_id", "cls_token_id", "bos_token_id"), 0),
    **dict.fromkeys(("sep_token_id", "eos_token_id"), 1),
}
TEXTS = ["hello world", "a b c . hello", "the cat sat on the mat " * 12, "un ##believ able."]
PROMPT = "query: "
IDENTITY = "torch.nn.modules.linear.Identity"
TOLERANCE: dict[str, Any] = {"atol": 1e-5, "rtol": 0.0}


@dataclass(frozen=True)
class Case:
    """A family: the model of transformers, its tokenizer, and what its makers write otherwise."""

    model: Callable[[], Any]
    tokenizer: str = "WordPiece"
    pooling: Pooling = Pooling.MEAN
    options: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()  # options that the makers' config has under other names
    around: tuple[str, ...] = ()  # special tokens around a text, $A, if the tokenizer has none
    dense: tuple[int, ...] = ()  # sizes of Dense modules, without biases and tanh


def gte_with_longer_texts() -> Any:
    """Makes the model of gte-*-v1.5, whose frequencies transformers does not compute."""
    model = new_model("GteModel", **SIZES, type_vocab_size=0)
    exponents = torch.arange(0, 8, 2) / 8
    model.rotary_emb.inv_freq.copy_(1 / ((500.0 * 2) ** exponents * 2 ** (2 / 8)))
    return model


class JinaFeedForward(nn.Module):
    """The rest of a layer of jina-embeddings-v2 (Günther et al. 2023, section 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.gated_layers = nn.Linear(48, 128, bias=False)
        self.wo = nn.Linear(64, 48)
        self.layernorm = nn.LayerNorm(48, eps=1e-12)

    def forward(self, x: Tensor, stream: Tensor) -> Tensor:
        activated, other = self.gated_layers(x).chunk(2, dim=-1)
        y: Tensor = self.layernorm(self.wo(F.gelu(activated) * other) + stream)
        return y


class NoPositions(nn.Module):
    def forward(self, positions: Tensor) -> float:
        return 0.0


class Jina(nn.Module):
    """jina-embeddings-v2, which is not in transformers: BERT's attention with ALiBi, and GEGLU.

    The slopes of six heads are those of four heads, and two of the slopes between them.
    """

    def __init__(self) -> None:
        super().__init__()
        sizes = SIZES | {"num_attention_heads": 6, "hidden_size": 48}
        self.config = transformers().BertConfig(**sizes)
        self.bert: Any = transformers().BertModel(self.config, add_pooling_layer=False)
        self.set_attn_implementation = self.bert.set_attn_implementation
        embeddings: Any = self.bert.embeddings
        embeddings.position_embeddings = NoPositions()
        self.slopes = torch.tensor([2.0**-power for power in (2, 4, 6, 8, 1, 3)])
        for layer in self.bert.encoder.layer:
            layer.intermediate, layer.output = nn.Identity(), JinaFeedForward()

    def forward(self, ids: Tensor, **options: Any) -> Any:
        places = torch.arange(ids.shape[1])
        bias = -self.slopes[:, None, None] * (places[:, None] - places).abs()
        return self.bert(ids, attention_mask=bias[None], **options)

    def save_pretrained(self, folder: Path) -> None:
        self.config.save_pretrained(folder)
        kept = {
            name.replace(".output.gated", ".mlp.gated")
            .replace(".output.wo", ".mlp.wo")
            .replace(".output.layernorm", ".mlp.layernorm"): tensor
            for name, tensor in self.bert.state_dict().items()
            if "position" not in name
        }
        save_file(kept, folder / "model.safetensors")


def without_padding(kind: str, **changes: Any) -> Case:
    """Returns a case whose texts have no id 1: RoBERTa's code counts no positions of padding.

    The longest text is longer than the distance at which MPNet's buckets end.
    """
    return Case(lambda: new_model(kind, **SIZES | changes), tokenizer="BPE", around=("<s>", "$A"))


CASES = {
    "bert": Case(lambda: new_model("BertModel", **SIZES)),
    "roberta": without_padding(
        "RobertaModel", type_vocab_size=1, layer_norm_eps=1e-5, hidden_act="relu"
    ),
    "roberta, other padding": without_padding("RobertaModel", pad_token_id=3),
    "xlm-roberta": without_padding("XLMRobertaModel", type_vocab_size=1),
    "camembert": without_padding("CamembertModel", type_vocab_size=1),
    "mpnet": without_padding("MPNetModel"),
    "mpnet, other padding": without_padding("MPNetModel", pad_token_id=0),
    "modernbert": Case(lambda: new_model("ModernBertModel", **SIZES | MODERN)),
    "modernbert, other layers": Case(
        lambda: new_model(
            "ModernBertModel",
            **SIZES | MODERN,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            hidden_activation="relu",
            norm_eps=1e-3,
        )
    ),
    "gte": Case(lambda: new_model("GteModel", **SIZES), pooling=Pooling.CLS),
    "gte of Alibaba": Case(
        gte_with_longer_texts,
        pooling=Pooling.CLS,
        options={
            "model_type": "new",
            "architectures": ["NewModel"],
            "layer_norm_type": "layer_norm",
            "pack_qkv": True,
            "position_embedding_type": "rope",
            "rope_theta": 500,
            "rope_scaling": {"type": "ntk", "factor": 2.0},
        },
        without=("rope_parameters",),
    ),
    "nomic": Case(lambda: new_model("NomicBertModel", **SIZES)),
    "nomic of Nomic": Case(
        lambda: new_model("NomicBertModel", **SIZES, rope_parameters={"rope_theta": 70.0}),
        options={
            "n_embd": 32,
            "n_head": 4,
            "n_inner": 64,
            "n_layer": 3,
            "n_positions": 300,
            "activation_function": "swiglu",
            "layer_norm_epsilon": 1e-12,
            "rotary_emb_base": 70,
            "rotary_emb_fraction": 1.0,
            "rotary_scaling_factor": None,
            **dict.fromkeys(("mlp_fc1_bias", "mlp_fc2_bias", "qkv_proj_bias", "prenorm"), False),
        },
        without=(*SIZES.keys() - {"vocab_size"}, "rope_parameters", "hidden_act", "layer_norm_eps"),
    ),
    "distilbert": Case(lambda: new_model("DistilBertModel", **DISTIL_SIZES)),
    "deberta": Case(lambda: new_model("DebertaV2Model", **SIZES, **DEBERTA)),
    "jina v2": Case(
        Jina,
        options={
            "architectures": ["JinaBertForMaskedLM"],
            "position_embedding_type": "alibi",
            "feed_forward_type": "geglu",
            "emb_pooler": "mean",
        },
    ),
    "qwen3": Case(
        lambda: new_model("Qwen3Model", **SIZES, num_key_value_heads=2, head_dim=16),
        tokenizer="byte-level BPE",
        pooling=Pooling.LAST_TOKEN,
        around=("$A", "</s>"),
    ),
    "qwen3 of Qwen": Case(
        lambda: new_model(
            "Qwen3Model",
            **SIZES,
            num_key_value_heads=1,
            head_dim=8,
            attention_bias=True,
            rope_parameters={"rope_theta": 1e6},
        ),
        tokenizer="byte-level BPE",
        pooling=Pooling.LAST_TOKEN,
        options={"architectures": ["Qwen3ForCausalLM"], "rope_theta": 1e6, "rope_scaling": None},
        without=("rope_parameters", "layer_types"),
        around=("$A", "</s>"),
    ),
    "gemma3": Case(
        lambda: new_model(
            "Gemma3TextModel",
            **SIZES,
            num_key_value_heads=1,
            head_dim=16,
            sliding_window=8,
            query_pre_attn_scalar=20,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            use_bidirectional_attention=True,
        ),
        tokenizer="BPE",
        around=("<s>", "$A", "</s>"),
        dense=(48, 32),
    ),
    "gemma3, causal": Case(
        lambda: new_model(
            "Gemma3TextModel", **SIZES, num_key_value_heads=2, head_dim=16, sliding_window=5
        ),
        tokenizer="BPE",
        pooling=Pooling.LAST_TOKEN,
        options={"rope_theta": 1e6, "rope_local_base_freq": 10_000.0},
        without=("rope_parameters", "layer_types"),
        around=("<s>", "$A"),
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def theirs(case: Case, tmp_path: Path) -> Any:
    """The model of transformers, after it and the files around it were written to `tmp_path`."""
    torch.manual_seed(3)
    model = case.model().eval()
    randomize(model, 5)
    model.save_pretrained(tmp_path)
    written = read_options(tmp_path / "config.json")
    kept = {name: value for name, value in written.items() if name not in case.without}
    write_json(tmp_path / "config.json", kept | case.options)
    tokenizer = KINDS[case.tokenizer]()
    if case.around:
        special = [(each, tokenizer.token_to_id(each)) for each in case.around if each != "$A"]
        template = processors.TemplateProcessing(" ".join(case.around), special_tokens=special)
        byte_level = processors.ByteLevel(trim_offsets=False)  # as in the file of Qwen3
        is_byte_level = case.tokenizer == "byte-level BPE"
        tokenizer.post_processor = processors.Sequence([*[byte_level] * is_byte_level, template])
    saved: Any = transformers().PreTrainedTokenizerFast
    saved(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    kinds = ["Transformer", "Pooling", *["Dense"] * len(case.dense), "Normalize"]
    places = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds) if number)]
    classes = [f"sentence_transformers.models.{kind}" for kind in kinds]
    write_modules(tmp_path, *zip(places, classes, strict=True))
    write_json(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": case.pooling.value})
    write_json(tmp_path / "config_sentence_transformers.json", {"prompts": {"query": PROMPT}})
    for place, weight in zip(places[2:], dense_weights(case), strict=False):
        write_dense(tmp_path / place, weight, activation_function=IDENTITY)
    return model


def dense_weights(case: Case) -> list[Tensor]:
    generator = torch.Generator().manual_seed(6)
    sizes = zip((SIZES["hidden_size"], *case.dense), case.dense, strict=False)
    return [torch.randn(outputs, inputs, generator=generator) * 0.2 for inputs, outputs in sizes]


def pooled(states: Tensor, case: Case) -> Tensor:
    ways = {Pooling.CLS: states[0], Pooling.MEAN: states.mean(dim=0)}
    found = ways.get(case.pooling, states[-1])
    for weight in dense_weights(case):
        found = weight @ found
    return F.normalize(found, dim=0)


def test_vectors_and_maps_are_those_of_transformers(
    case: Case, theirs: Any, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    served, ours = load_folder(tmp_path)
    reference = transformers().PreTrainedTokenizerFast.from_pretrained(tmp_path)
    texts = [ours.config.prompts["query"] + text for text in TEXTS]
    ids = [served.tokenizer.tokenize(text).tokenized.ids for text in texts]
    assert ids == [reference(text.strip())["input_ids"] for text in texts]
    found = embed(ours, [EmbeddingJob(each) for each in ids])
    theirs.set_attn_implementation("eager")
    maps = text_maps(ours.encoder, ids, slice_tokens=16)
    largest = 0.0
    for each, vector, weights in zip(ids, found, maps, strict=True):
        with torch.inference_mode():
            outputs = theirs(torch.tensor([each]), output_attentions=True)
        expected = pooled(outputs.last_hidden_state[0], case)
        assert_close(torch.from_numpy(vector), expected, **TOLERANCE)
        assert_close(torch.from_numpy(weights), torch.cat(outputs.attentions), **TOLERANCE)
        largest = max(largest, float((torch.from_numpy(vector) - expected).abs().max()))
    record_property("largest difference", largest)


def test_a_vector_does_not_depend_on_the_batch(theirs: Any, tmp_path: Path) -> None:
    _, ours = load_folder(tmp_path)
    rng = np.random.default_rng(1)
    lengths = [1, 2, 2, 3, 9, 9, 9, 40, 90]
    jobs = [EmbeddingJob(rng.integers(999, size=n).tolist()) for n in lengths]
    alone = embed_alone_and_together(ours, jobs, slice_tokens=100)
    ours.kernels = PLAIN  # as on a GPU
    assert_close(np.stack(embed(ours, jobs)), np.stack(alone), **TOLERANCE)


@pytest.mark.parametrize("case", ["nomic", "qwen3", "gemma3, causal"], indirect=True)
def test_prompt_may_be_left_out_of_pooling(case: Case, theirs: Any, tmp_path: Path) -> None:
    """Source: sentence-transformers 6.2, modules/pooling.py: CLS is the first token that is left.

    The special tokens before a prompt are left out too, and tokens keep their weights.
    """
    options = {"pooling_mode": [*Pooling], "include_prompt": False}
    write_json(tmp_path / "1_Pooling" / "config.json", options)
    served, ours = load_folder(tmp_path)
    reader = served.reader
    tokenizer = transformers().PreTrainedTokenizerFast.from_pretrained(tmp_path)
    has_end = not case.around or case.around[-1] != "$A"
    jobs, expected = [], []
    for prompt, text in itertools.product(("", PROMPT), TEXTS):
        read = reader.read(text, prompt, "right")
        jobs.append(EmbeddingJob(read.ids, unpooled=read.unpooled))
        ids = tokenizer((prompt + text).strip())["input_ids"]
        count = len(tokenizer(prompt.strip())["input_ids"]) - has_end if prompt else 0
        with torch.inference_mode():
            (states,) = theirs(torch.tensor([ids])).last_hidden_state
        kept, weights = states[count:], torch.arange(count + 1.0, len(ids) + 1)
        total = kept.sum(dim=0)
        parts = {
            Pooling.CLS: kept[0],
            Pooling.MAX: kept.amax(dim=0),
            Pooling.MEAN: total / len(kept),
            Pooling.MEAN_SQRT_LEN: total / len(kept) ** 0.5,
            Pooling.WEIGHTED_MEAN: weights @ kept / weights.sum(),
            Pooling.LAST_TOKEN: kept[-1],
        }
        expected.append(F.normalize(torch.cat([parts[way] for way in Pooling]), dim=0))
    jobs.append(EmbeddingJob(jobs[-1].ids))  # beside one of equal length whose prompt is left out
    found = embed_alone_and_together(ours, jobs)
    assert_close(torch.from_numpy(np.stack(found[:-1])), torch.stack(expected), **TOLERANCE)
    ours.kernels = PLAIN  # as on a GPU
    assert_close(np.stack(embed(ours, jobs)), np.stack(found), **TOLERANCE)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_other_precisions_are_near_float32(theirs: Any, tmp_path: Path, dtype: str) -> None:
    jobs = [EmbeddingJob(np.random.default_rng(n).integers(999, size=n).tolist()) for n in (5, 40)]
    exact, rounded = (
        np.stack(embed(load_folder(tmp_path, each)[1], jobs)) for each in ("float32", dtype)
    )
    assert (exact * rounded).sum(axis=1).min() > 0.99


def test_steps_contributions_and_knockouts_of_every_family(theirs: Any, tmp_path: Path) -> None:
    """Heads are those of queries; what a mask excludes has no weight and no contribution."""
    encoder = load_folder(tmp_path)[1].encoder
    ids = np.random.default_rng(2).integers(999, size=12).tolist()
    heads, spec = encoder.config.num_heads, encoder.config.attention
    for layer in range(3):
        steps = text_steps(encoder, ids, layer, heads - 1, 7)
        assert_steps_add_up(steps)
        assert steps.concatenated.shape == (heads * spec.head_dim,)
        assert not steps.weights[8:].any() or not spec.is_causal
    for norm in (AttentionNorm.ALTI, AttentionNorm.VALUE_ZEROING):
        (shares,) = text_maps(encoder, [ids], Reduction.MEAN_HEADS, norm)
        assert shares.min() >= 0.0
        np.testing.assert_allclose(shares.sum(-1), 1.0, atol=1e-5)
        assert not np.triu(shares, k=1).any() or not spec.is_causal
    query = TraceQuery(AttentionKind.ENCODER, 2, 0, 7, has_states=True)
    every = tuple(range(heads))
    off = Knockout((HeadKnockout(AttentionKind.ENCODER, (0,), every),))
    edges = [EdgeKnockout(AttentionKind.ENCODER, 7, key, (0,), every) for key in range(12)]
    jobs = [
        AttentionJob(ids, [], (query,), each)
        for each in (None, Knockout(), off, Knockout(edges=tuple(edges)))
    ]
    plain, same, without, alone = [
        one.states.output for (one,) in finished(TextCapturePass(encoder, jobs))
    ]
    np.testing.assert_array_equal(same, plain)
    assert np.abs(without - plain).max() > 1e-3
    assert np.abs(alone - plain).max() > 1e-3


def test_long_texts_have_whole_blocks_outside_a_window(tmp_path: Path) -> None:
    """Of 1,500 tokens, fused attention computes blocks of keys that are all excluded."""
    torch.manual_seed(6)
    sizes = SIZES | MODERN | {"max_position_embeddings": 1600, "local_attention": 128}
    theirs: Any = new_model("ModernBertModel", **sizes)
    theirs.eval().save_pretrained(tmp_path)
    ours = load_embedding_model(EmbeddingFiles("long", tmp_path, tmp_path), CPU, "float32")
    ids = np.random.default_rng(7).integers(999, size=1500).tolist()
    (found,) = embed(ours, [EmbeddingJob(ids, is_per_token=True)])
    with torch.inference_mode():
        (expected,) = theirs(torch.tensor([ids])).last_hidden_state
    assert_close(torch.from_numpy(found), expected, **TOLERANCE)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_those_of_transformers(name: str) -> None:
    x = torch.linspace(-9, 9, 100)
    theirs = transformers().activations.ACT2FN[name]
    assert_close(LAYER_ACTIVATIONS[ACTIVATIONS[name]](x), theirs(x))


BUCKETS = {"model_type": "deberta-v2", **DEBERTA}
JINA = {"model_type": "bert", "position_embedding_type": "alibi", "feed_forward_type": "geglu"}
MODERN_BERT = {"model_type": "modernbert"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    (MODERN_BERT | {"norm_bias": True}, "norm_bias"),
    (MODERN_BERT | {"hidden_activation": "mish"}, "hidden_activation is 'mish'"),
    (MODERN_BERT | {"layer_types": ["full_attention"]}, "for each of 22 layers"),
    (MODERN_BERT | {"layer_types": [[], {}, None, "full_attention"]}, "for each of 22 layers"),
    (MODERN_BERT | {"rope_scaling": {"rope_type": "yarn"}}, "must have no rope_scaling"),
    (MODERN_BERT | {"norm_eps": "small"}, "norm_eps is 'small'"),
    (MODERN_BERT | {"global_rope_theta": -1}, "global_rope_theta is -1"),
    (
        MODERN_BERT | {"num_attention_heads": 768},
        "rotary positions need heads of an even size, not 1",
    ),
    ({"model_type": "new", "position_embedding_type": "absolute"}, "supported: 'rope'"),
    ({"model_type": "new", "layer_norm_type": "rms_norm"}, "supported: 'layer_norm'"),
    ({"model_type": "new", "rope_scaling": {"type": "yarn"}}, "must have no rope_scaling"),
    ({"model_type": "gte", "rope_scaling": {"type": "ntk", "factor": 0}}, "factor is 0"),
    ({"model_type": "gte", "type_vocab_size": -1}, "type_vocab_size is -1"),
    ({"model_type": "nomic_bert", "moe_every_n_layers": 2}, "moe_every_n_layers is 2"),
    ({"model_type": "distilbert", "n_heads": 5}, "768 is not a multiple of 5 heads"),
    ({"model_type": "deberta-v2"}, "norm_rel_ebd is 'none', supported: 'layer_norm'"),
    (BUCKETS | {"conv_kernel_size": 3}, "conv_kernel_size is 3"),
    (BUCKETS | {"position_buckets": 7}, "position_buckets is 7, it must be even"),
    (BUCKETS | {"max_relative_positions": 5}, "is 8, .* at most 6 with max_relative_positions 5"),
    (BUCKETS | {"position_buckets": -1}, "position_buckets is -1"),
    (JINA | {"feed_forward_type": "original"}, "feed_forward_type is 'original'"),
    (JINA | {"hidden_size": 0}, "hidden_size is 0"),
    ({"model_type": "qwen3", "use_sliding_window": True}, "use_sliding_window is True"),
    ({"model_type": "qwen3", "num_key_value_heads": 5}, "32 heads do not share 5 keys evenly"),
    ({"model_type": "gemma3_text", "attn_logit_softcapping": 50}, "attn_logit_softcapping is 50"),
    ({"model_type": "gemma3_text", "sliding_window": 0}, "sliding_window is 0"),
    ({"model_type": "nomic_bert", "n_embd": 32, "activation_function": "gelu"}, "without a gate"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_other_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        read_config(options, "config.json")


def test_positions_beyond_those_of_training_are_not_used() -> None:
    options = {"model_type": "nomic_bert", "n_embd": 32, "n_head": 4, "n_positions": 8192}
    options["activation_function"] = "swiglu"
    assert read_config(options, "").max_tokens == 8192
    longer = {**options, "rotary_scaling_factor": 2, "max_trained_positions": 2048}
    assert read_config(longer, "").max_tokens == 2048


def test_each_family_is_in_the_table_of_the_docs() -> None:
    page = Path("docs/models.md").read_text(encoding="utf-8")
    assert [name for name in FAMILIES if f"`{name}`" not in page] == []


def test_language_model_without_modules_is_no_embedding_model(tmp_path: Path) -> None:
    new_model("Qwen3Model", **SIZES).save_pretrained(tmp_path)
    KINDS["byte-level BPE"]().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CheckpointNotFoundError, match=r"has no modules\.json"):
        find_embedding_models(str(tmp_path))
