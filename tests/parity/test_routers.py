"""Models with a Router, in folders as `save_pretrained` of sentence-transformers 6.2 writes them.

Source of the expected vectors: sentence-transformers, base/modules/router.py, and the modules
StaticEmbedding, SparseStaticEmbedding, Pooling, Dense and SpladePooling.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from model.encoding.embedding import EmbeddingJob, embed
from model.errors import CheckpointError
from service.tasks.embedding.embedder import prompted
from tests.embedding_reference import load_folder
from tests.hf_files import new_model, randomize
from tests.parity.test_splade import BERT, SIZES, dense
from tests.tiny_text import WORDS, change_json, tokenizer, write_dense, write_json, write_modules

TEXTS = ["hello world", "hello", "unbelievable hello query : a b c .", "a b c " * 8]
ROUTER = "router_config.json"
Routes = dict[str, list[str]]


def write(folder: Path, routes: Routes, modules: list[str], router: str = "") -> None:
    """Writes the lists of modules. The ids of the routes' modules are their folders."""
    places = {"Transformer": "", "Router": router}
    named_places = [places.get(kind, f"{number}_{kind}") for number, kind in enumerate(modules)]
    write_modules(folder, *zip(named_places, map(named, modules), strict=True))
    ids = [each for route in routes.values() for each in route]
    types = {each: named(each.rpartition("_")[2] or "Transformer") for each in ids}
    own = {"default_route": "document", "allow_empty_key": True, "route_mappings": {}}
    write_json(folder / router / ROUTER, {"types": types, "structure": routes, "parameters": own})


def named(kind: str) -> str:
    return f"sentence_transformers.base.modules.{kind.lower()}.{kind}"


def save_table(folder: Path, table: Tensor, name: str) -> Tensor:
    folder.mkdir(parents=True)
    save_file({name: table}, folder / "model.safetensors")
    tokenizer().save(str(folder / "tokenizer.json"))
    return table


def save_bert(folder: Path, kind: str) -> Any:
    model = new_model(kind, **SIZES, **BERT)
    randomize(model, seed=7)
    model.save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    return model.eval()


def write_sparse(folder: Path, document: str = "document_0_Transformer") -> tuple[Tensor, Any]:
    """Writes a model whose queries have the weights of a table; "" puts its encoder on top."""
    routes = {
        "query": ["query_0_SparseStaticEmbedding"],
        "document": [document, "document_1_SpladePooling"],
    }
    write(folder, routes, ["Router"])
    weights = torch.rand(len(WORDS), generator=torch.Generator().manual_seed(4))
    weights[WORDS.index("hello")] = 0
    save_table(folder / routes["query"][0], weights, "weight")
    theirs = save_bert(folder / document, "BertForMaskedLM")
    task = {"transformer_task": "fill-mask", "module_output_name": "token_embeddings"}
    write_json(folder / document / "sentence_bert_config.json", task)
    pooling = {"pooling_strategy": "max", "activation_function": "log1p_relu"}
    write_json(folder / "document_1_SpladePooling" / "config.json", pooling)
    return weights, theirs


def write_means(folder: Path) -> tuple[Tensor, Any]:
    routes = {
        "query": ["query_0_StaticEmbedding"],
        "document": ["document_0_Transformer", "document_1_Pooling"],
    }
    write(folder, routes, ["Router", "Normalize"])
    table = torch.randn(len(WORDS), 32, generator=torch.Generator().manual_seed(4))
    save_table(folder / "query_0_StaticEmbedding", table, "embedding.weight")
    theirs = save_bert(folder / "document_0_Transformer", "BertModel")
    write_json(folder / "document_1_Pooling" / "config.json", {"pooling_mode": "mean"})
    prompts = {"query": "query : ", "document": ""}
    write_json(folder / "config_sentence_transformers.json", {"prompts": prompts})
    return table, theirs


def write_asym(folder: Path, document: str = "document") -> tuple[list[Tensor], Any]:
    routes = {"query": ["query_0_Dense"], document: [f"{document}_0_Dense"]}
    write(folder, routes, ["Transformer", "Pooling", "Router"], "2_Router")
    theirs = save_bert(folder, "BertModel")
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    generator, matrices = torch.Generator().manual_seed(6), []
    for place in ("query_0_Dense", f"{document}_0_Dense"):
        matrices.append(torch.randn(8, 32, generator=generator) * 0.3)
        write_dense(folder / "2_Router" / place, matrices[-1])
    return matrices, theirs


def read(folder: Path, form: str | None) -> tuple[list[list[int]], list[np.ndarray]]:
    """Returns the ids of texts in a form, and what the model computes of them."""
    served, model = load_folder(folder, "auto")
    reader, prompt = prompted(served.reader, form)
    ids = [reader.read(text, prompt, "right").ids for text in TEXTS]
    # A batch may have queries and documents.
    other = [EmbeddingJob([5, 7], is_query=not reader.is_query)]
    jobs = [EmbeddingJob(each, is_query=reader.is_query) for each in ids]
    return ids, embed(model, [*other, *jobs, *other])[1:-1]


def content(text: str) -> list[int]:
    found: list[int] = tokenizer().encode(text, add_special_tokens=False).ids
    return found


@pytest.mark.parametrize("document", ["document_0_Transformer", ""])
@torch.no_grad()
def test_queries_of_a_sparse_model_have_weights_of_a_table(tmp_path: Path, document: str) -> None:
    weights, theirs = write_sparse(tmp_path, document)
    texts, found = read(tmp_path, "query")
    assert texts == list(map(content, TEXTS))
    for ids, vectors in zip(texts, found, strict=True):
        presence = torch.zeros(len(WORDS)).scatter_(0, torch.tensor(ids), 1.0)
        np.testing.assert_array_equal(dense(vectors), (presence * weights).numpy())
        assert WORDS.index("hello") not in vectors[:, 0]
    texts, found = read(tmp_path, None)
    for ids, vectors in zip(texts, found, strict=True):
        scores = theirs(torch.tensor([ids])).logits[0].relu().log1p().log1p().amax(dim=0)
        np.testing.assert_allclose(dense(vectors), scores.numpy(), atol=1e-5)


@torch.no_grad()
def test_each_form_has_its_modules_and_its_prompt(tmp_path: Path) -> None:
    table, theirs = write_means(tmp_path)
    texts, found = read(tmp_path, "query")
    assert texts == [content(f"query : {text}") for text in TEXTS]
    for ids, vector in zip(texts, found, strict=True):
        expected = F.normalize(table[ids].mean(dim=0), dim=0)
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-6)
    texts, found = read(tmp_path, None)
    for ids, vector in zip(texts, found, strict=True):
        states = theirs(torch.tensor([ids])).last_hidden_state[0]
        np.testing.assert_allclose(vector, F.normalize(states.mean(dim=0), dim=0), atol=1e-5)


@pytest.mark.parametrize("document", ["document", "doc"])
@torch.no_grad()
def test_modules_before_the_router_are_shared(tmp_path: Path, document: str) -> None:
    matrices, theirs = write_asym(tmp_path, document)
    path = tmp_path / "2_Router" / ROUTER
    if document == "doc":  # as Asym wrote it
        change_json(path, parameters={"allow_empty_key": True})
        path.rename(path.with_name("config.json"))
        default = "query"
    else:
        mappings = {"('query', 'text')": "document", "('document', None)": "query"}
        change_json(path, parameters={"default_route": "query", "route_mappings": mappings})
        matrices.reverse()
        default = "document"
    for form, matrix in zip(("query", "document"), matrices, strict=True):
        texts, found = read(tmp_path, form)
        for ids, vector in zip(texts, found, strict=True):
            states = theirs(torch.tensor([ids])).last_hidden_state[0]
            np.testing.assert_allclose(vector, (states[0] @ matrix.T).tanh().numpy(), atol=1e-5)
    np.testing.assert_array_equal(read(tmp_path, None)[1], read(tmp_path, default)[1])


OTHER = {"query": ["query_0_Dense"], "passage": ["document_0_Dense"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"structure": OTHER}, "routes query, passage, supported: query, document"),
        ({"structure": OTHER | {"document": []}}, "routes query, passage, document, supported"),
        ({"structure": {"query": ["query_0_Dense"]}}, "the routes query, supported"),
        ({"structure": ["query"]}, "is not a router"),
        ({"parameters": {"default_route": "x"}}, "default_route is 'x'"),
        ({"types": {}}, "is not a router"),
        ({"types": dict.fromkeys(("query_0_Dense", "document_0_Dense"), "x.Y")}, "module 2 is x.Y"),
    ],
)
def test_other_routers_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write_asym(tmp_path)
    change_json(tmp_path / "2_Router" / ROUTER, **changes)
    with pytest.raises(CheckpointError, match=message):
        read(tmp_path, None)


def test_router_of_a_cross_encoder_is_refused(tmp_path: Path) -> None:
    write_asym(tmp_path)
    own = {"model_type": "CrossEncoder"}
    write_json(tmp_path / "config_sentence_transformers.json", own)
    with pytest.raises(CheckpointError, match="cross-encoders with a router are not served"):
        read(tmp_path, None)


def test_routes_to_vectors_of_other_sizes_are_refused(tmp_path: Path) -> None:
    write_means(tmp_path)
    path = tmp_path / "query_0_StaticEmbedding" / "model.safetensors"
    save_file({"embedding.weight": torch.zeros(len(WORDS), 8)}, path)
    with pytest.raises(CheckpointError, match="sizes of vectors are 8 for queries, 32 for docum"):
        read(tmp_path, None)
