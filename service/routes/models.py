"""GET /v1/models."""

from fastapi import APIRouter

from model.inspection import InspectedConfig, attention_layers
from service.backend import Status
from service.dependencies import Services, ServicesDep
from service.schemas import AttentionSizeBody, EmbedderBody, ModelBody, ModelList

router = APIRouter(tags=["models"])


@router.get("/v1/models")
async def models(services: ServicesDep) -> ModelList:
    """What is resident, where and in which precision."""
    status = await services.backend.status()
    return ModelList(data=[*model_bodies(services, status), *embedder_bodies(services, status)])


def model_bodies(services: Services, status: Status) -> list[ModelBody]:
    """The translation models."""
    resident = status.models
    return [
        ModelBody(
            id=name,
            created=services.started,
            source=served.files.source or None,
            target=served.files.target or None,
            sources=sorted(served.files.sources),
            targets=sorted(served.files.targets),
            revision=served.files.revision,
            device=resident[name].device if name in resident else None,
            dtype=resident[name].dtype if name in resident else None,
            attention=attention_body(resident[name].config) if name in resident else None,
        )
        for name, served in services.catalog.models.items()
    ]


def embedder_bodies(services: Services, status: Status) -> list[EmbedderBody]:
    """The embedding models."""
    resident = status.embedders
    return [
        EmbedderBody(
            id=name,
            created=services.started,
            dimensions=served.config.output_size,
            max_tokens=served.config.max_tokens,
            prompts=[*served.config.prompts],
            revision=served.files.revision,
            device=resident[name].device if name in resident else None,
            dtype=resident[name].dtype if name in resident else None,
            attention=attention_body(served.config.encoder) if name in resident else None,
        )
        for name, served in services.catalog.embedders.items()
    ]


def attention_body(config: InspectedConfig) -> dict[str, AttentionSizeBody]:
    """What can be looked into of a model."""
    heads = config.num_heads
    return {
        kind.value: AttentionSizeBody(layers=layers, heads=heads)
        for kind, layers in attention_layers(config).items()
    }
