"""Convolution of scattered samples by non-uniform FFTs, where the kernel ends smoothly.

With the kernel's Fourier series on a box of edge L (`ccnn.ops.series`),

    y_i = Σ_j K(p_j - q_i) v_j = Σ_k c_k exp(-2πi k q_i/L) Σ_j exp(2πi k p_j/L) v_j,

a transform of type 1, a product and one of type 2: time grows with the number of points and of
frequencies, not of pairs. The transforms are finufft's (Barnett, Magland & af Klinteberg 2019,
https://finufft.readthedocs.io), on the CPU and in double precision: in single precision the phases
of a thousand frequencies are off by 1e-4 already.
"""

import importlib
import importlib.util
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ccnn.ops.conv import differentiable_gradients, has_own_gradient
from ccnn.ops.stretches import Stretches


def is_installed() -> bool:
    """Return whether finufft is there."""
    return importlib.util.find_spec("finufft") is not None


def convolve_by_series(
    values: Tensor,
    series: Tensor,
    stretches: Stretches,
    *,
    out_channels: int | None,
    tolerance: float,
) -> Tensor:
    """Return Σ_j K(p_j - q_i) v_j for a kernel given by its Fourier series.

    Parameters
    ----------
    values
        v, the samples of all signals.
    series
        Of `ccnn.ops.series.fourier_series`, on the box of the stretches.
    stretches
        Where samples and outputs lie.
    out_channels
        As for `ccnn.ops.convolve_points`.
    tolerance
        The relative error of each transform.

    Shapes
    ------
    values : (C_in, B·N)
    series : (C_in, *M) or (C_out · C_in, *M), complex128
    result : (C_in, B·M) or (C_out, B·M), of the values' dtype
    """
    modes = tuple(series.shape[1:])
    channels = (out_channels or len(values), len(values))
    if out_channels is not None:
        series = series.view(out_channels, len(values), *modes)
    waves = _Waves(stretches, modes, tolerance, channels)
    straight, mirrored = _packed(series, len(modes))
    if has_own_gradient(values):
        # torch does not type `apply`.
        y: Tensor = _Convolution.apply(  # type: ignore[no-untyped-call]
            values, straight, mirrored, waves
        )
        return y
    return waves.plain(values, straight, mirrored)


def _packed(series: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return what to multiply the spectrum of two real channels in one complex one with.

    A complex sample v₁ + i v₂ holds two channels, and halves the work. Its spectrum f, with its
    mirror image f'_k = conj(f_-k), gives back F₁ = (f + f')/2 and F₂ = (f - f')/2i, and wanted is
    c₁F₁ + i c₂F₂ = f (c₁ + c₂)/2 + f' (c₁ - c₂)/2. A dense kernel has such a sum for each pair of
    pairs.

    Shapes
    ------
    series : (C, *M) or (C_out, C_in, *M), M of them ``dim`` axes
    result : twice (C/2, *M) or (C_out/2, C_in/2, *M), an odd number of channels rounded up
    """
    if series.ndim == dim + 1:
        first, second = _halves(series, 0)
        return (first + second) / 2, (first - second) / 2
    upper, lower = _halves(series, 0)  # of the outputs
    first, second = _halves(upper + 1j * lower, 1)  # of the inputs
    return (first - 1j * second) / 2, (first + 1j * second) / 2


def _halves(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return every first and every second slice along an axis; zeros where the last has no mate."""
    if x.shape[axis] % 2:
        x = torch.cat([x, torch.zeros_like(x.narrow(axis, 0, 1))], dim=axis)
    first, second = torch.unflatten(x, axis, (-1, 2)).unbind(dim=axis + 1)
    return first, second


class _Waves(NamedTuple):
    """The convolution, stretch by stretch, and its gradients."""

    stretches: Stretches
    modes: tuple[int, ...]
    tolerance: float
    channels: tuple[int, int]  # of the output and of the input

    def forward(self, values: Tensor, straight: Tensor, mirrored: Tensor) -> Tensor:
        """(C_in, B·N) -> (C_out, B·M)."""
        y = values.new_zeros(self.channels[0], len(self.stretches.outputs))
        for seen, own in self.stretches:
            part = self._stretch(values.index_select(1, seen), straight, mirrored, seen, own)
            y.index_copy_(1, own, part.to(y.dtype))
        return y

    def plain(self, values: Tensor, straight: Tensor, mirrored: Tensor) -> Tensor:
        """As forward with torch's own gradients, which keep every spectrum."""
        y = values.new_zeros(self.channels[0], len(self.stretches.outputs))
        for seen, own in self.stretches:
            part = self._stretch(values.index_select(1, seen), straight, mirrored, seen, own)
            y = y.index_copy(1, own, part.to(y.dtype))
        return y

    def _stretch(
        self, values: Tensor, straight: Tensor, mirrored: Tensor, seen: Tensor, own: Tensor
    ) -> Tensor:
        from_here, to_here = self.stretches.angles(seen, own)
        # torch does not type `apply`.
        spectrum = _ToModes.apply(  # type: ignore[no-untyped-call]
            _pack(values), from_here, self.modes, self.tolerance
        )
        product = _multiply(spectrum, straight, mirrored)
        # torch does not type `apply`.
        y = _FromModes.apply(product, to_here, self.tolerance)  # type: ignore[no-untyped-call]
        return _unpack(y, self.channels[0])

    def gradients(
        self, grad: Tensor, values: Tensor, straight: Tensor, mirrored: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of forward's arguments; the spectra are computed again."""
        of_values = torch.zeros_like(values)
        totals = [torch.zeros_like(straight), torch.zeros_like(mirrored)]
        for seen, own in self.stretches:
            from_here, to_here = self.stretches.angles(seen, own)
            v, g = values.index_select(1, seen), grad.index_select(1, own)
            spectrum = to_modes(_pack(v), from_here, self.modes, self.tolerance)
            outer = to_modes(_pack(g), to_here, self.modes, self.tolerance)
            leaves = [t.detach().requires_grad_() for t in (spectrum, straight, mirrored)]
            with torch.enable_grad():
                product = _multiply(*leaves)
            inner, *found = torch.autograd.grad(product, leaves, outer)
            for total, part in zip(totals, found, strict=True):
                total += part
            part = _unpack(from_modes(inner, from_here, self.tolerance), self.channels[1])
            of_values.index_add_(1, seen, part.to(of_values.dtype))
        return of_values, totals[0], totals[1]


def _pack(values: Tensor) -> Tensor:
    """(C, P) -> (C/2, P), two real channels in each complex one."""
    return torch.complex(*_halves(values.double(), 0))


def _unpack(values: Tensor, channels: int) -> Tensor:
    """(C/2, P) -> (C, P)."""
    return torch.view_as_real(values).transpose(1, 2).flatten(0, 1)[:channels]


def _multiply(spectrum: Tensor, straight: Tensor, mirrored: Tensor) -> Tensor:
    """See `_packed`: (C_in/2, *M) -> (C_out/2, *M)."""
    mirror = spectrum.flip(list(range(1, spectrum.ndim))).conj()
    if straight.ndim == spectrum.ndim:
        return spectrum * straight + mirror * mirrored
    return torch.einsum("oi...,i...->o...", straight, spectrum) + torch.einsum(
        "oi...,i...->o...", mirrored, mirror
    )


class _Convolution(torch.autograd.Function):
    """The whole convolution, which keeps no spectra for the gradient."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, straight: Tensor, mirrored: Tensor, waves: _Waves
    ) -> Tensor:
        ctx.save_for_backward(values, straight, mirrored)
        ctx.waves = waves
        return waves.forward(values, straight, mirrored)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants second derivatives
            return *differentiable_gradients(ctx.waves.plain(*inputs), inputs, grad), None
        return *ctx.waves.gradients(grad.contiguous(), *inputs), None


class _ToModes(torch.autograd.Function):
    """`to_modes`, whose adjoint is `from_modes` at the same places."""

    @staticmethod
    def forward(values: Tensor, angles: Tensor, modes: tuple[int, ...], tolerance: float) -> Tensor:
        return to_modes(values, angles, modes, tolerance)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.tolerance = inputs[3]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (angles,) = ctx.saved_tensors
        # torch does not type `apply`.
        values = _FromModes.apply(grad, angles, ctx.tolerance)  # type: ignore[no-untyped-call]
        return values, None, None, None


class _FromModes(torch.autograd.Function):
    """`from_modes`, whose adjoint is `to_modes` at the same places."""

    @staticmethod
    def forward(coefficients: Tensor, angles: Tensor, tolerance: float) -> Tensor:
        return from_modes(coefficients, angles, tolerance)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.modes, ctx.tolerance = tuple(inputs[0].shape[1:]), inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (angles,) = ctx.saved_tensors
        # torch does not type `apply`.
        coefficients = _ToModes.apply(  # type: ignore[no-untyped-call]
            grad, angles, ctx.modes, ctx.tolerance
        )
        return coefficients, None, None


def to_modes(values: Tensor, angles: Tensor, modes: tuple[int, ...], tolerance: float) -> Tensor:
    """Σ_j exp(i k·θ_j) v_j, type 1: (T, P), (P, D) -> (T, *M)."""
    plan = _plan(1, modes, len(values), tolerance, 1, angles)
    return torch.from_numpy(plan.execute(_array(values))).view(len(values), *modes)


def from_modes(coefficients: Tensor, angles: Tensor, tolerance: float) -> Tensor:
    """Σ_k exp(-i k·θ_j) c_k, type 2: (T, *M), (P, D) -> (T, P)."""
    count, *modes = coefficients.shape
    plan = _plan(2, tuple(modes), count, tolerance, -1, angles)
    return torch.from_numpy(plan.execute(_array(coefficients))).view(count, -1)


def _plan(
    kind: int, modes: tuple[int, ...], count: int, tolerance: float, sign: int, angles: Tensor
) -> Any:
    finufft = importlib.import_module("finufft")
    plan = finufft.Plan(
        kind,
        modes,
        n_trans=count,
        eps=tolerance,
        isign=sign,
        dtype="complex128",
        nthreads=torch.get_num_threads(),
    )
    plan.setpts(*(_array(axis) for axis in angles.T))
    return plan


def _array(x: Tensor) -> Any:
    return x.detach().resolve_conj().contiguous().numpy()
