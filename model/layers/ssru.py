"""Implements the simpler simple recurrent unit (SSRU)."""

import torch
from torch import Tensor, nn

from model.layers.row_kernels import RowKernels, next_output


class SSRU(nn.Module):
    """The simpler simple recurrent unit, which replaces self-attention in a decoder.

    One vector for each sentence, the cell c, stands for all earlier target tokens. For each input
    x, the unit computes the following, where f * c is an elementwise product:

    f = sigmoid(Wf x + bf);  c = f * c + (1 - f) * W x;  output = relu(c)

    Source: Kim et al. 2019, "From Research to Production and Back", section 3.1.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.update = nn.Linear(d_model, d_model, bias=False)
        self.forget = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, cell: Tensor, kernels: RowKernels) -> Tensor:
        """Returns outputs (B, T, D) for x (B, T, D); updates the cell (B, D) in place."""
        if x.shape[1] == 1:
            return kernels.recur(self.forget(x), self.update(x), cell)
        return self.recur(*self.gates(x), cell)

    def gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns forget gates f and updates (1 - f) * W x, each (B, T, D), for x (B, T, D)."""
        forget = torch.sigmoid(self.forget(x))  # (B, T, D)
        return forget, (1 - forget) * self.update(x)

    def recur(self, forget: Tensor, update: Tensor, cell: Tensor) -> Tensor:
        """Returns outputs (B, T, D) for results of `gates`; updates the cell (B, D) in place."""
        steps = zip(forget.unbind(1), update.unbind(1), strict=True)
        return torch.stack([next_output(*step, cell) for step in steps], dim=1)  # (B, T, D)
