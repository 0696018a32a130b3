"""Multiplicative filter networks: what MAGNet, GaborNet and FourierNet share.

Fathony et al. 2021, Multiplicative filter networks (https://openreview.net/forum?id=OmtmcPkkhT):
h₀ = g₀(c), h_i = g_i(c) ⊙ (W_i h_{i-1} + b_i), ψ(c) = W_out h_M + b_out.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ccnn.nn.kernels.base import AbstractKernelNet, Omega, linear
from ccnn.nn.kernels.gabor import gabor, gaussian

TWO_PI = 2 * math.pi


class AbstractFilterNet(AbstractKernelNet):
    """The recursion over filters with H units each; a final class says what they are.

    Parameters
    ----------
    filters
        g₀ … g_M, modules with a sine ``weight`` (H, D), ``forward`` and ``on_grid``.
    hidden
        W₁ … W_M.
    """

    def __init__(
        self,
        dim: int,
        out_channels: int,
        *,
        filters: Sequence["GaborFilter | FourierFilter"],
        hidden: Sequence[nn.Linear],
        omega_0: Omega,
        band: float,
    ) -> None:
        super().__init__(dim, out_channels, omega_0=omega_0, band=band)
        self.filters = nn.ModuleList(filters)
        self.hidden = nn.ModuleList(hidden)
        self.output = linear(filters[0].weight.shape[0], out_channels)

    @property
    def last(self) -> nn.Linear:
        """The output layer."""
        return self.output

    def forward(self, coords: Tensor) -> Tensor:
        """(*K, D) -> (*K, C)."""
        out: Tensor = self.output(self._multiply([g(coords) for g in self.filters]))
        return out

    def on_grid(self, axes: Sequence[Tensor]) -> Tensor:
        """(K_1,), …, (K_D,) -> (*K, C)."""
        out: Tensor = self.output(self._on_grid(axes))
        return out

    def windowed_on_grid(self, axes: Sequence[Tensor], window: Tensor) -> Tensor:
        """Return `on_grid` times a window, channels first: window (*K, 1) -> (C, *K)."""
        # The window goes before the last layer, where there are H numbers at each coordinate
        # instead of C; that layer's bias is then the weight of the window itself.
        rows = torch.cat([self._on_grid(axes) * window, window], dim=-1)
        weight = torch.cat([self.output.weight, self.output.bias[:, None]], dim=1)
        kernels = weight @ rows.flatten(0, -2).mT
        return kernels.view(-1, *window.shape[:-1])

    def _on_grid(self, axes: Sequence[Tensor]) -> Tensor:
        """Return what the last layer sees: (*K, H)."""
        if len(axes) != self.dim:
            raise ValueError(f"expected {self.dim} axes of coordinates, got {len(axes)}")
        return self._multiply([g.on_grid(axes) for g in self._sines()])

    def _multiply(self, responses: Sequence[Tensor]) -> Tensor:
        h = responses[0]
        for layer, response in zip(self.hidden, responses[1:], strict=True):
            h = response * layer(h)
        return h

    def frequencies(self) -> Tensor:
        """Return Σ_filters max_units |w_d|, (D,): no product of the sines oscillates faster."""
        return torch.stack([g.weight.detach().abs().amax(dim=0) for g in self._sines()]).sum(dim=0)

    def scale_frequencies_(self, factor: Tensor) -> None:
        """Multiply the sine weights of each axis by a factor (D,)."""
        for g in self._sines():
            g.weight.data.mul_(factor)

    def _sines(self) -> list["GaborFilter | FourierFilter"]:
        return [g for g in self.filters if isinstance(g, GaborFilter | FourierFilter)]


class FourierFilter(nn.Module):
    """g(c) = sin(W c + b), with H outputs."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)  # (H, D)
        self.bias = nn.Parameter(torch.zeros(len(weight)))

    def forward(self, coords: Tensor) -> Tensor:
        """(*K, D) -> (*K, H)."""
        return torch.sin(nn.functional.linear(coords, self.weight, self.bias))

    def on_grid(self, axes: Sequence[Tensor]) -> Tensor:
        """As forward on the grid spanned by the axes: (*K, H)."""
        return sine_on_grid(axes, self.weight, self.bias)


class GaborFilter(nn.Module):
    """g(c) = exp(-½ Σ_d [γ_d (c_d - μ_d)]²) · sin(Σ_d w_d c_d + b), with H outputs.

    γ, an inverse width, has one column per axis (anisotropic) or a single one for all.
    """

    def __init__(self, weight: Tensor, gamma: Tensor, centre: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)  # (H, D)
        self.bias = nn.Parameter(torch.zeros(len(weight)))
        self.gamma = nn.Parameter(gamma)  # (H, D) or (H, 1)
        self.centre = nn.Parameter(centre)  # (H, D)

    def forward(self, coords: Tensor) -> Tensor:
        """(*K, D) -> (*K, H)."""
        flat = coords.reshape(-1, coords.shape[-1])  # (P, D)
        response = gabor(flat, self.weight, self.bias, self.gamma, self.centre)
        return response.view(*coords.shape[:-1], len(self.bias))

    def on_grid(self, axes: Sequence[Tensor]) -> Tensor:
        """As forward on the grid spanned by the axes, which separates: (*K, H)."""
        if len(axes) == 1:
            return self.forward(axes[0][:, None])
        gamma = self.gamma.expand_as(self.centre)
        distances = [
            gamma[:, d] * (axis[:, None] - self.centre[:, d]) for d, axis in enumerate(axes)
        ]
        windows = [gaussian(distance.square(), factors=len(axes)) for distance in distances]
        return outer(windows) * sine_on_grid(axes, self.weight, self.bias)


def outer(factors: Sequence[Tensor]) -> Tensor:
    """Multiply one (K_d, H) factor per axis out to (*K, H)."""
    result = factors[0]
    for factor in factors[1:]:
        result = result.unsqueeze(-2) * factor
    return result


def sine_on_grid(axes: Sequence[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    """Return sin(Σ_d w_d c_d + b) on a grid, (*K, H), with sines of the axes only.

    sin(a + b) = sin a cos b + cos a sin b: K_1 + … + K_D sines instead of K_1 ⋯ K_D.
    """
    phase = axes[0][:, None] * weight[:, 0] + bias
    if len(axes) == 1:
        return torch.sin(phase)
    sine, cosine = torch.sin(phase), torch.cos(phase)
    for d, axis in enumerate(axes[1:], start=1):
        phase = axis[:, None] * weight[:, d]
        sine_d, cosine_d = torch.sin(phase), torch.cos(phase)
        sine, cosine = sine.unsqueeze(-2), cosine.unsqueeze(-2)
        if d == len(axes) - 1:
            return sine * cosine_d + cosine * sine_d
        sine, cosine = sine * cosine_d + cosine * sine_d, cosine * cosine_d - sine * sine_d
    return sine


def gamma_sample(shape: tuple[int, int], concentration: float) -> Tensor:
    """Draw inverse widths from Gamma(concentration, rate 1)."""
    return torch.distributions.Gamma(concentration, 1.0).sample(shape)


def centre_sample(hidden: int, spread: Sequence[float], *, causal: bool) -> Tensor:
    """Draw the centres (H, D) of Gabor windows within ``spread`` of lag zero."""
    uniform = torch.rand(hidden, len(spread))
    scale = torch.tensor(spread)
    return 1 - scale * uniform if causal else scale * (2 * uniform - 1)


def uniform(shape: tuple[int, int], bound: float) -> Tensor:
    """Draw from U(-bound, bound)."""
    return bound * (2 * torch.rand(shape) - 1)
