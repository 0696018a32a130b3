"""The Fourier series of a kernel that ends smoothly."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ccnn.ops.grids import coordinate_grid
from ccnn.ops.spectral import good_size

# Samples per training sample to start with: four to the shortest period of a kernel at Nyquist.
_START = 2

# How many odd places a series is compared with the kernel at.
_ODD = 16


def fourier_series(
    kernel: Callable[..., Tensor],
    parameters: Sequence[Tensor],
    *,
    radius: Sequence[float],
    box: Sequence[float],
    tolerance: float,
    most: int,
) -> Tensor | None:
    """Return the coefficients of a kernel made periodic on a box, or None where it takes too many.

    K(d) = Σ_k c_k exp(2πi Σ_a k_a d_a / L_a) for |d_a| ≤ L_a/2. K is sampled ever more finely until
    the upper half of its discrete spectrum is nothing, and then as many frequencies are dropped
    as the tolerance allows: for every channel the dropped |c_k| sum up to at most ``tolerance`` of
    the largest |K|, and no sum of waves is off by more.

    Parameters
    ----------
    kernel, parameters
        As for `ccnn.ops.convolve_points`; gradients flow from the coefficients to the parameters.
    radius
        Where K ends, per axis. A kernel that does not vanish there has no short series.
    box
        L, the edges of the box, at least twice the radius.
    tolerance
        See above.
    most
        The largest number of samples of the box.

    Shapes
    ------
    result : (C, *M), complex128; M_a = 2 m_a + 1 frequencies from -m_a to m_a
    """
    counts = [good_size(math.ceil(_START * edge) + 2, multiple=2) for edge in box]
    if not _vanishes(kernel, parameters, radius, tolerance):
        return None
    while math.prod(counts) <= most:
        with torch.no_grad():
            values = _sample(kernel, parameters, radius, box, counts)
            spectrum = _transform(values, counts)
        peak = values.flatten(1).abs().amax(dim=1)
        highest = _highest(spectrum, tolerance / len(box) * peak)
        enough = [m <= n // 4 for m, n in zip(highest, counts, strict=True)]
        if all(enough):
            # A frequency that happens to look slow on the grid does not at odd places.
            error = _error(kernel, parameters, _crop(spectrum, highest), radius, box)
            if bool((error <= 2 * tolerance * peak).all()):
                break
            enough = [False] * len(box)
        counts = [n if e else 2 * n for e, n in zip(enough, counts, strict=True)]
    else:
        return None
    if torch.is_grad_enabled() and any(p.requires_grad for p in parameters):
        spectrum = _transform(_sample(kernel, parameters, radius, box, counts), counts)
    return _crop(spectrum, highest)


@torch.no_grad()
def _error(
    kernel: Callable[..., Tensor],
    parameters: Sequence[Tensor],
    series: Tensor,
    radius: Sequence[float],
    box: Sequence[float],
) -> Tensor:
    """Return how far a series is off at some odd places, (C,)."""
    # Multiples of irrational numbers, modulo 1: spread over the kernel, and on no grid.
    steps = torch.arange(1, _ODD + 1, dtype=torch.float64)[:, None]
    irrational = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)[: len(box)].sqrt()
    places = (2 * ((steps * irrational) % 1) - 1) * torch.tensor(list(radius)).double()
    found = series
    for a, edge in enumerate(box):
        m = series.shape[a + 1] // 2
        phase = 2 * math.pi / edge * places[:, a, None] * torch.arange(-m, m + 1)
        wave = torch.exp(1j * phase)  # (P, M_a)
        found = torch.einsum("cm...,pm->pc..." if a == 0 else "pcm...,pm->pc...", found, wave)
    return (found.real - kernel(places, *parameters)).abs().amax(dim=0)


@torch.no_grad()
def _vanishes(
    kernel: Callable[..., Tensor],
    parameters: Sequence[Tensor],
    radius: Sequence[float],
    tolerance: float,
) -> bool:
    """Tell whether K is nothing where it ends, as far as a coarse look tells."""
    axes = [torch.linspace(-r, r, 33, dtype=torch.float64) for r in radius]
    inner = _evaluate(kernel, parameters, axes)
    peak = inner.abs().amax(dim=0)
    for a in range(len(axes)):
        face = [axis[[0, -1]] if i == a else axis for i, axis in enumerate(axes)]
        edge = _evaluate(kernel, parameters, face).abs().amax(dim=0)
        if not bool((edge <= tolerance * peak).all()):
            return False
    return True


def _evaluate(
    kernel: Callable[..., Tensor], parameters: Sequence[Tensor], axes: Sequence[Tensor]
) -> Tensor:
    """Return K on the grid spanned by offsets: (P, C)."""
    return kernel(coordinate_grid(axes).flatten(0, -2), *parameters)


def _sample(
    kernel: Callable[..., Tensor],
    parameters: Sequence[Tensor],
    radius: Sequence[float],
    box: Sequence[float],
    counts: Sequence[int],
) -> Tensor:
    """Return K at the multiples of L/n within its radius: (C, *R), lag zero in the middle."""
    axes = []
    for r, edge, n in zip(radius, box, counts, strict=True):
        reach = min(math.floor(r * n / edge), (n - 1) // 2)
        steps = torch.arange(-reach, reach + 1, dtype=torch.float64)
        axes.append(steps * (edge / n))
    values = _evaluate(kernel, parameters, axes)
    return values.T.reshape(-1, *(len(axis) for axis in axes))


def _transform(values: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the discrete Fourier transform of samples around lag zero: (C, *R) -> (C, *n)."""
    sizes = values.shape[1:]
    padding: list[int] = []
    for size, n in reversed(
        list(zip(sizes, counts, strict=True))
    ):  # F.pad begins with the last axis
        padding += [0, n - size]
    dims = list(range(1, values.ndim))
    padded = F.pad(values.double(), padding)
    shifts = [-(size // 2) for size in sizes]
    around_zero = torch.roll(padded, shifts, dims)
    spectrum: Tensor = torch.fft.fftn(around_zero, dim=dims, norm="forward")
    return spectrum


def _highest(spectrum: Tensor, allowed: Tensor) -> list[int]:
    """Return per axis the frequency above which all |c| add up to what is allowed, (C,)."""
    size = spectrum.abs()
    highest = []
    for a in range(1, spectrum.ndim):
        others = [d for d in range(1, spectrum.ndim) if d != a]
        along = size.sum(dim=others) if others else size  # (C, n)
        n = along.shape[1]
        frequency = torch.arange(n)
        frequency = torch.minimum(frequency, n - frequency)
        sums = along.new_zeros(len(along), n // 2 + 1).index_add_(1, frequency, along)
        from_here_on = sums.flip(1).cumsum(dim=1).flip(1)
        needed = ~(from_here_on <= allowed[:, None]).all(dim=0)
        highest.append(max(int(needed.sum()) - 1, 0))
    return highest


def _crop(spectrum: Tensor, highest: Sequence[int]) -> Tensor:
    """Keep the frequencies -m … m of each axis, in this order."""
    for a, m in enumerate(highest, start=1):
        kept = torch.arange(-m, m + 1) % spectrum.shape[a]
        spectrum = spectrum.index_select(a, kept)
    return spectrum
