"""Routes whose functions get validated parameters and return values, without any HTTP."""

from collections.abc import Awaitable, Callable
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar, get_args

from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

from service.api.context import Services, context_of
from service.api.request.body import read_fields
from service.api.request.parameters import described, described_query
from service.api.request.reading import Reader, read_permitted, unless_disconnected, validated
from service.api.responses import JSONResponse

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])

REQUEST = Parameter("request", Parameter.POSITIONAL_OR_KEYWORD, annotation=Request)


def route(
    add: Callable[..., Any],
    path: str,
    response: Any,
    *media_types: str,
    read: Reader = read_fields,
    choose: Callable[[Services, dict[str, Any]], type[BaseModel]] | None = None,
    **options: Any,
) -> Callable[[Handler], Handler]:
    """Decorates a function that answers the requests of a route.

    The function gets the context and the parameters of a request, and then the parameters of its
    path. The type of its second argument is the model of the parameters, which are in the body, or
    with GET and DELETE in the query. The function returns a Response, or a value that becomes JSON.
    It is cancelled as soon as the client disconnects.

    Args:
        add: Method of a router, such as `router.post`.
        response: Model of the response, for OpenAPI.
        media_types: Media types of the body; without any, it is JSON.
        read: Reads the fields of the parameters.
        choose: Returns the model for the fields of a request, if the second argument has a union of
            types. OpenAPI describes the first one.
        options: Options of FastAPI's decorator, such as `status_code`.
    """
    describe = described_query if add.__name__ in ("get", "delete") else described

    def decorate(handler: Handler) -> Handler:
        _, given_in, *in_path = signature(handler).parameters.values()
        parameters = next(iter(get_args(given_in.annotation)), given_in.annotation)

        async def endpoint(request: Request, **path_parameters: str) -> Response:
            context = context_of(request)
            with context.stage("validate"):
                fields = await read_permitted(request, read)
                model = choose(context.services, fields) if choose else parameters
                given = validated(fields, model)
            work: Any = handler(context, given, **path_parameters)
            found = await unless_disconnected(request, work)
            if isinstance(found, Response):
                return found
            if isinstance(found, BaseModel):
                found = found.model_dump(mode="json")
            return JSONResponse(found, options.get("status_code", 200))

        update_wrapper(endpoint, handler)
        endpoint.__signature__ = Signature(  # type: ignore[attr-defined]
            [REQUEST, *in_path], return_annotation=Response
        )
        add(path, **describe(parameters, response, *media_types), **options)(endpoint)
        return handler

    return decorate
