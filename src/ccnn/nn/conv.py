"""Continuous convolutions: a kernel network, a window and a convolution meet here."""

import abc
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ccnn.domain import Domain, Grid, Points, as_domain
from ccnn.nn.cache import Cache, refuse_training
from ccnn.nn.init import Init, gabor_spread, initialise_
from ccnn.nn.kernels import AbstractKernelNet, MAGNet
from ccnn.nn.masks import GaussianMask, default_sigma
from ccnn.nn.pointwise import Pointwise
from ccnn.nn.reach import Reach, read_radii, read_reaches
from ccnn.nn.sampling import sample_kernel
from ccnn.nn.scattered import OffsetKernel, as_query, convolve_scattered
from ccnn.nn.signal import check_signal, check_size, lay, signal_axes, weights_of
from ccnn.ops import grids
from ccnn.ops.affine import Affine
from ccnn.ops.branch import mix
from ccnn.ops.conv import Engine, convolve, prepare
from ccnn.ops.lowpass import oversampling


class AbstractContinuousConv(nn.Module, abc.ABC):
    """A convolution whose kernel is a function of position: K(c) = G(c) · w(c).

    The final classes say whether there is one kernel per channel or one per pair of channels,
    and whether there is a window; all take the same arguments.

    Parameters
    ----------
    in_channels, out_channels
        As in ``nn.Conv1d``.
    size
        The training size of the signal, one number per axis; its length is D.
    kernel_size
        ``"same"`` (as large as the signal), ``"full"`` (2·size - 1), or odd integers.
    kernel
        The kernel network, a `MAGNet` unless given. Its last layer, and its frequencies where
        its ``omega_0`` is ``"auto"``, are fitted to this layer's grid here, once.
    mask
        The window, a `GaussianMask` with σ = max(0.075, 2/(K-1)) unless given.
    causal
        Whether output t sees inputs up to and including t only. D = 1.
    init
        ``"energy"`` (each output channel's kernel has Σk² = gain²), ``"authors"`` (the
        reference implementation's rule) or ``"none"``.
    gain
        See ``init``.
    lowpass
        On a grid coarser than the training grid, take from the kernel what that grid cannot hold,
        before it is sampled there (`ccnn.ops.lowpass`). At points it changes nothing.

    Shapes
    ------
    x : (B, C_in, *S), or (B, C_in, N) at `ccnn.Points`
    result : (B, C_out, *S), or (B, C_out, N)
    """

    depthwise: ClassVar[bool]
    windowed: ClassVar[bool]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        size: Sequence[int],
        kernel_size: grids.KernelSize = "same",
        kernel: AbstractKernelNet | None = None,
        mask: GaussianMask | None = None,
        causal: bool = False,
        init: Init = "energy",
        gain: float = 1.0,
        lowpass: bool = False,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.size = check_size(size)
        self.dim = len(self.size)
        if causal and self.dim != 1:
            raise ValueError(f"causal needs one axis (D = 1), but size is {self.size}")
        self.causal = causal
        self.lowpass = lowpass
        self.kernel_size = grids.resolve_kernel_size(self.size, kernel_size, causal=causal)
        self.mask = self._default_mask() if mask is None else self._checked(mask)
        self.kernel = self._default_kernel() if kernel is None else kernel
        self.bias = nn.Parameter(torch.zeros(in_channels if self.depthwise else out_channels))
        self.mix = Pointwise(in_channels, out_channels) if self.depthwise else None
        self.cache: Cache | None = None
        self._check_kernel()
        initialise_(
            self.kernel,
            self.mask,
            self.kernel_size,
            sample=self.sampled_kernel,
            init=init,
            gain=gain,
            fan_in=1 if self.depthwise else in_channels,
            causal=causal,
        )

    @property
    def kernel_count(self) -> int:
        """How many kernels the network makes: one per channel, or one per pair."""
        return self.in_channels * (1 if self.depthwise else self.out_channels)

    def _default_mask(self) -> GaussianMask | None:
        if not self.windowed:
            return None
        return GaussianMask(self.dim, sigma=[default_sigma(k) for k in self.kernel_size])

    def _default_kernel(self) -> AbstractKernelNet:
        if self.mask is None:
            return MAGNet(self.dim, self.kernel_count)
        return MAGNet(
            self.dim,
            self.kernel_count,
            spread=gabor_spread(self.mask.sigma.tolist()),
            causal=self.causal,
        )

    def _checked(self, mask: GaussianMask) -> GaussianMask:
        if not self.windowed:
            raise ValueError(f"{type(self).__name__} has no window; FlexConv takes a mask")
        if mask.dim != self.dim:
            raise ValueError(f"mask has dim={mask.dim}, but size {self.size} needs dim={self.dim}")
        return mask

    def _check_kernel(self) -> None:
        if self.kernel.dim != self.dim or self.kernel.out_channels != self.kernel_count:
            raise ValueError(
                f"kernel is a network for dim={self.kernel.dim}, "
                f"out_channels={self.kernel.out_channels}; this layer, of size {self.size}, needs "
                f"dim={self.dim}, out_channels={self.kernel_count}"
            )

    def oversampling(self, spacing: Sequence[float]) -> tuple[int, ...]:
        """Return how many times as finely the kernel is sampled as the signal, on each axis."""
        return tuple(oversampling(s) if self.lowpass else 1 for s in spacing)

    def reach(self, spacing: Sequence[float]) -> tuple[int, ...]:
        """Return the furthest offset at which the kernel network is asked, on each axis.

        In current samples, or in the finer ones of `oversampling`.
        """
        return read_reaches([self], spacing)[0]

    def sampled_kernel(
        self, spacing: float | Sequence[float] = 1.0, *, reach: Reach | None = None
    ) -> Tensor:
        """Return the kernel this layer uses now, on a grid of the given spacing.

        It includes the window and the factor spacing^D of Eq. (1), and stops where the window
        is cut (rounded up to a bucket, the rest being zeros), or where its low-pass ends.

        Shapes
        ------
        result : (C_in, *K) if depthwise, else (C_out, C_in, *K)
        """
        spacings = Grid(spacing).spacings(self.dim)
        kernel = sample_kernel(
            self.kernel,
            self.mask,
            self.kernel_size,
            spacings=spacings,
            finer=self.oversampling(spacings),
            reach=self.reach(spacings) if reach is None else [int(n) for n in reach],
            causal=self.causal,
        )
        if self.depthwise:
            return kernel
        return kernel.reshape(self.out_channels, self.in_channels, *kernel.shape[1:])

    @torch.no_grad()
    def engine(self, x: Tensor, spacings: Sequence[float], cache: Cache) -> Engine:
        """Return the convolution with the current kernel for signals like x, kept in a cache."""
        key = (tuple(spacings), tuple(x.shape[2:]), x.dtype, x.device)
        engine: Engine = cache.get(
            key, lambda: prepare(self.sampled_kernel(spacings), x, causal=self.causal)
        )
        return engine

    def _convolve(
        self, x: Tensor, domain: Domain, reach: Reach | None, query: Tensor | None
    ) -> Tensor:
        if isinstance(domain, Points):
            return convolve_scattered(
                x,
                domain,
                query,
                OffsetKernel(self.kernel, self.mask, self.kernel_size, causal=self.causal),
                radius=read_radii([self])[0] if reach is None else reach,
                out_channels=None if self.depthwise else self.out_channels,
                causal=self.causal,
            )
        spacings = domain.spacings(self.dim)
        if torch.is_autocast_enabled(x.device.type) or (cache := self.cache) is None:
            kernel = self.sampled_kernel(spacings, reach=reach)
            return convolve(x, kernel, causal=self.causal)
        return self.engine(x, spacings, cache).apply(x)

    def forward(
        self,
        x: Tensor,
        domain: Domain | None = None,
        *,
        query: Tensor | None = None,
        reach: Reach | None = None,
        then: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """(B, C_in, *S) -> (B, C_out, *S), or (B, C_out, M) at the positions ``query`` (B, M, D).

        ``reach`` is what `read_reaches`, or `read_radii` for points, gave for this layer, where
        several were read at once; ``then`` is a scale and a shift of the output channels, (C_out,)
        each.
        """
        domain = as_domain(domain)
        check_signal(x, self.in_channels, signal_axes(domain, self.dim), self.bias)
        domain = lay(domain, x, self.dim, causal=self.causal)
        query = None if query is None else as_query(query, domain)
        if self.cache is None:
            return self._run(x, domain, query, reach, then)
        refuse_training(self.training)
        with torch.no_grad():
            return self._run(x, domain, query, reach, then)

    def _run(
        self,
        x: Tensor,
        domain: Domain,
        query: Tensor | None,
        reach: Reach | None,
        then: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        if domain.mask is not None:
            x = torch.where(domain.mask, x, 0.0)
        if isinstance(domain, Grid) and (weights := weights_of(domain)) is not None:
            x = (x * weights).to(x.dtype)
        y = self._convolve(x, domain, reach, query)
        if then is not None and self.mix is not None:
            scale, shift = then
            bias = self.mix.bias + self.mix.weight @ self.bias
            return mix(y, self.mix.weight * scale[:, None], bias * scale + shift)
        y = y + self.bias.view(-1, *(1,) * (y.ndim - 2))
        y = y if self.mix is None else self.mix(y)
        return y if then is None else Affine(*then)(y)

    def extra_repr(self) -> str:
        """Return the settings shown by ``print``."""
        return (
            f"{self.in_channels}, {self.out_channels}, size={self.size}, "
            f"kernel_size={self.kernel_size}, causal={self.causal}"
        )


class SeparableFlexConv(AbstractContinuousConv):
    """A depthwise convolution with a windowed continuous kernel, then mixing of channels.

    y = W (K ⋆ x + b') + b,  K(c) = G(c) · w(c)

    §3 "Depthwise separable continuous kernel convolutions". The kernel network has
    ``in_channels`` outputs. Arguments and shapes as for `AbstractContinuousConv`.
    """

    depthwise = True
    windowed = True


class FlexConv(AbstractContinuousConv):
    """A dense convolution with a windowed continuous kernel, of learned size.

    y = K ⋆ x + b,  K(c) = G(c) · w(c)    (Romero et al. 2022, FlexConv)

    The kernel network has out_channels · in_channels outputs, the output channel being the
    slow index. Arguments and shapes as for `AbstractContinuousConv`.
    """

    depthwise = False
    windowed = True


class CKConv(AbstractContinuousConv):
    """A dense convolution with a continuous kernel and no window.

    y = G ⋆ x + b    (Romero et al. 2022, CKConv)

    Arguments and shapes as for `AbstractContinuousConv`; ``mask`` stays None.
    """

    depthwise = False
    windowed = False
