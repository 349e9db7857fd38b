"""The dialect of text-embeddings-inference: `/embed`, `/embed_all`, `/similarity`."""
