"""How much each sample of a signal speaks for one output of a network.

Three ways, none of which needs more than gradients. With f the output and x the standardised
signal, whose zero is the mean of the training signals:

- gradient: ∂f/∂x, how the output would answer to a small change;
- product: x · ∂f/∂x, the gradient times the input;
- integrated: x · ∫₀¹ ∂f/∂x(αx) dα (Sundararajan, Taly and Yan, 2017), whose sum over a signal is
  exactly f(x) - f(0), up to the error of the sum that stands for the integral.
"""

import copy
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ccnn.estimator.inputs import told_of_missing
from ccnn.models import CCNN
from ccnn.tasks.task import Samples
from ccnn.training.data import Batch, EvaluationBatches
from ccnn.training.placing import place
from ccnn.training.resampling import Spacing

# One output of a network for every signal: (B, C, *S) -> (B,).
Output = Callable[[Tensor], Tensor]

# Values of one layer that a batch may hold; all layers are kept for the gradient.
_VALUES = 2**20


def gradient(output: Output, x: Tensor, steps: int) -> Tensor:
    """Return ∂f/∂x, (B, C, *S); ``steps`` is of no use here."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (result,) = torch.autograd.grad(output(x).sum(), x)
    return result


def product(output: Output, x: Tensor, steps: int) -> Tensor:
    """Return x · ∂f/∂x, (B, C, *S); ``steps`` is of no use here."""
    return x * gradient(output, x, steps)


def integrated(output: Output, x: Tensor, steps: int) -> Tensor:
    """Return integrated gradients from the mean signal to x, (B, C, *S), with ``steps`` nodes."""
    # Gauss and Legendre's nodes need far fewer gradients than equal steps for the same error.
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros_like(x)
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        total += weight / 2 * gradient(output, (node + 1) / 2 * x, steps)
    return x * total


METHODS: dict[str, Callable[[Output, Tensor, int], Tensor]] = {
    "gradient": gradient,
    "product": product,
    "integrated": integrated,
}


def attribute(
    models: Sequence[CCNN], samples: Samples, *, method: str, steps: int, spacing: Spacing
) -> Tensor:
    """Return how much each sample speaks for the output that its signal's target names.

    Parameters
    ----------
    models
        Networks, whose mean output is explained.
    samples
        Standardised signals; y is the index of the output, (n,).
    method, steps
        A name in `METHODS`, and how many gradients an integral consists of.
    spacing
        Of the signals' grid.

    Shapes
    ------
    result : (n, C, *S), float64; zero where there is no sample
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; expected one of {', '.join(METHODS)}")
    if steps < 1:
        raise ValueError(f"steps is {steps}; expected at least 1")
    # In double precision as for predictions, since an integral's terms cancel.
    networks = [copy.deepcopy(model).double().eval().requires_grad_(False) for model in models]
    size = max(_VALUES // (models[0].stem.out_channels * math.prod(samples.x.shape[2:])), 1)
    parts = []
    for batch in EvaluationBatches(samples, size):
        parts.append(METHODS[method](_output(networks, batch, spacing), batch.x.double(), steps))
    return torch.cat(parts)


def _output(networks: Sequence[CCNN], batch: Batch, spacing: Spacing) -> Output:
    """Return the networks' mean output for a batch, as a function of its values."""

    def output(x: Tensor) -> Tensor:
        missing = told_of_missing(networks[0].size)
        placed = place(batch._replace(x=x), spacing=spacing, missing=missing)
        said = torch.stack([placed.through(network) for network in networks]).mean(dim=0)
        return said.gather(1, batch.y[:, None])[:, 0]

    return output
