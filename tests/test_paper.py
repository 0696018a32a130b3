"""The paper's claims, as tests: Eq. (1), Var(y) = Var(x), parameters free of length, causality.

And one of the project's own: importing it costs little more than importing torch.
"""

import gzip
import itertools
import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import ccnn
from ccnn import CCNN, Grid, create_model
from ccnn.nn import SIREN, CKConv, FlexConv, GaussianMask, MAGNet, SeparableFlexConv
from ccnn.ops.plan import Plan

# --- Eq. (1): equivalent responses across resolutions --------------------------------------------
#
# A kernel and a signal are functions; a layer sees samples of both. At refinement n the kernel has
# 6n + 1 training samples and the signal `extent`·n + 1 of them per axis, so that their extents keep
# their ratio, and the response at spacing s and at spacing 1 are two Riemann sums of one integral.
# Two such sums differ by O(h) where the integrand ends abruptly, because a sample at the end counts
# fully and not half: at the ends of a kernel without a window, at the cut of a window, at lag zero
# of a causal kernel. Where it vanishes smoothly, they differ by less than any power of h.

Make = Callable[[int], torch.nn.Module]


def smooth_signal(axes: list[Tensor], channels: int = 2) -> Tensor:
    """A wave packet per channel on [0, 1]^D, below 1e-9 at the borders: (1, C, *S)."""
    packets = []
    for c in range(channels):
        packet = torch.ones((), dtype=torch.float64)
        for d, u in enumerate(axes):
            middle = 0.5 + 0.04 * c - 0.03 * d
            wave = torch.exp(-(((u - middle) / 0.1) ** 2)) * torch.cos((5 + 2 * c + d) * u + 0.4)
            packet = packet.unsqueeze(-1) * wave
        packets.append(packet)
    return torch.stack(packets)[None]


def layer(kind, dim, extent, *, causal=False, sigma=None, threshold=1e-12) -> Make:
    """Return how to build a layer at refinement n; its kernel is well below Nyquist at any."""

    def make(n: int) -> torch.nn.Module:
        count = 2 if kind is SeparableFlexConv else 4
        spread = 1.0 if sigma is None else 0.2
        kernel = MAGNet(dim, count, hidden=8, band=0.3, spread=spread, causal=causal)
        windowed = kind is not CKConv
        return kind(
            2,
            2,
            size=(extent * n + 1,) * dim,
            kernel_size=6 * n + 1,
            kernel=kernel,
            mask=GaussianMask(dim, sigma=sigma, threshold=threshold) if windowed else None,
            causal=causal,
        )

    return make


def difference(module, extent: int, n: int, spacing: tuple[float, ...], told=None) -> float:
    """Return max |y_s - y_1| / max |y_1| over the positions that both grids have."""

    def response(grid, told):
        axes = [
            torch.arange(round(extent * n / s) + 1, dtype=torch.float64) * s / (extent * n)
            for s in grid
        ]
        with torch.no_grad():
            return module(smooth_signal(axes), Grid(told))

    one, other = (1.0,) * len(spacing), spacing if told is None else told
    expected, result = response(one, one), response(spacing, other)
    for axis, s in enumerate(spacing, start=2):
        at = torch.arange(0, extent * n + 1, max(round(s), 1))
        expected = expected.index_select(axis, at)
        result = result.index_select(axis, (at / s).round().long())
    return ((result - expected).abs().max() / expected.abs().max()).item()


def measure(make: Make, extent: int, refinements, spacing, told=None) -> list[float]:
    """Return the difference at every refinement, for one and the same function as the kernel."""
    state = make(refinements[0]).double().state_dict()
    errors = []
    for n in refinements:
        refined = make(n).double().eval()
        refined.load_state_dict(state)  # which has no trace of the kernel size
        errors.append(difference(refined, extent, n, spacing, told))
    return errors


def order(refinements, errors) -> float:
    """Return p of the fit error ~ n^-p."""
    slope, _ = np.polyfit(np.log(refinements), np.log(errors), 1)
    return -float(slope)


ONE_D = [(0.5,), (2.0,), (3.0,)]
TWO_D = [(0.5, 0.5), (2.0, 2.0), (3.0, 3.0), (1.0, 2.0), (0.5, 2.0)]
THREE_D = [(2.0,) * 3, (3.0,) * 3, (1.0, 2.0, 1.0)]
THREE_D_FINER = [(0.5,) * 3, (0.5, 1.0, 2.0)]  # on coarser grids, or else they take minutes
SMOOTH = [
    (1, 12, (2, 3, 4), (0.5,)),  # finer ones are at the floor
    *((1, 12, (4, 6, 8, 12), spacing) for spacing in ONE_D[1:]),
    *((2, 12, (4, 6, 8), spacing) for spacing in TWO_D),
    *((3, 6, (4, 6, 8), spacing) for spacing in THREE_D),
    *((3, 6, (2, 4, 6), spacing) for spacing in THREE_D_FINER),
]


@pytest.mark.parametrize(("dim", "extent", "refinements", "spacing"), SMOOTH, ids=str)
def test_eq_1_converges_fast_where_window_and_signal_vanish_smoothly(
    dim, extent, refinements, spacing, record_property
):
    """σ = 0.15: the window is at 2e-10 where the kernel ends, which is the floor of the errors.

    A Gaussian sampled at distances h is summed with an error of exp(-c/h²), which beats any power:
    a shift by a fraction of a sample, a lost factor or an end counted twice would leave 1 or 0.
    """
    make = layer(SeparableFlexConv, dim, extent, sigma=0.15)
    errors = measure(make, extent, refinements, spacing)
    record_property("errors", errors)
    assert order(refinements, errors) > 4
    assert errors[-1] < 0.02


FIRST_ORDER = {
    **{
        f"no window, {s}": (layer(CKConv, len(s), 12), 12, n, s)
        for spacings, n in ((ONE_D, (4, 8, 16, 32)), (TWO_D, (4, 8, 16)))
        for s in spacings
    },
    **{
        f"no window, causal, {s}": (layer(CKConv, 1, 12, causal=True), 12, (4, 8, 16, 32), s)
        for s in ONE_D
    },
    **{
        f"window, causal, {s}": (
            layer(SeparableFlexConv, 1, 12, causal=True, sigma=0.3),
            12,
            (16, 32, 64),
            s,
        )
        for s in ONE_D
    },
    # The default threshold cuts at 2.146 σ; σ is such that the cut always falls just behind the
    # sample at 2n, which all spacings have, as n is divisible by 3. It would jump about elsewhere.
    **{
        f"cut window, {s}": (
            layer(FlexConv, 1, 12, sigma=1.001 * 2 / 3 / 2.14597, threshold=0.1),
            12,
            (6, 12, 24, 48),
            s,
        )
        for s in ONE_D
    },
    **{f"no window, {s}": (layer(CKConv, 3, 6), 6, (4, 6, 8), s) for s in THREE_D},
    **{f"no window, {s}": (layer(CKConv, 3, 6), 6, (2, 4, 6), s) for s in THREE_D_FINER},
}


@pytest.mark.parametrize(
    ("make", "extent", "refinements", "spacing"), FIRST_ORDER.values(), ids=FIRST_ORDER
)
def test_eq_1_converges_with_first_order_where_the_integrand_ends_abruptly(
    make, extent, refinements, spacing, record_property
):
    errors = measure(make, extent, refinements, spacing)
    record_property("errors", errors)
    assert all(later < earlier for earlier, later in itertools.pairwise(errors))
    # 1 in the limit. Three or four refinements show some of the second order, too.
    assert order(refinements, errors) == pytest.approx(1.0, abs=0.3)


def test_eq_1_holds_for_the_whole_network():
    """What is between the convolutions acts at each position alone, so it changes nothing."""

    def make(n: int) -> CCNN:
        return CCNN(
            2,
            3,
            (12 * n + 1,),
            kernel_size=6 * n + 1,
            blocks=2,
            channels=4,
            kernel_channels=4,
            mask_sigma=0.3,
            band=0.3,
            head="none",
            causal=True,
        )

    refinements = (8, 16, 32, 64)
    errors = measure(make, 12, refinements, (2.0,))
    assert order(refinements, errors) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("spacing", [(0.5,), (2.0,), (3.0,), (0.5, 2.0)])
def test_eq_1_needs_the_spacing(spacing):
    """The control: the same samples, without saying that they are further apart."""
    make = layer(SeparableFlexConv, len(spacing), 12, sigma=0.15)
    errors = measure(make, 12, (4, 8), spacing, told=(1.0,) * len(spacing))
    assert min(errors) > 0.3


# --- §3 "Proper initialization": Var(y) = Var(x) -------------------------------------------------


@pytest.fixture(scope="module")
def digits(data_root) -> Tensor:
    """Eight test digits of MNIST, normalised as usual: (8, 1, 28, 28)."""
    path = data_root / "MNIST" / "raw" / "t10k-images-idx3-ubyte.gz"
    if not path.is_file():
        pytest.skip(f"no MNIST at {path}")
    with gzip.open(path) as file:
        header = np.frombuffer(file.read(16), dtype=">i4")
        assert header.tolist() == [2051, 10_000, 28, 28]
        pixels = np.frombuffer(file.read(8 * 28 * 28), dtype=np.uint8)
    images = torch.from_numpy(pixels.copy()).view(8, 1, 28, 28).float() / 255
    return (images - 0.1307) / 0.3081


@pytest.fixture(scope="module")
def white_noise() -> Tensor:
    return torch.randn(8, 1, 28, 28, generator=torch.Generator().manual_seed(0))


def stds_after_blocks(model: CCNN, x: Tensor) -> tuple[list[float], float]:
    """Return the standard deviation after every block, and that of the logits."""
    stds: list[float] = []
    for block in model.blocks:
        block.register_forward_hook(lambda _, given, y: stds.append(y.std().item()))
    with torch.no_grad():
        return stds, model(x).std().item()


@pytest.mark.parametrize("source", ["white_noise", "digits"])
@pytest.mark.parametrize(
    "geometry",
    [{"size": (784,), "causal": True}, {"size": (28, 28)}],
    ids=["784 causal", "28 x 28"],
)
@pytest.mark.parametrize(
    "omega_0", ["auto", 2976.49], ids=["auto", "the paper's omega_0 for sMNIST"]
)
@pytest.mark.parametrize("name", ["ccnn_4_140", "ccnn_6_380"])
def test_the_signal_keeps_its_size_through_a_fresh_network(
    name, omega_0, geometry, source, request, record_property
):
    """As at the first training step, so with batch statistics."""
    x = request.getfixturevalue(source)
    model = create_model(name, in_channels=1, out_channels=10, omega_0=omega_0, **geometry)
    stds, logits = stds_after_blocks(model, x.view(8, 1, *geometry["size"]))
    record_property("std after each block", [round(s, 3) for s in stds])
    record_property("std of the logits", round(logits, 3))
    assert len(stds) == int(name.split("_")[1])
    assert all(0.3 <= s <= 3 for s in stds), f"after each block: {[round(s, 2) for s in stds]}"


def dense_stack(kind: str, init: str, activation) -> list[float]:
    """Return std after each of four dense layers of 16 channels, without normalisation."""
    x = torch.randn(4, 16, 256)
    stds = []
    for _ in range(4):
        if kind == "CKCNN":
            conv = CKConv(16, 16, size=(256,), kernel=SIREN(1, 256), causal=True, init=init)
        else:
            conv = FlexConv(16, 16, size=(256,), causal=True, init=init)
        with torch.no_grad():
            x = activation(conv(x))
        stds.append(x.std().item())
    return stds


@pytest.mark.parametrize("activation", [F.relu, F.gelu], ids=["relu", "gelu"])
@pytest.mark.parametrize("kind", ["CKCNN", "FlexNet"])
def test_without_the_rule_dense_networks_grow_by_orders_of_magnitude(
    kind, activation, record_property
):
    """The paper saw logits of 1e19. The variance grows by in_channels · kernel_size per layer."""
    wild = dense_stack(kind, "none", activation)
    tame = dense_stack(kind, "energy", activation)
    record_property("without", wild)
    record_property("with", tame)
    assert all(b / a > 10 for a, b in itertools.pairwise(wild))
    assert wild[-1] > 1e4
    # With gain 1 a ReLU takes a third away, and smooth kernels give more to signals that they have
    # smoothed before than to noise.
    assert all(0.25 < b / a < 4 for a, b in itertools.pairwise([1.0, *tame]))


@pytest.mark.parametrize(
    ("init", "expected"), [("none", 1.0), ("energy", 0.0)], ids=["none", "energy"]
)
@pytest.mark.parametrize("what", ["kernel_size", "in_channels"])
def test_variance_grows_with_kernel_size_and_channels_only_without_the_rule(what, init, expected):
    """Var(y)/Var(x) ~ (in_channels · kernel_size)^p; p is 1 without the rule and 0 with it."""
    sizes = (33, 129, 513) if what == "kernel_size" else (2, 8, 32)
    gains = []
    for size in sizes:
        taps, channels = (size, 4) if what == "kernel_size" else (33, size)
        net = SIREN(1, 32 * channels)
        conv = CKConv(channels, 32, size=(taps,), kernel=net, init=init)
        with torch.no_grad():
            y = conv(torch.randn(8, channels, 3 * taps))[..., taps:-taps]  # away from the borders
        gains.append(y.var().item())
    slope, _ = np.polyfit(np.log(sizes), np.log(gains), 1)
    # A SIREN's kernels are smooth, so few of the outputs are independent: ±20 % in each variance.
    assert slope == pytest.approx(expected, abs=0.15)


# --- §2.1: parameters are independent of the length ----------------------------------------------


def test_parameters_do_not_depend_on_the_length():
    short, long = (CCNN(1, 10, (n,), causal=True, blocks=2) for n in (100, 10_000))
    shapes = {k: v.shape for k, v in short.state_dict().items()}
    assert {k: v.shape for k, v in long.state_dict().items()} == shapes
    assert long.stem.kernel_size == (10_000,)  # and yet the kernel is as long as the signal
    long.load_state_dict(short.state_dict())
    assert long.eval()(torch.randn(1, 1, 10_000)).isfinite().all()


# --- Causality -----------------------------------------------------------------------------------
#
# In eval mode: batch statistics run over all times, whatever the convolutions do.

CAUSAL = {"causal": True, "head": "none", "blocks": 2, "channels": 5, "kernel_channels": 4}


def per_position(size: int, **arguments) -> CCNN:
    return CCNN(1, 2, (size,), **CAUSAL, **arguments).eval()


def take_the_direct_way(monkeypatch) -> None:
    for module in (ccnn.ops.conv, ccnn.ops.branch):
        monkeypatch.setattr(module, "plan", lambda *_, **__: Plan("direct", {}))


@pytest.mark.parametrize("t", [0, 1, 19, 38])
def test_the_present_is_exactly_blind_to_the_future_where_kernels_are_direct(t, monkeypatch):
    take_the_direct_way(monkeypatch)
    model = per_position(40)
    x = torch.randn(3, 1, 40)
    y = model(x)
    for future in (torch.randn(3, 1, 39 - t), torch.full((3, 1, 39 - t), math.nan)):
        changed = torch.cat([x[..., : t + 1], future], dim=-1)
        assert torch.equal(model(changed)[..., : t + 1], y[..., : t + 1])


@pytest.mark.parametrize("t", [0, 1, 100, 198])
@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_the_present_is_blind_to_the_future_through_an_fft_but_for_rounding(t, dtype, rounding):
    model = per_position(200, mask_sigma=0.6).to(dtype)  # 129 taps
    x = torch.randn(3, 1, 200, dtype=dtype)
    changed = torch.cat([x[..., : t + 1], torch.randn(3, 1, 199 - t, dtype=dtype)], dim=-1)
    y, other = model(x), model(changed)
    # An FFT's rounding errors are relative to the largest value of the whole signal; a few layers.
    scale = max(y.abs().max(), other.abs().max())
    assert (other - y)[..., : t + 1].abs().max() / scale < 5 * rounding
    assert (other - y)[..., t + 1 :].abs().max() / scale > 1e-2


@pytest.mark.parametrize("spacing", [1.0, 2.0, 0.5])
def test_every_output_sees_all_of_the_past_the_present_and_nothing_else(spacing, monkeypatch):
    """By derivatives: ∂y_t/∂x_s is not zero for s ≤ t, lag zero included, and zero for s > t."""
    take_the_direct_way(monkeypatch)
    model = per_position(24, mask_sigma=5.0).double()
    x = torch.randn(1, 1, 24, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(
        lambda signal: model(signal, Grid(spacing))[0].sum(dim=0), x
    )[:, 0, 0]  # (24, 24)
    assert (jacobian.triu(diagonal=1) == 0).all()
    seen = jacobian.abs() > 0
    assert seen.diagonal().all()
    assert torch.equal(seen, torch.ones(24, 24, dtype=torch.bool).tril())


def test_a_centred_network_does_see_the_future():
    """The control of the above."""
    model = CCNN(1, 2, (40,), **{**CAUSAL, "causal": False}).eval()
    x = torch.randn(3, 1, 40)
    changed = torch.cat([x[..., :20], torch.randn(3, 1, 20)], dim=-1)
    assert (model(changed) - model(x))[..., :20].abs().max() > 1e-2


# --- The cost of the import ----------------------------------------------------------------------


def import_times() -> dict[str, int]:
    """Return the microseconds of `import torch`, then of `import ccnn`, all they import included.

    Torch is there when ccnn is imported, so ccnn's is its own modules and what they need beyond.
    """
    command = [sys.executable, "-X", "importtime", "-c", "import torch; import ccnn"]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    times = {}
    for line in report.splitlines():
        if not line.startswith("import time:") or "[us]" in line:
            continue
        _, total, name = line.removeprefix("import time:").split("|")
        if name.removeprefix(" ") in ("torch", "ccnn"):  # not indented: imported by the command
            times[name.strip()] = int(total)
    return times


def test_importing_ccnn_costs_little_more_than_importing_torch(record_property):
    runs = [import_times() for _ in range(3)]
    torch_time, ccnn_time = (min(run[name] for run in runs) for name in ("torch", "ccnn"))
    record_property("import ccnn / import torch", round(ccnn_time / torch_time, 4))
    assert ccnn_time <= 0.15 * torch_time
