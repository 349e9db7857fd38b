"""Sparse vectors: a weight for each word of the vocabulary, from a model of masked words (SPLADE).

Source: Formal et al. 2021, "SPLADE v2", equations 1 and 6; sentence-transformers,
sparse_encoder/models/SpladePooling.py.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import SparseConfig
from model.layers.sublayers import ACTIVATIONS


class WordScores(nn.Module):
    """Scores all words of the vocabulary with the vectors of a text's tokens."""

    def __init__(self, config: SparseConfig, vocab_size: int, width: int) -> None:
        super().__init__()
        self.config = config
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=config.norm_eps)
        self.bias = nn.Parameter(torch.empty(vocab_size))
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, states: Tensor, table: Tensor) -> Tensor:
        """Returns the ids and weights (n, 2) of the words of one text, in the order of ids.

        The text is computed alone: in a product with other rows, its bits could be others.

        Args:
            states: Hidden states (T, D) of the text's tokens.
            table: Token table (V, D), which is also the matrix of the output layer.
        """
        hidden = self.norm(self.activation(self.dense(states.float())))
        scores = F.linear(hidden.to(table.dtype), table).float() + self.bias  # (T, V)
        scores = scores.relu()
        for _ in range(self.config.num_logs):
            scores = scores.log1p()
        weights = scores.sum(dim=0) if self.config.is_sum else scores.amax(dim=0)  # (V)
        (ids,) = weights.nonzero(as_tuple=True)
        return torch.stack([ids.float(), weights[ids]], dim=1)
