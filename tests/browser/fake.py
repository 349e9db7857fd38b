"""The page's own route in front of an API that answers with the numbers of `fake_model`.

Fake are the models, not the page: its route, its files and their headers are the product's. That is
enough here, because the page knows the server only by the shapes of its replies, and these obey the
documented ones, sums included; the tests compare what the page shows with what the same server says
to a plain client. Which numbers a Transformer has is proved elsewhere. The same tests run against
the whole server with its built-in models: see conftest.py.
"""

import io
import json
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from numpy.typing import NDArray

from service.api import page
from tests.browser import fake_model
from tests.browser.fake_model import HEADS, SHAPES, Head, Pair, by_word, sentences, tokenize

NAMES = {"en": "English", "pt": "Portuguese"}
MAX_CHARS = 2000
EMBEDDER = "fake-embedder"
NDJSON = "application/x-ndjson"


class RefusedError(Exception):
    """What is answered with an error."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type


def create_fake() -> FastAPI:
    app = FastAPI()
    app.include_router(page.router)
    app.add_exception_handler(RefusedError, refuse)
    app.get("/languages")(languages)
    app.get("/frontend/settings")(frontend_settings)
    app.get("/v1/models")(models)
    app.post("/detect")(detect)
    app.post("/translate")(translate)
    app.post("/attention")(attention)
    app.post("/attention/steps")(steps)
    return app


async def refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    body = {"error": str(error), "error_type": error.error_type, "request_id": "00000000deadbeef"}
    return JSONResponse(body, error.status)


async def languages() -> list[dict[str, Any]]:
    return [{"code": code, "name": name, "targets": [*NAMES]} for code, name in NAMES.items()]


async def frontend_settings() -> dict[str, Any]:
    return {"language": {"source": {"code": "auto"}, "target": {"code": "pt"}}}


async def models() -> dict[str, Any]:
    return {"object": "list", "data": [*map(model_body, SHAPES), embedder_body()]}


def embedder_body() -> dict[str, Any]:
    attention = {"encoder": {"layers": SHAPES["en-pt"]["encoder"], "heads": HEADS}}
    known = {"id": EMBEDDER, "object": "model", "task": "embed", "dimensions": 384}
    return known | {
        "revision": "fake",
        "device": "cpu",
        "dtype": "float32",
        "attention": attention,
    }


def model_body(name: str) -> dict[str, Any]:
    source, target = name.split("-")
    attention = {kind: {"layers": n, "heads": HEADS} for kind, n in SHAPES[name].items()}
    known = {"id": name, "object": "model", "source": source, "target": target}
    sides = {"sources": [source], "targets": [target]}
    return (
        known
        | sides
        | {"task": "translate", "revision": "fake", "device": "cpu"}
        | {
            "dtype": "float32",
            "attention": attention,
            "alignment": {"layer": SHAPES[name]["cross"] - 1, "head": 0, "shift": 0},
        }
    )


async def detect(request: Request) -> list[dict[str, Any]]:
    return [detected((await request.json())["q"])]


def detected(text: str) -> dict[str, Any]:
    words = [token.lower() for token in text.split()]
    found = {code: sum(w in lexicon for w in words) for code, lexicon in fake_model.LEXICON.items()}
    language = max(found, key=lambda code: found[code])
    return {"language": language, "confidence": 90.0 if found[language] else 0.0}


async def translate(request: Request) -> Response:
    body = await request.json()
    reply = translated(body)
    if NDJSON in request.headers.get("accept", ""):
        return Response(as_lines(reply), media_type=NDJSON)
    return JSONResponse(reply)


def as_lines(reply: dict[str, Any]) -> str:
    alignment = reply.get("alignment", [])
    starts = [0, *(each["target_words"][0][0] for each in alignment[1:])]
    found = reply["translatedText"]
    lines: list[dict[str, Any]] = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(found)
        line = {"input": 0, "sentence": number, "translatedText": found[start:end]}
        lines.append(line | {"alignment": alignment[number : number + 1]})
    lines[0] |= {name: reply[name] for name in ("detectedLanguage",) if name in reply}
    lines.append({"done": True, "sentences": len(lines)})
    return "".join(json.dumps(line) + "\n" for line in lines)


def translated(body: dict[str, Any]) -> dict[str, Any]:
    text, target = body["q"], body["target"]
    if len(text) > MAX_CHARS:
        raise RefusedError(
            413, "too_large", f"Invalid request: {len(text)} characters exceed the limit"
        )
    found = detected(text) if body["source"] == "auto" else None
    source = found["language"] if found else body["source"]
    reply: dict[str, Any] = {"translatedText": text}
    if source != target:
        reply["translatedText"] = fake_model.translate(text, source)
    if found:
        reply["detectedLanguage"] = found
    if body.get("alternatives"):
        best = reply["translatedText"]
        versions = [best.replace("saíram", "fugiram"), best.replace("logo", "já"), best.upper()]
        reply["alternatives"] = [v for v in versions if v != best][: body["alternatives"]]
    if body.get("return_alignment"):
        reply["alignment"] = [] if source == target else aligned(text, source, target)
    return reply


def aligned(text: str, source: str, target: str) -> list[dict[str, Any]]:
    done, written, found = 0, 0, []
    translated = fake_model.translate(text, source)
    for sentence in sentences(text):
        pair = pair_of(sentence, source, target, None)
        done = text.index(sentence, done)
        written = translated.index(pair.target.text, written)
        alignment = pair.alignment(SHAPES[f"{source}-{target}"]["cross"])
        found.append(
            alignment
            | {
                "source_words": spans(pair.source, alignment["source_words"], done),
                "target_words": spans(pair.target, alignment["target_words"], written),
            }
        )
        done, written = done + len(sentence), written + len(pair.target.text)
    return found


def spans(side: fake_model.Tokens, words: list[list[int]], start: int) -> list[list[int]]:
    return [[start + side.offsets[a][0], start + side.offsets[b - 1][1]] for a, b in words]


def pair_of(text: str, source: str, target: str, wanted: str | None) -> Pair:
    translated = fake_model.translate(text, source) if wanted is None else wanted
    return Pair(tokenize(text, source), tokenize(translated, target))


async def asked(request: Request) -> dict[str, Any]:
    body: dict[str, Any] = await request.json()
    if body.get("task") == "embed":
        body |= {"source": "en", "target": "pt", "kinds": ["encoder"], "kind": "encoder"}
    return body


def shown(body: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    if body.get("task") != "embed":
        return reply
    return {name: reply[name] for name in reply if name not in ("target", "alignment")}


async def attention(request: Request) -> Response:
    body = await asked(request)
    texts = sentences(body["text"]) if body.get("split") else [body["text"]]
    shape = SHAPES[f"{body['source']}-{body['target']}"]
    items = []
    for text in texts:
        pair = pair_of(text, body["source"], body["target"], body.get("target_text"))
        items.append(shown(body, item_of(pair, body, shape)))
    if body.get("format") == "npz":
        return Response(as_npz(items), media_type="application/x-npz")
    return JSONResponse({"model": f"{body['source']}-{body['target']}", "items": items})


def item_of(pair: Pair, body: dict[str, Any], shape: dict[str, int]) -> dict[str, Any]:
    level = body.get("level", "token")
    attentions = [attention_of(pair, kind, body, shape) for kind in body.get("kinds", ["cross"])]
    return {
        "source": labels(pair.source, level),
        "target": labels(pair.target, level) | {"input_tokens": inputs(pair.target, level)},
        "attentions": attentions,
        "alignment": pair.alignment(shape["cross"]),
    }


def attention_of(
    pair: Pair, kind: str, body: dict[str, Any], shape: dict[str, int]
) -> dict[str, Any]:
    if kind not in shape:
        raise RefusedError(400, "invalid_request", f"the model has no {kind} attention")
    reduce = body.get("reduce", "mean_heads")
    layers = body.get("layers", [-1])
    chosen = [*range(shape[kind])] if layers == "all" else [n % shape[kind] for n in layers]
    heads = body.get("heads", "all")
    wanted = [*range(HEADS)] if heads == "all" else [n % HEADS for n in heads]
    compute = pair.value_norms if body.get("norm") == "value_norms" else pair.weights
    if reduce == "rollout":
        data = np.array([[pair.rollout(kind, shape[kind])]])
    else:
        data = np.array([[compute(kind, n, h) for h in wanted] for n in chosen])
    data, names = reduced(data, reduce, wanted)
    if body.get("level") == "word":
        rows = pair.source if kind == "encoder" else pair.target
        columns = pair.target if kind == "decoder" else pair.source
        data = np.array([[by_word(plane, rows, columns) for plane in layer] for layer in data])
    if body.get("decimals") is not None:
        data = data.round(body["decimals"])
    known = {"kind": kind, "layers": chosen, "heads": names, "shape": [*data.shape]}
    return known | {"reduce": reduce, "norm": body.get("norm", "weights"), "data": data.tolist()}


def reduced(data: Any, reduce: str, heads: list[int]) -> tuple[Any, list[int] | str]:
    if reduce == "mean_heads":
        return data.mean(axis=1, keepdims=True), "mean"
    if reduce == "mean_layers_heads":
        return data.mean(axis=(0, 1), keepdims=True), "mean"
    return data, "rollout" if reduce == "rollout" else heads


def labels(side: fake_model.Tokens, level: str) -> dict[str, Any]:
    ids = [1 + sum(map(ord, token)) for token in side.tokens]
    if level == "token":
        known = {"tokens": side.tokens, "ids": ids, "offsets": side.offsets}
        return {"text": side.text, **known, "special": side.special}
    places = [[side.offsets[a][0], side.offsets[b - 1][1]] for a, b in side.words]
    return {
        "text": side.text,
        "tokens": [side.text[a:b] or fake_model.END for a, b in places],
        "ids": [ids[a:b] for a, b in side.words],
        "offsets": places,
        "special": [side.special[a] for a, _ in side.words],
    }


def inputs(side: fake_model.Tokens, level: str) -> list[str]:
    if level == "token":
        return side.input_tokens
    return ["", *labels(side, "word")["tokens"][:-1]]


def as_npz(items: list[dict[str, Any]]) -> bytes:
    arrays: dict[str, NDArray[Any]] = {
        f"item{n}.{found['kind']}": np.array(found["data"], np.float32)
        for n, item in enumerate(items)
        for found in item["attentions"]
    }
    arrays["metadata"] = np.frombuffer(json.dumps({"model": "fake"}).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


async def steps(request: Request) -> dict[str, Any]:
    body = await asked(request)
    pair = pair_of(body["text"], body["source"], body["target"], body.get("target_text"))
    query = body["query"]
    asking = pair.source.tokens if body["kind"] == "encoder" else pair.target.input_tokens
    if not 0 <= query < len(asking):
        message = f"query {query} is not among {len(asking)} tokens"
        raise RefusedError(400, "invalid_request", message)
    head = Head(body["kind"], body["layer"], body["head"])
    predicted = None if body["kind"] == "encoder" else pair.target.tokens[query]
    reply = {
        "model": f"{body['source']}-{body['target']}",
        "kind": head.kind,
        "layer": head.layer,
        "head": head.index,
        "head_dim": fake_model.HEAD_DIM,
        "scale": fake_model.HEAD_DIM**-0.5,
        "source": labels(pair.source, "token"),
        "target": labels(pair.target, "token") | {"input_tokens": pair.target.input_tokens},
        "query": {"index": query, "token": asking[query], "predicted": predicted},
        **table_of(pair, head, query),
        **extras_of(pair, head, query, body.get("include", [])),
    }
    return shown(body, reply)


def keys_of(pair: Pair, kind: str, query: int) -> list[str]:
    if kind == "decoder":
        return pair.target.input_tokens[: query + 1]
    return pair.source.tokens


def table_of(pair: Pair, head: Head, query: int) -> dict[str, Any]:
    place = head.kind, head.layer, head.index
    scores, weights = pair.scores(*place)[query], pair.weights(*place)[query]
    weighed = weights[:, None] * head.values(pair.sides(head.kind)[1])
    rows = [
        {
            "key": key,
            "token": token,
            "score": float(scores[key]),
            "scaled": float(scores[key] * fake_model.HEAD_DIM**-0.5),
            "weight": float(weights[key]),
            "value_norm": float(np.linalg.norm(weighed[key])),
            "value": weighed[key][:8].tolist(),
        }
        for key, token in enumerate(keys_of(pair, head.kind, query))
    ]
    return {"rows": rows, "z": weighed.sum(axis=0).tolist()}


def extras_of(pair: Pair, head: Head, query: int, include: list[str]) -> dict[str, Any]:
    rows, columns = pair.sides(head.kind)
    count = len(keys_of(pair, head.kind, query))
    found: dict[str, Any] = {}
    if "vectors" in include:
        k, v = head.keys(columns)[:count], head.values(columns)[:count]
        q = head.queries(rows)[query]
        found["vectors"] = {"q": q.tolist(), "k": k.tolist(), "v": v.tolist()}
    if "output" in include:
        parts = [
            pair.weights(head.kind, head.layer, n)[query]
            @ Head(head.kind, head.layer, n).values(columns)
            for n in range(HEADS)
        ]
        together = np.concatenate(parts)
        zeros = np.zeros_like(together).tolist()
        result = {
            "concatenated": together.tolist(),
            "bias": zeros,
            "result": together[::-1].tolist(),
        }
        found["output"] = result
    return found
