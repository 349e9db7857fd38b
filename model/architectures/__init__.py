"""Whole networks made of layers: encoder, decoder, seq2seq, text encoder, output layer."""
