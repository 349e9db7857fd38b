"""Whole networks made of layers: encoder, decoder, text encoder, output layer."""
