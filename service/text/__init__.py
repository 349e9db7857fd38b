"""Language detection, sentence splitting, chunking, language codes."""
