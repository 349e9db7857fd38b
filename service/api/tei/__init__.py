"""The dialect of text-embeddings-inference (TEI): `/embed`, `/embed_all`, `/similarity`."""
