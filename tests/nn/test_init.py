"""How layers start: Σk² = gain², the authors' rule by name, and frequencies fitted to the grid."""

import copy
import inspect
import math

import pytest
import torch
from torch import Tensor, nn

from ccnn import CCNN
from ccnn.nn import KERNELS, CKConv, FlexConv, FourierNet, GaussianMask, MAGNet, SeparableFlexConv
from ccnn.nn.init import authors_taps

LAYERS = [SeparableFlexConv, FlexConv, CKConv]
EVERY = [pytest.param(cls, id=name) for name, cls in KERNELS.items()]
OSCILLATING = [
    pytest.param(cls, id=name)
    for name, cls in KERNELS.items()
    if "omega_0" in inspect.signature(cls).parameters
]

# (kernel size per axis, causal)
GEOMETRIES = [
    ((5,), False),
    ((5,), True),
    ((33,), False),
    ((33,), True),
    ((257,), False),
    ((257,), True),
    ((1025,), False),
    ((1024,), True),
    ((5, 5), False),
    ((33, 33), False),
    ((5, 9), False),
    ((5, 5, 5), False),
    ((9, 9, 9), False),
]


def build(layer_cls, net_cls, kernel_size, *, causal=False, net_settings=None, **settings):
    """A layer of 3 to 2 channels with a small network of a given class."""
    kernels = 3 if layer_cls is SeparableFlexConv else 6
    net = net_cls(len(kernel_size), kernels, hidden=8, **(net_settings or {}))
    return layer_cls(
        3, 2, size=kernel_size, kernel_size=kernel_size, kernel=net, causal=causal, **settings
    )


def energy(layer) -> Tensor:
    """Σk² of each output channel; of each channel where depthwise."""
    return layer.sampled_kernel().detach().double().square().flatten(start_dim=1).sum(dim=1)


# ---------------------------------------------------------------------------------- Σk² = gain²


@pytest.mark.parametrize(("kernel_size", "causal"), GEOMETRIES)
@pytest.mark.parametrize("net_cls", EVERY)
@pytest.mark.parametrize("layer_cls", LAYERS)
def test_a_fresh_kernel_has_the_energy_asked_for(layer_cls, net_cls, kernel_size, causal):
    for gain in (1.0, math.sqrt(2)):
        layer = build(layer_cls, net_cls, kernel_size, causal=causal, gain=gain)
        result = energy(layer)
        assert result.shape == (3 if layer_cls is SeparableFlexConv else 2,)
        # 1e-4: measured and scaled once, both in float32.
        torch.testing.assert_close(
            result, torch.full_like(result, gain**2), rtol=1e-4, atol=0, check_dtype=False
        )


@pytest.mark.parametrize("sigma", [0.05, 0.3, 2.0, -0.3])
@pytest.mark.parametrize("causal", [False, True])
def test_any_window_is_accounted_for(causal, sigma):
    layer = SeparableFlexConv(4, 4, size=(101,), causal=causal, mask=GaussianMask(1, sigma=sigma))
    assert energy(layer).tolist() == pytest.approx([1.0] * 4, rel=1e-4)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("kernel_size", [3, 5, 7, 13])
@pytest.mark.parametrize("sigma", [0.0, 0.075])
def test_a_window_narrower_than_a_sample_is_accounted_for(sigma, kernel_size, dim):
    """Only lag zero is left, where a fresh network of sines is zero: its bias is the kernel."""
    mask = GaussianMask(dim, sigma=sigma)
    layer = SeparableFlexConv(4, 4, size=(16,) * dim, kernel_size=kernel_size, mask=mask)
    assert energy(layer).tolist() == pytest.approx([1.0] * 4, rel=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("gain", [1.0, math.sqrt(2)])
@pytest.mark.parametrize("net_cls", EVERY)
@pytest.mark.parametrize("layer_cls", LAYERS)
def test_a_kernel_of_one_sample_has_the_energy_asked_for(layer_cls, net_cls, gain, causal):
    """K = 1 centred is the coordinate 0, where most fresh networks are zero."""
    layer = build(layer_cls, net_cls, (1,), gain=gain, causal=causal)
    assert layer.sampled_kernel().shape[-1] == 1
    assert energy(layer).tolist() == pytest.approx([gain**2] * len(energy(layer)), rel=1e-4)
    y = layer(torch.randn(2, 3, 7))
    assert torch.isfinite(y).all()


@pytest.mark.parametrize("layer_cls", LAYERS)
def test_the_papers_omega_0_is_no_exception(layer_cls):
    layer = build(layer_cls, MAGNet, (784,), causal=True, net_settings={"omega_0": 2976.49})
    assert energy(layer).tolist() == pytest.approx([1.0] * len(energy(layer)), rel=1e-4)


def standard_error_of_variance(kernel: Tensor, samples: int) -> float:
    """Of the variance of white noise filtered by one kernel (C, *K), relative.

    √(2 Σ ρ²/N), ρ the autocorrelation of the output, that is of the kernel.
    """
    dims = tuple(range(1, kernel.ndim))
    sizes = [2 * n for n in kernel.shape[1:]]
    power = torch.fft.fftn(kernel.double(), s=sizes, dim=dims).abs().square()
    correlation = torch.fft.ifftn(power, dim=dims).real.sum(dim=0)
    rho = correlation / correlation.flatten()[0]
    return math.sqrt(2 * rho.square().sum().item() / samples)


@pytest.mark.parametrize("gain", [1.0, math.sqrt(2)])
@pytest.mark.parametrize(
    ("kernel_size", "causal", "signal"),
    [
        ((5,), False, (20_000,)),
        ((257,), False, (50_000,)),
        ((1024,), True, (50_000,)),
        ((33, 33), False, (300, 300)),
        ((9, 9, 9), False, (56, 56, 56)),
    ],
)
@pytest.mark.parametrize("layer_cls", LAYERS)
def test_white_noise_keeps_its_variance_away_from_the_borders(
    layer_cls, kernel_size, causal, signal, gain
):
    layer = layer_cls(3, 3, size=kernel_size, kernel_size=kernel_size, causal=causal, gain=gain)
    if layer.mix is not None:
        layer.mix = nn.Identity()  # mixing has its own gain
    with torch.no_grad():
        y = layer(torch.randn(1, 3, *signal))
        kernel = layer.sampled_kernel()
    for d, k in enumerate(kernel_size):
        y = y.narrow(2 + d, k, signal[d] - 2 * k)
    for channel in range(3):
        parts = kernel[channel][None] if kernel.ndim == len(signal) + 1 else kernel[channel]
        error = standard_error_of_variance(parts, y[0, channel].numel())
        assert error < 0.1  # or the test would say nothing
        assert y[0, channel].square().mean().item() / gain**2 == pytest.approx(1, abs=5 * error)


# ------------------------------------------------------------------------- the other rules by name


@pytest.mark.parametrize(
    ("kernel_size", "sigma", "causal", "taps"),
    [
        (784, 0.075, True, 65),  # MNIST
        (1024, 0.075, True, 84),
        (161, 0.075, True, 14),  # MFCC
        (16000, 0.075, True, 1289),  # raw speech
        (2048, 0.03, True, 67),  # ListOps
        (4096, 0.015, True, 67),  # Text
        (4096, 0.03, True, 133),
        (1024, 0.4, True, 441),  # Pathfinder
        (33, 0.075, False, 5),
        (31, 0.075, False, 5),
        (33, 0.225, False, 15),  # 2DPathfinder
        (33, 0.75, False, 33),  # CIFAR10, no crop
        (784, 1.0, True, 784),  # no crop
    ],
)
def test_the_authors_count_of_taps(kernel_size, sigma, causal, taps):
    radius = GaussianMask(1, sigma=sigma).radius().item()
    assert authors_taps(kernel_size, radius, causal=causal) == taps


@pytest.mark.parametrize(
    ("kernel_size", "sigma", "causal", "omega_0", "measured"),
    # The measured energies of facts 2.2: 140 channels, H = 32.
    [((784,), 0.075, True, 2976.49, 0.35), ((33, 33), 0.075, False, 1435.77, 0.12)],
)
def test_the_authors_rule_leaves_the_energy_far_below_one(
    kernel_size, sigma, causal, omega_0, measured
):
    dim = len(kernel_size)
    net = MAGNet(dim, 140, omega_0=omega_0, spread=1.667 * sigma, causal=causal)
    layer = SeparableFlexConv(
        140,
        140,
        size=kernel_size,
        kernel=net,
        mask=GaussianMask(dim, sigma=sigma),
        causal=causal,
        init="authors",
    )
    # A third: one draw of a network whose γ are heavy-tailed.
    assert energy(layer).mean().item() == pytest.approx(measured, rel=1 / 3)
    assert energy(layer).mean() < 0.5


@pytest.mark.parametrize("layer_cls", LAYERS)
@pytest.mark.parametrize(("kernel_size", "causal"), [((784,), True), ((33, 33), False)])
def test_the_authors_rule_divides_by_the_root_of_fan_in(layer_cls, kernel_size, causal):
    dim = len(kernel_size)
    mask = None if layer_cls is CKConv else GaussianMask(dim, sigma=0.075)
    settings = {"causal": causal, "mask": mask}
    torch.manual_seed(3)
    before = build(layer_cls, MAGNet, kernel_size, init="none", **settings).kernel.last
    torch.manual_seed(3)
    after = build(layer_cls, MAGNet, kernel_size, init="authors", **settings).kernel.last
    fan_in = 1 if layer_cls is SeparableFlexConv else 3
    taps = math.prod(kernel_size) if mask is None else (65 if causal else 25)
    torch.testing.assert_close(after.weight, before.weight / math.sqrt(fan_in * taps))
    assert (after.bias == 0).all()


@pytest.mark.parametrize("net_cls", EVERY)
def test_no_rule_leaves_the_network_as_it_came(net_cls):
    net = net_cls(1, 3, hidden=8, **({} if net_cls(1, 1).omega_0 is None else {"omega_0": 5.0}))
    before = copy.deepcopy(net.state_dict())
    layer = SeparableFlexConv(3, 2, size=(33,), kernel=net, init="none")
    assert layer.kernel is net
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_an_unknown_rule_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"init is 'chang'.*energy, authors, none"):
        SeparableFlexConv(1, 1, size=(9,), init="chang")


# --------------------------------------------------------------------------------- omega_0 = "auto"


@pytest.mark.parametrize("band", [1.0, 0.5, 0.1])
@pytest.mark.parametrize(
    ("kernel_size", "causal"),
    [((33,), False), ((784,), True), ((33, 9), False), ((9, 5, 17), False), ((3, 5, 3, 5), False)],
)
@pytest.mark.parametrize("net_cls", OSCILLATING)
def test_auto_fits_the_frequencies_to_band_times_nyquist(net_cls, kernel_size, causal, band):
    layer = build(
        SeparableFlexConv, net_cls, kernel_size, causal=causal, net_settings={"band": band}
    )
    expected = [band * math.pi * (k - 1) / 2 for k in kernel_size]
    assert layer.kernel.frequencies().tolist() == pytest.approx(expected, rel=1e-5)


def test_auto_is_the_default_of_every_layer():
    for layer_cls in LAYERS:
        layer = layer_cls(2, 2, size=(32, 9))
        assert layer.kernel.omega_0 == "auto"
        expected = [16 * math.pi, 4 * math.pi]  # K = 33, 9
        assert layer.kernel.frequencies().tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("init", ["energy", "authors", "none"])
@pytest.mark.parametrize("net_cls", OSCILLATING)
def test_an_explicit_omega_0_is_left_alone(net_cls, init):
    """Only the last layer may be re-weighted, whatever lies above Nyquist."""
    net = net_cls(2, 3, hidden=8, omega_0=500.0)
    before = copy.deepcopy(net.state_dict())
    SeparableFlexConv(3, 2, size=(9, 5), kernel=net, init=init)
    for name, value in net.state_dict().items():
        if not name.startswith("output."):
            assert torch.equal(value, before[name]), name
    assert (net.frequencies() > math.pi * 4).all()  # above Nyquist of 9 samples


@pytest.mark.parametrize("band", [1.0, 0.25])
@pytest.mark.parametrize("net_cls", [FourierNet, MAGNet])
def test_an_auto_kernel_has_no_energy_above_its_band_on_a_finer_grid(net_cls, band):
    """The meaning of it all: a finer grid sees nothing that the training grid cannot hold."""
    layer = CKConv(1, 4, size=(513,), kernel=net_cls(1, 4, band=band)).double()
    with torch.no_grad():
        kernel = layer.sampled_kernel(0.25)[:, 0]  # four times as fine
    n = kernel.shape[1]
    window = torch.signal.windows.kaiser(n, beta=12.0, dtype=torch.float64)
    power = torch.fft.rfft(kernel * window).abs().square()
    nyquist_bin = n / 2 / 4  # of the training grid
    above = power[:, int(band * nyquist_bin) + 5 :].sum(dim=1)  # 5: half the window's main lobe
    assert (above < 1e-6 * power.sum(dim=1)).all()
    below = power[:, int(band * nyquist_bin / 10) :].sum(dim=1)
    assert (below > 1e-3 * power.sum(dim=1)).any()  # and uses the band it has


@pytest.mark.parametrize("net_cls", OSCILLATING)
def test_the_papers_omega_0_lies_far_above_nyquist(net_cls):
    """Facts 2.3: on the grid such a kernel is white noise; it is why auto exists."""
    net = net_cls(1, 3, omega_0=2976.49)
    layer = SeparableFlexConv(3, 3, size=(784,), causal=True, kernel=net)
    assert layer.kernel.frequencies().item() > 2 * math.pi * 783 / 2


@pytest.mark.parametrize("layer_cls", LAYERS)
@pytest.mark.parametrize("init", ["energy", "authors"])
def test_weights_are_a_function_of_the_arguments_and_the_seed(layer_cls, init):
    states = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        states.append(layer_cls(3, 2, size=(33,), init=init).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    name = "kernel.output.weight"
    assert not torch.equal(states[0][name], states[2][name])


def test_biases_start_at_zero_and_the_mixer_like_he():
    layer = SeparableFlexConv(100, 80, size=(9,))
    assert (layer.bias == 0).all()
    assert (layer.mix.bias == 0).all()
    # N(0, 2/100), 8000 draws: 5 standard errors of a standard deviation.
    expected = pytest.approx(math.sqrt(2 / 100), rel=5 / math.sqrt(2 * 8000))
    assert layer.mix.weight.std().item() == expected
    assert (FlexConv(2, 2, size=(9,)).bias == 0).all()


def test_branches_start_as_small_as_they_are_many():
    """Kaiming-normal with gain √2 has a standard deviation of √(2/C); B branches divide it by B."""
    for init, divisor in {"energy": 3, "authors": 1, "none": 1}.items():
        torch.manual_seed(0)
        model = CCNN(1, 2, (16,), blocks=3, channels=64, kernel_channels=4, init=init)
        for block in model.blocks:
            expected = math.sqrt(2 / 64) / divisor
            # 4096 draws: the deviation of a standard deviation is 1 %.
            assert block.linear.weight.std().item() == pytest.approx(expected, rel=0.05)
