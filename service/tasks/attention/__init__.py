"""The attention tasks: queries, matrices, words, alignment."""
