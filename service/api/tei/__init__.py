"""The dialect of text-embeddings-inference (TEI): vectors, similarities and reranking."""
