"""One APIRouter a file."""
