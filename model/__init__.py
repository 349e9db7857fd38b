"""Runs Transformers for translation and embeddings.

The models take token ids and return ids, vectors or attention. The package does not use HTTP.
Only `tokenization` converts text to ids and ids to text. docs/architecture.md lists the folders.

The letters in the shape comments of the package have these meanings:

    B  rows of a batch               H  attention heads
    S  source positions              K  head_dim, mostly D / H
    T  target positions, this call   D  d_model
    L  target positions, cached      F  ffn_dim
    V  vocabulary                    U  ids that have logits: all ids, or a selection
    N  tokens of packed texts        E  size of a text's vector
"""

import os
from pathlib import Path

VARIABLE, STRICT = "MKL_CBWR", "AUTO,STRICT"
"""Environment variable that turns on the strict mode of Intel's MKL, and its value.

In this mode, a row of a matrix product has the same bits in every batch. Without it, on Intel's
processors, these bits depend on the number of rows. On other processors, the value could select
slow code. MKL reads the variable at its first product. In strict mode, the product of a single row
takes twice as long; products of 8 to 512 rows take the same time.
"""

CPU_INFO = Path("/proc/cpuinfo")

if CPU_INFO.exists():
    with CPU_INFO.open(encoding="utf-8") as _file:
        if "GenuineIntel" in _file.read(256):
            os.environ.setdefault(VARIABLE, STRICT)
