"""Runs Transformers for translation and embeddings.

The models take token ids and return ids, vectors or attention. The package does not use HTTP.
Only `tokenization` converts text to ids and ids to text.

The letters in the shape comments of the package have these meanings:

    B  rows of a batch               H  attention heads
    S  source positions              K  head_dim = D / H
    T  target positions, this call   D  d_model
    L  target positions, cached      F  ffn_dim
    V  vocabulary                    U  ids that have logits: all ids, or a selection
    N  tokens of packed texts        E  size of a text's vector

Folders, from top to bottom; each folder imports only from the folders below it:

    checkpoints/    files on disk -> configs, loaded models and tokenizers
    engine/         the in-flight batch: admit, step, abort; greedy choice and beam search
    encoding/       forward passes over given texts, in slices: embeddings, attention
    backends/       the runners that execute a model: PyTorch, CUDA graphs, native int8 code
    inspection/     attention queries, and the capture of their results
    architectures/  encoder, decoder, seq2seq, text encoder, shortlist, output layer
    quantization/   int8 schemes and packed matrices
    layers/         attention, feed-forward, SSRU (a recurrent unit), positions, residual, caches
    tokenization/   text <-> ids with character offsets

Modules that every folder may import: `errors`, `config`, `embedding_config`, `sequence`, `device`,
`precision`, `regular_files`.
"""

import os
from pathlib import Path

VARIABLE, STRICT = "MKL_CBWR", "AUTO,STRICT"
"""Environment variable that turns on the strict mode of Intel's MKL, and its value.

In this mode, a row of a matrix product has the same bits in every batch. Without it, on Intel's
processors, these bits depend on the number of rows. MKL reads the variable at its first product.
On Intel's processors, the import of this package sets the variable, unless it is set already. On
other processors, the value could select slow code.

In strict mode, the product of a single row takes twice as long: 134 instead of 65 µs for a matrix
of 384 x 1536. Products of 8 to 512 rows take the same time.
"""

CPU_INFO = Path("/proc/cpuinfo")

if CPU_INFO.exists():
    with CPU_INFO.open(encoding="utf-8") as _file:
        if "GenuineIntel" in _file.read(256):
            os.environ.setdefault(VARIABLE, STRICT)
