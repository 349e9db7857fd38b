"""Transformers for translation and embeddings, as a library: ids in; ids, vectors or weights out.

The package knows nothing of HTTP. Text becomes ids in `tokenization`; no other folder sees text.

Dimension key, used in every shape comment of the package:

    B  rows of a batch            H  attention heads
    S  source positions           K  head_dim = D / H
    T  target positions, now      D  d_model
    L  target positions, cached   F  ffn_dim
    V  vocabulary                 U  vocabulary entries in a shortlist union

Folders, from the top floor to the lowest; each imports only from those below it:

    checkpoints/    files on disk -> configs, filled models and tokenizers
    engine/         the in-flight batch: admit, step, abort; greedy choice and beam search
    encoding/       passes over given texts in slices: vectors, teacher-forced attention
    backends/       the runners of a model: PyTorch, CUDA graphs, native int8 code
    inspection/     queries about attention, and the capture of their answers
    architectures/  encoder, decoder, seq2seq, text encoder, shortlist, output layer
    quantization/   int8 schemes and packed matrices
    layers/         attention, feed-forward, SSRU, positions, residual, caches
    tokenization/   text <-> ids with character offsets

Modules that every folder may import: `errors`, `config`, `embedding_config`, `sequence`, `device`.
"""
