"""Describes, for /openapi.json, the request bodies that routes read without FastAPI."""

from typing import Any

from pydantic import BaseModel

from service.api.request.body import JSON

REFERENCE = "#/components/schemas/{model}"


def request_body(model: type[BaseModel], *media_types: str) -> dict[str, Any]:
    """Returns the OpenAPI fields of a route that reads the request body without FastAPI.

    The result refers to the body's schema in `components` of the OpenAPI document. At first the
    result itself holds the schema, in `$defs`. `move_definitions` moves the schema to `components`.

    Args:
        model: Schema of the body.
        media_types: Media types of the body; JSON if none is given.
    """
    schema = model.model_json_schema(ref_template=REFERENCE)
    definitions = {**schema.pop("$defs", {}), model.__name__: schema}
    reference = {"$ref": REFERENCE.format(model=model.__name__), "$defs": definitions}
    content = {media_type: {"schema": reference} for media_type in media_types or (JSON,)}
    return {"requestBody": {"required": True, "content": content}}


def move_definitions(document: dict[str, Any]) -> None:
    """Moves the `$defs` of all request bodies of an OpenAPI document to its `components`."""
    schemas = document["components"]["schemas"]
    for operations in document["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {"content": {}})["content"].values():
                schemas.update(content["schema"].pop("$defs", {}))
