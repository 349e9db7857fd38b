"""ColBERT models against transformers, with the folders of PyLate, sentence-transformers, Stanford.

Source of the expected vectors: sentence-transformers, multi_vector_encoder and base/modules.
"""

import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from model.encoding.embedding import EmbeddingJob, Vectors, embed
from model.errors import CheckpointError
from model.layers.attention import PLAIN
from service.models.served import ServedEmbedder
from service.tasks.reranking import max_sim
from tests.embedding_reference import embed_alone_and_together, load_folder
from tests.hf_files import randomize, transformers
from tests.tiny_cross_encoder import DEBERTA
from tests.tiny_text import WORDS, change_json, tokenizer, write_dense, write_json, write_modules

POINT = WORDS.index(".")
QUERY, LENGTH = "hello world", 12
TEXTS = ["hello world . a b", "un ##believ able . . c", "hello " * 40]
TOLERANCE: dict[str, Any] = {"atol": 1e-5, "rtol": 0.0}
SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS) + 3,
    "max_position_embeddings": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
QUERY_ID, DOCUMENT_ID, MASK_ID = (len(WORDS) + number for number in range(3))
PYLATE: dict[str, Any] = {
    "model_type": "ColBERT",
    "query_prefix": "[Q] ",
    "document_prefix": "[D] ",
    "query_length": LENGTH,
    "document_length": 20,
    "attend_to_expansion_tokens": False,
}
LAYOUTS = ["pylate", "sentence-transformers", "stanford"]


def colbert_tokenizer(markers: tuple[str, str] = ("[Q] ", "[D] ")) -> Tokenizer:
    made = tokenizer()
    made.add_tokens([*markers, "[MASK]"])
    return made


def write(folder: Path, layout: str = "pylate") -> tuple[Any, Tensor]:
    torch.manual_seed(4)
    config = transformers().BertConfig(**SIZES)
    model: Any = transformers().BertModel(config, add_pooling_layer=False)
    randomize(model, seed=7)
    weight = torch.randn(8, 32, generator=torch.Generator().manual_seed(6)) * 0.3
    model.save_pretrained(folder)
    markers = ("[unused0]", "[unused1]") if layout == "stanford" else ("[Q] ", "[D] ")
    colbert_tokenizer(markers).save(str(folder / "tokenizer.json"))
    if layout == "stanford":
        change_json(folder / "config.json", architectures=["HF_ColBERT"])
        path = folder / "model.safetensors"
        state = {f"bert.{name}": tensor for name, tensor in load_file(path).items()}
        save_file({**state, "linear.weight": weight}, path)
        own: dict[str, Any] = {
            "query_maxlen": LENGTH,
            "doc_maxlen": 20,
            "dim": 8,
            "mask_punctuation": True,
        }
        write_json(folder / "artifact.metadata", {**own, "attend_to_mask_tokens": False})
        return model, weight
    kinds = [
        ("", "sentence_transformers.models.Transformer"),
        ("1_Dense", "pylate.models.Dense.Dense"),
    ]
    dense: dict[str, Any] = {"activation_function": "torch.nn.modules.linear.Identity"}
    own = dict(PYLATE)
    if layout == "sentence-transformers":
        package = "sentence_transformers.base.modules"
        mask = "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask"
        kinds = [
            ("", f"{package}.transformer.Transformer"),
            ("1_Dense", f"{package}.dense.Dense"),
            ("2_Normalize", f"{package}.normalize.Normalize"),
            ("3_MultiVectorMask", f"{mask}.MultiVectorMask"),
        ]
        tokens = dict.fromkeys(("module_input_name", "module_output_name"), "token_embeddings")
        dense |= tokens
        write_json(folder / "2_Normalize" / "config.json", tokens)
        words = {"skiplist_words": list(string.punctuation)}
        write_json(folder / "3_MultiVectorMask" / "config.json", words)
        prompts = {"query": "[Q] ", "document": "[D] "}
        own = {"model_type": "MultiVectorEncoder", "prompts": prompts}
        expansion = {"strategy": "fixed", "attend": False, "token": None, "length": LENGTH}
        options = {"query_expansion": expansion, "document_length": 20, "query_length": None}
        write_json(folder / "sentence_bert_config.json", options)
    write_modules(folder, *kinds)
    write_json(folder / "config_sentence_transformers.json", own)
    write_dense(folder / "1_Dense", weight, **dense)
    return model, weight


def read(folder: Path) -> tuple[ServedEmbedder, Any]:
    return load_folder(folder, "auto")


def expected_ids(text: str, marker: int, limit: int) -> list[int]:
    content = tokenizer().encode(text, add_special_tokens=False).ids
    return [1, marker, *content[: limit - 3], 2]


def expected_vectors(model: Any, weight: Tensor, ids: list[int], visible: int) -> Tensor:
    mask = (torch.arange(len(ids)) < visible).long()[None]
    with torch.no_grad():
        states = model(torch.tensor([ids]), attention_mask=mask).last_hidden_state[0]
    return F.normalize(states @ weight.T, dim=1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_query_and_documents_have_the_vectors_of_their_tokens(tmp_path: Path, layout: str) -> None:
    theirs, weight = write(tmp_path, layout)
    served, ours = read(tmp_path)
    query, document = (served.reader.forms[name] for name in ("query", "document"))
    read_query = query.read(QUERY, "", "right")
    bare = expected_ids(QUERY, QUERY_ID, LENGTH)
    assert read_query.ids == [*bare, *[MASK_ID] * (LENGTH - len(bare))]
    assert read_query.kept is None
    texts = [document.read(text, "", "right") for text in TEXTS]
    assert [text.ids for text in texts] == [expected_ids(text, DOCUMENT_ID, 20) for text in TEXTS]
    ids = [read_query.ids, *(text.ids for text in texts)]
    visible = [len(bare), *(len(text.ids) for text in texts)]
    found = embed(ours, [EmbeddingJob(each, is_per_token=True) for each in ids])
    for each, count, vectors in zip(ids, visible, found, strict=True):
        expected = expected_vectors(theirs, weight, each, count)
        np.testing.assert_allclose(vectors, expected.numpy(), **TOLERANCE)
    periods = [[place for place, each in enumerate(text.ids) if each != POINT] for text in texts]
    assert [text.kept for text in texts] == periods


def test_vectors_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    write(tmp_path)
    served, ours = read(tmp_path)
    forms = served.reader.forms
    ids = [forms["query"].read(text, "", "right").ids for text in ("a", "b", QUERY, "a b c")]
    ids += [forms["document"].read(text, "", "right").ids for text in TEXTS]
    jobs = [EmbeddingJob(each, is_per_token=True) for each in ids]
    together = embed_alone_and_together(ours, jobs, slice_tokens=24)
    ours.kernels = PLAIN  # as on a GPU
    for vectors, expected in zip(embed(ours, jobs, slice_tokens=99), together, strict=True):
        np.testing.assert_allclose(vectors, expected, **TOLERANCE)


def test_max_sim_is_the_sum_of_the_largest_products() -> None:
    rng = np.random.default_rng(1)
    query, document = (rng.normal(size=(count, 8)).astype(np.float32) for count in (3, 5))
    largest: list[Vectors] = [max(row @ column for column in document) for row in query]
    assert max_sim(query, document) == pytest.approx(float(sum(largest)), abs=1e-5)
    assert max_sim(query, document[:0]) == 0.0


DEBERTA_CONFIG = {
    **SIZES,
    **DEBERTA,
    "model_type": "deberta-v2",
    "type_vocab_size": 0,
    "architectures": ["DebertaV2Model"],
}
EXPANSION = {"query_expansion": {"strategy": "min", "length": 8}}
PROMPTS = "config_sentence_transformers.json"


@pytest.mark.parametrize(
    ("layout", "file", "changes", "message"),
    [
        ("pylate", PROMPTS, {"query_prefix": "query: "}, "'query: ' and '.D. ', needed: two tok"),
        ("pylate", PROMPTS, {"query_length": 0.5}, "query_length is 0.5"),
        (
            "pylate",
            "config.json",
            DEBERTA_CONFIG,
            "DeBERTa cannot leave the tokens that fill queries",
        ),
        (
            "sentence-transformers",
            "sentence_bert_config.json",
            EXPANSION,
            "strategy of query_expansion is 'min', supported: 'fixed'",
        ),
    ],
)
def test_other_settings_are_refused(
    tmp_path: Path, layout: str, file: str, changes: dict[str, Any], message: str
) -> None:
    write(tmp_path, layout)
    change_json(tmp_path / file, **changes)
    with pytest.raises(CheckpointError, match=message):
        read(tmp_path)


def test_tokenizer_without_a_mask_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    made = tokenizer()
    made.add_tokens(["[Q] ", "[D] "])
    made.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CheckpointError, match=r"no token that fills queries: \[MASK\], <mask>"):
        read(tmp_path)
