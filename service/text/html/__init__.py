"""HTML texts: their elements, and the conversion into texts to translate."""
