"""Every class in KERNELS: what it computes, how it starts, and which frequencies it can make."""

import inspect
import math

import pytest
import torch
from torch import Tensor

from ccnn.nn import KERNELS, MLP, SIREN, AbstractKernelNet, FourierNet, GaborNet, MAGNet, RFNet
from ccnn.ops import coordinate_grid

DIMS = [1, 2, 3, 4]


def takes(cls: type[AbstractKernelNet], argument: str) -> bool:
    return argument in inspect.signature(cls).parameters


EVERY = [pytest.param(cls, id=name) for name, cls in KERNELS.items()]
OSCILLATING = [pytest.param(c, id=n) for n, c in KERNELS.items() if takes(c, "omega_0")]
CENTRED_SOMEWHERE = [pytest.param(c, id=n) for n, c in KERNELS.items() if takes(c, "spread")]


def build(cls: type[AbstractKernelNet], dim: int, out_channels: int = 3, **settings):
    """A small network whose phases stay near 1e2 rad, so that float64 keeps 13 digits of them."""
    if takes(cls, "omega_0"):
        settings.setdefault("omega_0", 3.0)
    return cls(dim, out_channels, hidden=8, **settings)


def coordinates(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return 2 * torch.rand(*shape, dtype=dtype) - 1


def test_kernels_names_each_class_by_its_own_name():
    assert {name: cls.__name__ for name, cls in KERNELS.items()} == {n: n for n in KERNELS}
    assert len(OSCILLATING) == len(KERNELS) - 1  # all but the MLP


# ---------------------------------------------------------------------------- what it computes


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3, 4)])
def test_maps_coordinates_to_channels_whatever_the_leading_shape(cls, dim, leading):
    net = build(cls, dim, 5).double()
    coords = coordinates(*leading, dim)
    out = net(coords)
    assert out.shape == (*leading, 5)
    one_by_one = torch.stack([net(c) for c in coords.reshape(-1, dim)])
    # 1e-12: only the order of summation inside a matrix product may differ.
    torch.testing.assert_close(out.reshape(-1, 5), one_by_one, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("cls", EVERY)
def test_the_output_has_the_dtype_of_the_network(cls, dim):
    net = build(cls, dim)
    assert net(coordinates(4, dim, dtype=torch.float32)).dtype == torch.float32
    net = net.double()
    assert net(coordinates(4, dim)).dtype == torch.float64
    assert net.on_grid([coordinates(2)] * dim).dtype == torch.float64
    assert net.frequencies().shape == (dim,)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize("on_grid", [False, True], ids=["points", "grid"])
def test_gradients_reach_every_parameter(cls, dim, on_grid):
    net = build(cls, dim).double()
    out = net.on_grid([coordinates(3) for _ in range(dim)]) if on_grid else net(coordinates(7, dim))
    out.square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert (parameter.grad != 0).all(), f"{name}: some entries get no gradient"


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("cls", EVERY)
def test_on_grid_equals_forward_on_the_same_grid(cls, dim):
    net = build(cls, dim).double()
    for parameter in net.parameters():  # biases and phases that a fresh network leaves at zero
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    axes = [coordinates(n) for n in (5, 4, 3, 2)[:dim]]  # unequal, unsorted
    expected = net(coordinate_grid(axes))
    assert expected.shape == (*(5, 4, 3, 2)[:dim], 3)
    # float64 to 1e-12: the separable product of sines rounds a few times at phases near 1e2.
    torch.testing.assert_close(net.on_grid(axes), expected, rtol=0, atol=1e-12)

    weight = torch.randn_like(expected)
    parameters = list(net.parameters())
    direct = torch.autograd.grad((expected * weight).sum(), parameters)
    separable = torch.autograd.grad((net.on_grid(axes) * weight).sum(), parameters)
    for one, other in zip(direct, separable, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def magnet_by_hand(net: MAGNet, coords: list[float]) -> list[float]:
    """App. B.1, one number at a time."""
    h: list[float] = []
    for i, g in enumerate(net.filters):
        weight, bias = g.weight.tolist(), g.bias.tolist()
        gamma, centre = g.gamma.tolist(), g.centre.tolist()
        response = []
        for j in range(len(bias)):
            exponent, phase = 0.0, bias[j]
            for d, c in enumerate(coords):
                inverse_width = gamma[j][d] if len(gamma[j]) > 1 else gamma[j][0]
                exponent += (inverse_width * (c - centre[j][d])) ** 2
                phase += weight[j][d] * c
            response.append(math.exp(-0.5 * exponent) * math.sin(phase))
        if i == 0:
            h = response
        else:
            w, b = net.hidden[i - 1].weight.tolist(), net.hidden[i - 1].bias.tolist()
            h = [
                response[j] * (sum(w[j][k] * h[k] for k in range(len(h))) + b[j])
                for j in range(len(response))
            ]
    w, b = net.last.weight.tolist(), net.last.bias.tolist()
    return [sum(w[c][k] * h[k] for k in range(len(h))) + b[c] for c in range(len(b))]


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("cls", CENTRED_SOMEWHERE)
def test_gabor_networks_compute_the_published_formula(cls, dim):
    net = build(cls, dim).double()
    for parameter in net.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    coords = coordinates(3, dim)
    expected = torch.tensor([magnet_by_hand(net, c) for c in coords.tolist()], dtype=torch.float64)
    torch.testing.assert_close(net(coords), expected, rtol=1e-11, atol=1e-12)
    assert expected.abs().max() > 1e-3  # not a comparison of zeros


def test_siren_computes_the_published_formula():
    net = SIREN(2, 3, hidden=4, layers=4, omega_0=7.0).double()
    for parameter in net.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    coords = coordinates(5, 2)
    weights = [p for p in net.parameters() if p.ndim == 2]
    biases = [p for p in net.parameters() if p.ndim == 1]
    h = coords.T
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        h = torch.sin(7.0 * (weight @ h + bias[:, None]))
    expected = (weights[-1] @ h + biases[-1][:, None]).T
    torch.testing.assert_close(net(coords), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("cls", EVERY)
def test_no_network_is_affine_in_its_coordinates(cls, dim):
    """The reference implementation's MLP and RFNet trunk have the identity as nonlinearity."""
    net = build(cls, dim).double()
    start, end = coordinates(20, dim), coordinates(20, dim)
    bend = net(start) + net(end) - 2 * net((start + end) / 2)
    size = net(start).std()
    assert bend.abs().max() > 1e-2 * size  # an affine map bends by rounding only, 1e-15


def test_rfnet_mixes_its_features_nonlinearly():
    """Cosines and sines alone bend; the trunk on top of them must as well."""
    net = RFNet(1, 1, hidden=8, layers=3, omega_0=1.0).double()
    one, other = torch.randn(2, 8, dtype=torch.float64)
    bend = net.trunk(one) + net.trunk(other) - 2 * net.trunk((one + other) / 2)
    assert bend.abs().max() > 1e-2


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("cls", EVERY)
def test_last_is_the_layer_that_makes_the_output(cls, dim):
    net = build(cls, dim, 5).double()
    assert net.last.weight.shape == (5, 8)
    coords = coordinates(6, dim)
    before = net(coords)
    net.last.weight.data.mul_(3.0)
    net.last.bias.data.mul_(3.0)
    torch.testing.assert_close(net(coords), 3 * before, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------ size and seeds


@pytest.mark.parametrize(
    ("cls", "in_1d", "in_2d"),
    [
        (MAGNet, 416, 512),
        (GaborNet, 416, 480),
        (FourierNet, 352, 384),
        (SIREN, 160, 168),
        (RFNet, 152, 156),
        (MLP, 160, 168),
    ],
)
def test_parameter_counts_are_those_of_the_reference(cls, in_1d, in_2d):
    def count(dim: int) -> int:
        return sum(p.numel() for p in cls(dim, 8, hidden=8, layers=3).parameters())

    assert (count(1), count(2)) == (in_1d, in_2d)


@pytest.mark.parametrize("cls", EVERY)
def test_weights_are_a_function_of_the_seed(cls):
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(build(cls, 2).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["output.weight"], states[2]["output.weight"])


# ------------------------------------------------------------------------- initial distributions


def assert_uniform(values: Tensor, bound: float) -> None:
    """Fail unless the values look drawn from U(-bound, bound); needs a few hundred of them."""
    n = values.numel()
    scaled = values.detach().double().flatten() / bound
    assert scaled.abs().max() <= 1 + 1e-5  # rounding of float32
    assert scaled.max() > 1 - 12 / n  # missed with probability e^-6
    assert scaled.min() < -1 + 12 / n
    # E u² = 1/3 with a standard deviation of √(4/45) per draw; five of them.
    assert abs(scaled.square().mean() - 1 / 3) < 5 * math.sqrt(4 / 45 / n)
    assert abs(scaled.mean()) < 5 * math.sqrt(1 / 3 / n)


def assert_gamma(values: Tensor, shape: float) -> None:
    """Fail unless the values look drawn from Gamma(shape, rate 1)."""
    n = values.numel()
    sample = values.detach().double().flatten()
    assert sample.min() >= 0
    # Five standard errors: the variance is `shape`, the excess kurtosis 6/shape.
    assert abs(sample.mean() - shape) < 5 * math.sqrt(shape / n)
    assert abs(sample.var() - shape) < 5 * shape * math.sqrt((2 + 6 / shape) / n)


@pytest.mark.parametrize("dim", DIMS)
def test_magnet_starts_as_published(dim):
    omega_0, h = 11.0, 1000
    net = MAGNet(dim, 200, hidden=h, layers=3, omega_0=omega_0, spread=0.125)
    assert len(net.filters) == 4
    for g, shape in zip(net.filters, [6.0, 3.0, 2.0, 1.5], strict=True):
        assert g.gamma.shape == (h, dim)  # anisotropic
        assert_gamma(g.gamma, shape)
        u = g.weight.double() / (2 * math.pi * omega_0 * g.gamma.double())
        assert_uniform(u, dim**-0.5)
        assert_uniform(g.centre, 0.125)
        assert (g.bias == 0).all()
    for layer in net.hidden:
        assert_uniform(layer.weight, math.sqrt(3 / h))
        assert (layer.bias == 1).all()
    assert_uniform(net.last.weight, math.sqrt(3 / h))
    assert (net.last.bias == 0).all()


@pytest.mark.parametrize("dim", DIMS)
def test_magnets_widths_differ_between_axes_and_gabornets_do_not(dim):
    assert GaborNet(dim, 2, hidden=8).filters[0].gamma.shape == (8, 1)
    gamma = MAGNet(dim, 2, hidden=8).filters[0].gamma
    assert gamma.unique().numel() == 8 * dim


@pytest.mark.parametrize("dim", DIMS)
def test_gabornet_starts_as_published(dim):
    omega_0, h = 11.0, 1000
    net = GaborNet(dim, 200, hidden=h, layers=3, omega_0=omega_0, spread=0.125)
    for g in net.filters:
        assert_gamma(g.gamma, 6 / 4)  # the same shape for every filter
        u = g.weight.double() / (2 * math.pi * omega_0 * g.gamma.double())
        assert_uniform(u, 1 / dim)
        assert (g.bias == 0).all()
    for layer in net.hidden:
        assert_uniform(layer.weight, math.sqrt(3 / h))
        assert (layer.bias == 1).all()
    assert_uniform(net.last.weight, math.sqrt(3 / h))


@pytest.mark.parametrize("spread", [0.125, 0.4])
@pytest.mark.parametrize("cls", CENTRED_SOMEWHERE)
def test_gabor_centres_lie_around_lag_zero_and_before_it_where_causal(cls, spread):
    """The reference moves GaborNet's to 1 in every 1-D network, causal or not."""
    centred = torch.stack([g.centre for g in cls(1, 1, hidden=200, spread=spread).filters])
    assert_uniform(centred, spread)
    causal = cls(1, 1, hidden=200, spread=spread, causal=True)
    centres = torch.stack([g.centre for g in causal.filters])
    assert_uniform(centres - (1 - spread / 2), spread / 2)  # [1 - spread, 1]


@pytest.mark.parametrize("cls", CENTRED_SOMEWHERE)
def test_spread_may_differ_per_axis(cls):
    net = cls(3, 1, hidden=300, spread=(0.1, 0.5, 1.0))
    centres = torch.cat([g.centre for g in net.filters])
    for d, spread in enumerate((0.1, 0.5, 1.0)):
        assert_uniform(centres[:, d], spread)


@pytest.mark.parametrize("dim", DIMS)
def test_fouriernet_starts_as_published(dim):
    omega_0, h = 11.0, 200
    net = FourierNet(dim, 50, hidden=h, layers=3, omega_0=omega_0)
    for g in net.filters:
        assert_uniform(g.weight, 2 * math.pi * omega_0 / dim)
        assert (g.bias == 0).all()
    product = torch.eye(h, dtype=torch.float64)
    for i, layer in enumerate(net.hidden, start=1):
        w = layer.weight.detach().double()
        # float32's QR decomposition is orthogonal to about 1e-6.
        torch.testing.assert_close(w @ w.T, 2 * torch.eye(h).double(), rtol=0, atol=2e-5)
        product = w @ product
        expected = product.sum(dim=1) / (h * 2**i)
        torch.testing.assert_close(layer.bias.double(), expected, rtol=1e-4, atol=1e-6)
    assert len(net.hidden) == 3
    assert_uniform(net.last.weight, math.sqrt(3 / h))
    assert (net.last.bias == 0).all()


@pytest.mark.parametrize("omega_0", [3.0, 30.0])
@pytest.mark.parametrize("dim", DIMS)
def test_sirens_initialisation_takes_effect_in_every_dimension(dim, omega_0):
    """The reference skips D = 3; CKConv's is overwritten by its weight normalisation."""
    h = 256
    net = SIREN(dim, 64, hidden=h, layers=4, omega_0=omega_0)
    first, *others = list(net.sines)
    assert_uniform(first.weight, 1 / dim)
    assert len(others) == 2
    for layer in others:
        assert_uniform(layer.weight, math.sqrt(6 / h) / omega_0)
    assert_uniform(net.last.weight, math.sqrt(3 / h))
    for layer in (first, *others, net.last):
        assert (layer.bias == 0).all()


@pytest.mark.parametrize("omega_0", [0.5, 11.0])
@pytest.mark.parametrize("dim", DIMS)
def test_rfnet_starts_as_published(dim, omega_0):
    n = 10_000
    net = RFNet(dim, 1, hidden=2 * n, layers=2, omega_0=omega_0)
    weight = net.features.weight.detach().double() / (2 * math.pi * omega_0)
    assert weight.shape == (n, dim)
    # N(0, 1): five standard errors, 1/√(2n) of a standard deviation and √(24/n) of a kurtosis.
    assert abs(weight.std() - 1) < 5 / math.sqrt(2 * weight.numel())
    assert abs(weight.pow(4).mean() / weight.var() ** 2 - 3) < 5 * math.sqrt(24 / weight.numel())


@pytest.mark.parametrize("dim", DIMS)
def test_mlp_starts_like_he_with_zero_biases(dim):
    net = MLP(dim, 64, hidden=256, layers=3)
    first, second = [layer for layer in net.trunk if isinstance(layer, torch.nn.Linear)]
    assert_uniform(first.weight, math.sqrt(2) * math.sqrt(3 / dim))
    assert_uniform(second.weight, math.sqrt(2) * math.sqrt(3 / 256))
    assert_uniform(net.last.weight, math.sqrt(3 / 256))
    assert all((layer.bias == 0).all() for layer in (first, second, net.last))


# ------------------------------------------------------------------------------------ frequencies


def spectrum(values: Tensor, step: float) -> tuple[Tensor, Tensor, float]:
    """Return angular frequencies, energy per frequency (n, C) -> (n', C), and the resolution.

    A Kaiser window with β = 20 has side lobes of -150 dB and a main lobe of ±6.5 bins.
    """
    n = len(values)
    window = torch.signal.windows.kaiser(n, beta=20.0, sym=False, dtype=torch.float64)
    energy = torch.fft.rfft(values * window[:, None], dim=0).abs().square()
    bin_width = 2 * math.pi / (n * step)
    return torch.arange(len(energy), dtype=torch.float64) * bin_width, energy, 6.5 * bin_width


def along_axis(net: AbstractKernelNet, axis: int, *, extent: float, oversampling: float = 3.0):
    """Sample a network on a line ±extent parallel to an axis; return the values and the step."""
    step = math.pi / (oversampling * net.frequencies()[axis].item())
    line = torch.arange(-extent, extent, step, dtype=torch.float64)
    coords = coordinates(net.dim).expand(len(line), net.dim).clone()
    coords[:, axis] = line
    with torch.no_grad():
        return net(coords), step


@pytest.mark.parametrize("dim", DIMS)
def test_fouriernet_has_no_energy_above_its_frequencies(dim):
    net = FourierNet(dim, 4, hidden=8, omega_0=2.0).double()
    for axis in range(dim):
        values, step = along_axis(net, axis, extent=100.0)
        omega, energy, resolution = spectrum(values, step)
        above = energy[omega > net.frequencies()[axis] + resolution].sum(dim=0)
        assert (above < 1e-12 * energy.sum(dim=0)).all()  # side lobes: -150 dB


def test_fouriernets_frequencies_are_reached_not_merely_a_bound():
    net = FourierNet(1, 1, hidden=1, omega_0=2.0).double()  # one unit: no choice of the largest
    values, step = along_axis(net, 0, extent=100.0)
    omega, energy, resolution = spectrum(values, step)
    highest = omega[(energy[:, 0] > 1e-8 * energy.max())].max()
    assert abs(highest - net.frequencies()[0]) < resolution


@pytest.mark.parametrize("cls", CENTRED_SOMEWHERE)
@pytest.mark.parametrize("dim", [1, 2])
def test_gabor_networks_have_hardly_any_energy_above_their_frequencies(cls, dim):
    """The windows smear each sine by about γ, little against 2π ω₀ γ."""
    net = cls(dim, 4, hidden=8, omega_0=10.0).double()
    for axis in range(dim):
        values, step = along_axis(net, axis, extent=8.0)
        omega, energy, _ = spectrum(values, step)
        highest = net.frequencies()[axis]
        above = energy[omega > highest].sum(dim=0) / energy.sum(dim=0)
        assert (above < 1e-6).all()
        # No empty promise: a tenth of it would be no bound.
        assert (energy[omega > highest / 10].sum(dim=0) / energy.sum(dim=0) > 1e-2).any()


@pytest.mark.parametrize("dim", [1, 2])
def test_siren_has_hardly_any_energy_above_its_frequencies(dim):
    net = SIREN(dim, 4, hidden=32, omega_0=30.0).double()
    for axis in range(dim):
        values, step = along_axis(net, axis, extent=8.0)
        omega, energy, resolution = spectrum(values - values.mean(dim=0), step)
        highest = net.frequencies()[axis]
        above = energy[omega > highest + resolution].sum(dim=0) / energy.sum(dim=0)
        # The sidebands of a sine in a sine have no end: at most 5e-5 over 70 seeds.
        assert (above < 1e-3).all()
        assert (energy[omega > highest / 5].sum(dim=0) / energy.sum(dim=0) > 1e-2).any()


@pytest.mark.parametrize("dim", DIMS)
def test_sirens_frequencies_are_the_steepest_slope_of_its_last_phases(dim):
    """Reached at c = 0 where all weights have one sign and no cosine is below 1."""
    net = SIREN(dim, 1, hidden=8, layers=4, omega_0=5.0).double()
    for layer in net.sines:
        layer.weight.data.abs_()

    def last_phases(coords: Tensor) -> Tensor:
        h = coords
        for layer in list(net.sines)[:-1]:
            h = torch.sin(5.0 * layer(h))
        return 5.0 * net.sines[-1](h)

    origin = torch.zeros(dim, dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(last_phases, origin)  # (H, D)
    torch.testing.assert_close(net.frequencies(), slopes.amax(dim=0), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dim", DIMS)
def test_rfnets_features_oscillate_at_most_at_its_frequencies(dim):
    net = RFNet(dim, 4, hidden=16, layers=2, omega_0=3.0).double()  # no trunk, no harmonics
    for axis in range(dim):
        values, step = along_axis(net, axis, extent=40.0)
        omega, energy, resolution = spectrum(values, step)
        highest = omega[(energy > 1e-8 * energy.max()).any(dim=1)].max()
        assert abs(highest - net.frequencies()[axis]) < resolution


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("cls", OSCILLATING)
def test_scaling_the_frequencies_squeezes_the_kernel(cls, dim):
    net = build(cls, dim).double()
    before = net.frequencies()
    assert (before > 0).all()
    factor = torch.tensor([0.5, 2.0, 3.0, 0.1], dtype=torch.float64)[:dim]
    net.scale_frequencies_(factor)
    torch.testing.assert_close(net.frequencies(), before * factor, rtol=1e-12, atol=0)
    assert not net.frequencies().requires_grad


def test_a_network_without_windows_is_the_same_function_on_a_squeezed_axis():
    for cls in (FourierNet, SIREN, RFNet):
        net = build(cls, 2).double()
        coords, factor = coordinates(9, 2), torch.tensor([0.5, 3.0], dtype=torch.float64)
        expected = net(coords * factor)
        net.scale_frequencies_(factor)
        torch.testing.assert_close(net(coords), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dim", DIMS)
def test_the_mlp_has_no_frequencies(dim):
    net = MLP(dim, 2)
    assert net.omega_0 is None
    assert net.frequencies().tolist() == [0.0] * dim


@pytest.mark.parametrize("cls", OSCILLATING)
def test_omega_0_sets_the_initial_frequencies(cls):
    """Twice ω₀, twice the frequencies. In SIREN hidden layers divide by the ω₀ they multiply by."""
    frequencies = []
    for omega_0 in (4.0, 8.0):
        torch.manual_seed(0)
        frequencies.append(build(cls, 2, omega_0=omega_0).frequencies())
    torch.testing.assert_close(frequencies[1], 2 * frequencies[0], rtol=1e-5, atol=0)


# ----------------------------------------------------------------------------------- bad arguments


@pytest.mark.parametrize("omega_0", ["aut", "", 0, 0.0, -1.0, math.nan])
@pytest.mark.parametrize("cls", OSCILLATING)
def test_a_bad_omega_0_is_refused_by_name(cls, omega_0):
    with pytest.raises(ValueError, match="omega_0"):
        cls(1, 2, omega_0=omega_0)


@pytest.mark.parametrize("band", [0.0, -0.5, math.nan])
@pytest.mark.parametrize("cls", OSCILLATING)
def test_a_bad_band_is_refused_by_name(cls, band):
    with pytest.raises(ValueError, match="band"):
        cls(1, 2, band=band)


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("cls", EVERY)
def test_no_axes_are_refused_by_name(cls, dim):
    with pytest.raises(ValueError, match="dim"):
        cls(dim, 2)


@pytest.mark.parametrize("cls", EVERY)
def test_no_channels_are_refused_by_name(cls):
    with pytest.raises(ValueError, match="out_channels"):
        cls(1, 0)


def test_rfnet_refuses_an_odd_hidden_width():
    with pytest.raises(ValueError, match=r"hidden must be even.* got 7"):
        RFNet(1, 2, hidden=7)


@pytest.mark.parametrize("cls", [SIREN, MLP, RFNet])
def test_fewer_layers_than_the_documented_two_are_refused_by_name(cls):
    """They would build a network that cannot run, or one with more layers than asked."""
    with pytest.raises(ValueError, match="layers"):
        cls(1, 2, layers=1)


@pytest.mark.parametrize("cls", CENTRED_SOMEWHERE)
def test_a_spread_for_other_axes_is_refused_by_name(cls):
    with pytest.raises(ValueError, match="spread"):
        cls(2, 2, spread=(0.1, 0.2, 0.3))


@pytest.mark.parametrize("wrong", [1, 3])
@pytest.mark.parametrize("cls", EVERY)
def test_coordinates_of_another_dimension_are_refused(cls, wrong):
    """Computing with some of the axes would be silent nonsense."""
    net = build(cls, 2)
    with pytest.raises((ValueError, RuntimeError)):
        net(torch.zeros(4, wrong))
    with pytest.raises((ValueError, RuntimeError, IndexError)):
        net.on_grid([torch.zeros(3)] * wrong)


@pytest.mark.parametrize("cls", EVERY)
def test_repr_shows_the_settings(cls):
    text = repr(build(cls, 2))
    assert "dim=2, out_channels=3" in text
    assert ("omega_0=3.0" in text) == takes(cls, "omega_0")
