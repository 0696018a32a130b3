"""The three continuous convolutions: geometry, spacing, state, and what they refuse."""

import copy
import itertools
import math
import pickle
import re

import pytest
import torch
from torch import Tensor, nn

from ccnn.domain import Grid
from ccnn.nn import (
    AbstractKernelNet,
    CKConv,
    FlexConv,
    FourierNet,
    GaussianMask,
    MAGNet,
    SeparableFlexConv,
)
from ccnn.nn.reach import read_reaches
from ccnn.ops import convolve

LAYERS = [SeparableFlexConv, FlexConv, CKConv]
WINDOWED = [SeparableFlexConv, FlexConv]
# (size, causal)
GEOMETRIES = [((12,), False), ((13,), True), ((7, 10), False), ((5, 6, 4), False)]
FOUR_D = ((3, 4, 3, 5), False)


def signal(layer, *, batch: int = 2, size=None) -> Tensor:
    return torch.randn(batch, layer.in_channels, *(size or layer.size), dtype=layer.bias.dtype)


def states_equal(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def shuffled(layer):
    """Give every parameter, biases too, a value that a wrong use of it would betray."""
    for name, parameter in layer.named_parameters():
        if "mask" not in name:
            parameter.data.add_(0.1 * torch.randn_like(parameter))
    return layer


def stepped(layer):
    """Run a forward and a backward pass, which leave their traces."""
    layer(signal(layer)).square().mean().backward()
    return layer


# ---------------------------------------------------------------------------------------- geometry


@pytest.mark.parametrize(("size", "causal"), [*GEOMETRIES, FOUR_D])
@pytest.mark.parametrize("cls", LAYERS)
def test_the_output_lies_where_the_input_lies(cls, size, causal):
    layer = cls(3, 5, size=size, causal=causal)
    assert layer(signal(layer)).shape == (2, 5, *size)
    assert layer(signal(layer, batch=1)).shape == (1, 5, *size)


@pytest.mark.parametrize(("size", "causal"), [*GEOMETRIES, FOUR_D])
@pytest.mark.parametrize("cls", LAYERS)
def test_a_layer_is_its_sampled_kernel_a_bias_and_a_mixer(cls, size, causal):
    layer = shuffled(cls(3, 5, size=size, causal=causal)).double()
    x = signal(layer)
    y = convolve(x, layer.sampled_kernel(), causal=causal, method="direct")
    y = y + layer.bias.view(-1, *(1,) * len(size))
    if cls is SeparableFlexConv:
        y = torch.einsum("oi,bi...->bo...", layer.mix.weight, y)
        y = y + layer.mix.bias.view(-1, *(1,) * len(size))
    torch.testing.assert_close(layer(x), y, rtol=1e-10, atol=1e-10)  # by FFT or directly


def kernel_at(layer, channel: int, offset: tuple[int, ...]) -> float:
    """G(c) · w(c) at c = 2δ/(K-1), or 1 + 2δ/(K-1) where causal, by the definition."""
    relative = [2 * d / (k - 1) for d, k in zip(offset, layer.kernel_size, strict=True)]
    coords = [c + 1 if layer.causal else c for c in relative]
    value = layer.kernel(torch.tensor(coords, dtype=torch.float64))[channel].item()
    if layer.mask is None:
        return value
    for c, mu, sigma in zip(
        relative, layer.mask.mean.tolist(), layer.mask.sigma.tolist(), strict=True
    ):
        factor = math.exp(-0.5 * ((c - mu) / sigma) ** 2)
        value *= factor if factor >= 0.1 else 0.0
    return value


@pytest.mark.parametrize(
    ("cls", "size", "causal"),
    [
        (SeparableFlexConv, (9,), False),
        (SeparableFlexConv, (8,), True),
        (FlexConv, (5, 4), False),
        (CKConv, (7,), True),
    ],
)
def test_the_definition_read_from_the_design_gives_the_same_output(cls, size, causal):
    """y[t] = Σ_δ K(δ) x[t + δ], one number at a time."""
    mask = None if cls is CKConv else GaussianMask(len(size), sigma=0.45)
    layer = cls(2, 2, size=size, causal=causal, mask=mask).double()
    if layer.mix is not None:
        layer.mix = nn.Identity()
    x = signal(layer, batch=1)
    reach = [k - 1 if causal else (k - 1) // 2 for k in layer.kernel_size]
    offsets = itertools.product(*[range(-r, 1 if causal else r + 1) for r in reach])
    expected = torch.zeros(2, *size, dtype=torch.float64)
    for delta in offsets:
        for o, i in itertools.product(range(2), range(2)):
            if layer.depthwise and o != i:
                continue
            tap = kernel_at(layer, o if layer.depthwise else o * 2 + i, delta)
            for t in itertools.product(*[range(n) for n in size]):
                source = tuple(a + b for a, b in zip(t, delta, strict=True))
                if all(0 <= s < n for s, n in zip(source, size, strict=True)):
                    expected[(o, *t)] += tap * x[(0, i, *source)]
    # 1e-9: the mask's ε of 1e-6 beside σ = 0.45.
    torch.testing.assert_close(layer(x)[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("cls", [FlexConv, CKConv])
def test_the_output_channel_is_the_slow_index_of_a_dense_network(cls):
    layer = cls(3, 2, size=(5, 7)).double()
    kernel = layer.sampled_kernel()
    assert kernel.shape[:2] == (2, 3)
    axes = [torch.linspace(-1, 1, n, dtype=torch.float64) for n in (5, 7)]
    values = layer.kernel.on_grid(axes)  # (5, 7, 6)
    if layer.mask is not None:
        values = values * layer.mask.on_grid(axes, keep=[0.5, 1 / 3])
        # Cropped to what the default σ leaves: both grids have their middle in common.
    half = [n // 2 for n in kernel.shape[2:]]
    for o in range(2):
        for i in range(3):
            plane = values[2 - half[0] : 3 + half[0], 3 - half[1] : 4 + half[1], o * 3 + i]
            torch.testing.assert_close(kernel[o, i], plane, rtol=0, atol=1e-12)


def test_causal_layers_ignore_the_future_and_see_the_present():
    for cls in LAYERS:
        layer = cls(2, 2, size=(32,), causal=True).double()
        x = signal(layer)
        changed = x.clone()
        changed[..., 20:] += 1.0
        before, after = layer(x), layer(changed)
        # Rounding of an FFT, where one is used.
        torch.testing.assert_close(after[..., :20], before[..., :20], rtol=0, atol=1e-12)
        assert (after[..., 20] - before[..., 20]).abs().min() > 1e-6


@pytest.mark.parametrize("kernel_size", [5, 51])
def test_shifted_signals_give_shifted_outputs(kernel_size):
    layer = SeparableFlexConv(2, 2, size=(40, 40), kernel_size=kernel_size).double()
    x = torch.zeros(1, 2, 40, 40, dtype=torch.float64)
    x[..., 15:20, 18:22] = torch.randn(1, 2, 5, 4, dtype=torch.float64)
    rolled = layer(x.roll((3, -4), dims=(2, 3)))
    edge = 8  # what the roll carries around
    expected = layer(x).roll((3, -4), dims=(2, 3))
    inner = (..., slice(edge, -edge), slice(edge, -edge))
    torch.testing.assert_close(rolled[inner], expected[inner], rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize("length", [1, 2, 5, 40, 41])
def test_longer_and_shorter_signals_use_the_same_kernel(cls, causal, length):
    """Zeros after a signal are what lies outside of it, so they change nothing."""
    layer = cls(2, 2, size=(20,), causal=causal).double()
    x = signal(layer, size=(length,))
    padded = torch.cat([x, torch.zeros(2, 2, 40, dtype=x.dtype)], dim=-1)
    torch.testing.assert_close(layer(padded)[..., :length], layer(x), rtol=0, atol=1e-12)
    assert layer(x).shape == (2, 2, length)


def test_other_aspect_ratios_at_test_time():
    layer = SeparableFlexConv(1, 2, size=(16, 16))
    for shape in [(16, 16), (1, 16), (31, 5), (64, 64)]:
        assert layer(signal(layer, size=shape)).shape == (2, 2, *shape)


@pytest.mark.parametrize(
    ("size", "kernel_size", "causal", "expected"),
    [
        ((784,), "same", True, (784,)),
        ((784,), "same", False, (785,)),
        ((32, 33), "same", False, (33, 33)),
        ((784,), "full", True, (1567,)),
        ((8, 5), "full", False, (15, 9)),
        ((32, 32), 7, False, (7, 7)),
        ((32, 32), (7, 9), False, (7, 9)),
        ((32, 32), [7, 9], False, (7, 9)),
        ((784,), 10, True, (10,)),
        ((1,), "same", False, (1,)),
    ],
)
def test_kernel_size_in_words_and_numbers(size, kernel_size, causal, expected):
    layer = SeparableFlexConv(1, 1, size=size, kernel_size=kernel_size, causal=causal)
    assert layer.kernel_size == expected
    # Without a window, all of it is sampled.
    whole = CKConv(1, 1, size=size, kernel_size=kernel_size, causal=causal)
    assert whole.sampled_kernel().shape == (1, 1, *expected)


# ----------------------------------------------------------------------------------------- spacing


def by_offset(kernel: Tensor, spacing: tuple[float, ...], *, causal: bool) -> dict:
    """{δ in training samples: values of all channels} of a kernel (C, *K)."""
    result = {}
    shape = kernel.shape[-len(spacing) :]
    middle = [n - 1 if causal else n // 2 for n in shape]
    for index in itertools.product(*[range(n) for n in shape]):
        steps = zip(index, middle, spacing, strict=True)
        delta = tuple(round((i - m) * s, 9) for i, m, s in steps)
        result[delta] = kernel[(..., *index)]
    return result


def smooth(cls, size, *, causal=False, **settings):
    """A layer whose kernel rounding cannot spoil: band-limited, in float64, with a wide window."""
    dim = len(size)
    mask = None if cls is CKConv else GaussianMask(dim, sigma=[0.25, 0.32, 0.4][:dim])
    return cls(2, 2, size=size, causal=causal, mask=mask, **settings).double()


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize(
    ("size", "causal", "spacing"),
    [
        ((65,), False, (2.0,)),
        ((65,), False, (3.0,)),
        ((64,), True, (2.0,)),
        ((64,), True, (5.0,)),
        ((64,), True, (0.5,)),
        ((33,), False, (0.25,)),
        ((17, 21), False, (2.0, 2.0)),
        ((17, 21), False, (1.0, 3.0)),
        ((9, 11), False, (0.5, 2.0)),
        ((9, 9, 13), False, (2.0, 1.0, 3.0)),
    ],
)
def test_kernels_of_all_spacings_agree_where_their_samples_coincide(cls, size, causal, spacing):
    layer = smooth(cls, size, causal=causal)
    with torch.no_grad():
        fine = by_offset(layer.sampled_kernel(), (1.0,) * len(size), causal=causal)
        coarse = by_offset(layer.sampled_kernel(spacing), spacing, causal=causal)
    factor = math.prod(spacing)
    shared = fine.keys() & coarse.keys()
    for delta in shared:
        torch.testing.assert_close(coarse[delta], factor * fine[delta], rtol=1e-10, atol=1e-12)
    assert sum(1 for delta in shared if (fine[delta] != 0).all()) >= 3 ** len(size)
    # What only one of them has, because it was rounded up to a bucket, is zero there if the
    # other could have had it.
    for delta in coarse.keys() - shared:
        if all(float(d).is_integer() for d in delta):
            assert (coarse[delta] == 0).all(), delta
    for delta in fine.keys() - shared:
        if all((d / s).is_integer() for d, s in zip(delta, spacing, strict=True)):
            assert (fine[delta] == 0).all(), delta


def test_every_second_sample_of_an_image_kernel_times_four():
    """The same by slices, for a kernel without a window: nothing is cropped."""
    layer = CKConv(2, 3, size=(33, 17)).double()
    whole = layer.sampled_kernel()
    assert whole.shape == (3, 2, 33, 17)
    torch.testing.assert_close(
        layer.sampled_kernel(2.0), 4 * whole[..., ::2, ::2], rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(
        layer.sampled_kernel((2.0, 1.0)), 2 * whole[..., ::2, :], rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(
        4 * layer.sampled_kernel(0.5)[..., ::2, ::2], whole, rtol=1e-12, atol=1e-12
    )


def test_a_causal_kernel_is_anchored_at_the_present():
    layer = CKConv(1, 1, size=(64,), causal=True).double()
    whole = layer.sampled_kernel()[0, 0]
    coarse = layer.sampled_kernel(2.0)[0, 0]
    assert coarse.shape == (32,)  # lags 0, 2, … 62
    torch.testing.assert_close(coarse, 2 * whole[1::2], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("spacing", "reach"),
    # 16 / (16 / 93) is 92.99… in floating point.
    [(0.7, 22), (1.3, 12), (2.5, 6), (7.9, 2), (16.0, 1), (16 / 93, 93), (17.0, 0), (100.0, 0)],
)
def test_fractional_spacings_stay_inside_the_kernel(spacing, reach):
    """Offsets s·j up to (K-1)/2: never a coordinate outside [-1, 1], always lag zero."""
    layer = CKConv(1, 2, size=(33,), kernel=FourierNet(1, 2, omega_0=1.0)).double()
    kernel = layer.sampled_kernel(spacing)
    assert kernel.shape == (2, 1, 2 * reach + 1)
    coords = torch.arange(-reach, reach + 1, dtype=torch.float64)[:, None] * spacing / 16
    expected = spacing * layer.kernel(coords).T[:, None]
    torch.testing.assert_close(kernel, expected, rtol=1e-10, atol=1e-12)


class Ruler(AbstractKernelNet):
    """The kernel that is its own first coordinate."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, 1, omega_0=None)
        self.output = nn.Linear(1, 1)

    @property
    def last(self) -> nn.Linear:
        return self.output

    def forward(self, coords: Tensor) -> Tensor:
        return coords[..., :1]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("spacing", [1.0, 1.5, 3.0])
def test_coordinates_are_computed_in_float64_and_rounded_once(causal, spacing):
    """At the paper's ω₀ a phase of 1e5 rad cannot afford two roundings."""
    layer = CKConv(1, 1, size=(15999,), causal=causal, kernel=Ruler(1), init="none")
    reach = int((15998 if causal else 7999) / spacing)
    steps = torch.arange(-reach, 1 if causal else reach + 1, dtype=torch.float64)
    coords = steps * (spacing * (2 / 15998)) + (1 if causal else 0)
    assert torch.equal(layer.sampled_kernel(spacing)[0, 0], coords.float() * spacing)
    assert coords.abs().max() <= 1


@pytest.mark.parametrize("cls", LAYERS)
def test_forward_uses_the_spacing_of_the_domain(cls):
    layer = smooth(cls, (17, 21))
    x = signal(layer)
    if layer.mix is not None:
        layer.mix = nn.Identity()
    for spacing in (2.0, (0.5, 1.5)):
        expected = convolve(x, layer.sampled_kernel(spacing))
        torch.testing.assert_close(layer(x, Grid(spacing=spacing)), expected, rtol=0, atol=1e-12)
    assert torch.equal(layer(x, Grid()), layer(x))


@pytest.mark.parametrize("spacing", [0, -1.0, math.nan, math.inf, (1.0, 1.0)])
def test_a_bad_spacing_is_refused_by_name(spacing):
    layer = SeparableFlexConv(1, 1, size=(9,))
    with pytest.raises(ValueError, match="spacing"):
        layer.sampled_kernel(spacing)


# ---------------------------------------------------------------------------------- window, buckets


def test_a_moving_sigma_keeps_the_shape_and_what_lies_beyond_it_is_zero():
    layer = SeparableFlexConv(2, 2, size=(257,), mask=GaussianMask(1, sigma=0.2)).double()
    shapes = set()
    for sigma in (0.196, 0.198, 0.2, 0.202, 0.2035):
        layer.mask.sigma.data.fill_(sigma)
        kernel = layer.sampled_kernel().detach()
        shapes.add(kernel.shape)
        half = kernel.shape[1] // 2
        offsets = torch.arange(-half, half + 1).abs()
        inside = offsets * (2 / 256) <= 2.14597 * sigma
        assert (kernel[:, ~inside] == 0).all()
        assert (kernel[:, inside & (offsets > 0)] != 0).all()
    assert len(shapes) == 1
    assert (~inside).any()  # the bucket does hold zeros


@pytest.mark.parametrize("causal", [False, True])
def test_few_shapes_serve_all_sigmas(causal):
    layer = SeparableFlexConv(1, 1, size=(1025,), causal=causal)
    shapes = set()
    for sigma in torch.linspace(0.01, 0.6, 300).tolist():
        layer.mask.sigma.data.fill_(sigma)
        shapes.add(layer.reach((1.0,)))
    assert len(shapes) < 30  # four per octave and the eight smallest


@pytest.mark.parametrize(("size", "causal"), [(37, False), (35, True)])
@pytest.mark.parametrize("spacing", [1.0, 0.5])
def test_a_bucket_never_exceeds_the_kernel(size, causal, spacing):
    """A reach of 17 samples would be rounded up to 20, where the kernel has 18."""
    layer = SeparableFlexConv(1, 1, size=(size,), causal=causal)
    furthest = size - 1 if causal else (size - 1) // 2
    for sigma in torch.linspace(0.1, 1.2, 60).tolist():
        layer.mask.sigma.data.fill_(sigma)
        assert layer.reach((spacing,))[0] <= furthest / spacing


@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
@pytest.mark.parametrize("cls", WINDOWED)
def test_the_crop_loses_nothing(cls, size, causal):
    """What is sampled, with zeros around it, is the whole windowed kernel."""
    layer = smooth(cls, size, causal=causal)
    layer.mask.sigma.data.mul_(0.5)
    whole = tuple(k - 1 if causal else (k - 1) // 2 for k in layer.kernel_size)
    cropped = by_offset(layer.sampled_kernel(), (1.0,) * len(size), causal=causal)
    complete = by_offset(layer.sampled_kernel(reach=whole), (1.0,) * len(size), causal=causal)
    assert len(complete) > len(cropped)
    for delta, value in complete.items():
        if delta in cropped:
            torch.testing.assert_close(value, cropped[delta], rtol=0, atol=1e-12)
        else:
            assert (value == 0).all()


@pytest.mark.parametrize("spacing", [(1.0, 1.0), (0.5, 2.0)])
def test_one_read_gives_the_reach_of_every_layer(spacing):
    layers = [
        SeparableFlexConv(2, 2, size=(65, 33), mask=GaussianMask(2, sigma=(0.1, 0.6))),
        CKConv(1, 1, size=(9, 9)),
        FlexConv(1, 2, size=(33, 33)),
        SeparableFlexConv(2, 2, size=(5, 129), mask=GaussianMask(2, sigma=(-0.2, 1e-9))),
    ]
    reaches = read_reaches(layers, spacing)
    assert reaches == [layer.reach(spacing) for layer in layers]
    assert len(set(reaches)) == 4
    for layer, reach in zip(layers, reaches, strict=True):
        kernel = layer.sampled_kernel(spacing)
        assert kernel.shape[-2:] == tuple(2 * n + 1 for n in reach)
        x = signal(layer)
        domain = Grid(spacing=spacing)
        assert torch.equal(layer(x, domain, reach=reach), layer(x, domain))
    assert read_reaches([], spacing) == []


# ------------------------------------------------------------------------------------ parts by hand


@pytest.mark.parametrize("cls", LAYERS)
def test_a_layer_uses_the_parts_it_is_given(cls):
    kernels = 3 if cls is SeparableFlexConv else 6
    net = FourierNet(2, kernels, hidden=4)
    mask = None if cls is CKConv else GaussianMask(2, sigma=(0.3, 0.4), learn_mean=True)
    layer = cls(3, 2, size=(9, 9), kernel=net, mask=mask)
    assert layer.kernel is net
    assert layer.mask is mask
    stepped(layer)
    assert all(p.grad is not None for p in layer.parameters())


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
def test_gradients_reach_every_parameter(cls, size, causal):
    layer = stepped(cls(3, 2, size=size, causal=causal))
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("cls", LAYERS)
def test_a_kernel_for_another_layer_is_refused_with_what_is_needed(cls):
    kernels = 3 if cls is SeparableFlexConv else 6
    needed = re.escape(f"needs dim=1, out_channels={kernels}")
    with pytest.raises(ValueError, match=r"kernel.*dim=2.*" + needed):
        cls(3, 2, size=(9,), kernel=MAGNet(2, kernels))
    with pytest.raises(ValueError, match=r"kernel.*out_channels=2.*" + needed):
        cls(3, 2, size=(9,), kernel=MAGNet(1, 2))


@pytest.mark.parametrize("given", [False, True], ids=["default-kernel", "own-kernel"])
@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("cls", WINDOWED)
def test_a_mask_of_another_dimension_is_refused_by_name(cls, dim, given):
    kernels = 3 if cls is SeparableFlexConv else 6
    kernel = MAGNet(2, kernels) if given else None
    with pytest.raises(ValueError, match=f"mask.*dim={dim}.*dim=2"):
        cls(3, 2, size=(9, 9), kernel=kernel, mask=GaussianMask(dim))


def test_ckconv_refuses_a_mask():
    with pytest.raises(ValueError, match=r"CKConv has no window.*FlexConv"):
        CKConv(1, 1, size=(9,), mask=GaussianMask(1))


def test_the_default_network_looks_where_the_window_is():
    causal = SeparableFlexConv(4, 4, size=(784,), causal=True)
    centred = SeparableFlexConv(4, 4, size=(785, 5))
    for g in causal.kernel.filters:  # 1 - 1.667 · 0.075, facts 2.1
        assert g.centre.min() >= 1 - 0.12503
        assert g.centre.max() <= 1
    for g in centred.kernel.filters:  # σ = 0.075 and 2/(K-1) = 0.5
        assert g.centre[:, 0].abs().max() <= 0.12503
        assert 0.12503 < g.centre[:, 1].abs().max() <= 1.667 * 0.5


# ------------------------------------------------------------------------------------ bad arguments


@pytest.mark.parametrize("size", [784, (), (0,), (-3, 4), (4.0,), "784", [8, None]])
@pytest.mark.parametrize("cls", LAYERS)
def test_a_bad_size_is_refused_by_name(cls, size):
    with pytest.raises(ValueError, match=r"size must be a tuple of positive integers.*got "):
        cls(1, 1, size=size)


@pytest.mark.parametrize("kernel_size", [2, 10, (3, 4), (4, 3)])
def test_an_even_centred_kernel_is_refused_with_the_way_out(kernel_size):
    with pytest.raises(ValueError, match=r"kernel_size (2|4|10) is even.*use (3|5|11)"):
        SeparableFlexConv(1, 1, size=(9, 9), kernel_size=kernel_size)


@pytest.mark.parametrize("kernel_size", ["sam", 0, -3, (3,), (3, 3, 3), (3.0, 3)])
def test_a_bad_kernel_size_is_refused_by_name(kernel_size):
    with pytest.raises(ValueError, match="kernel_size"):
        SeparableFlexConv(1, 1, size=(9, 9), kernel_size=kernel_size)


@pytest.mark.parametrize("cls", LAYERS)
def test_causal_needs_one_axis(cls):
    with pytest.raises(ValueError, match=r"causal.*D = 1.*\(9, 9\)"):
        cls(1, 1, size=(9, 9), causal=True)


@pytest.mark.parametrize("shape", [(2, 4, 9, 9), (2, 3, 9), (2, 3, 9, 9, 9), (3, 9, 9), (9,), ()])
@pytest.mark.parametrize("cls", LAYERS)
def test_a_signal_of_another_shape_is_refused_with_both_shapes(cls, shape):
    layer = cls(3, 2, size=(9, 9))
    with pytest.raises(ValueError, match=r"x must have shape \(B, 3, .*" + re.escape(f"{shape}")):
        layer(torch.randn(shape))


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64],
)
@pytest.mark.parametrize("cls", LAYERS)
def test_a_signal_of_another_dtype_is_refused_by_name(cls, dtype):
    layer = cls(1, 1, size=(9,))
    with pytest.raises(TypeError, match=f"x is {dtype}"):
        layer(torch.ones(1, 1, 9, dtype=dtype))


@pytest.mark.parametrize("cls", LAYERS)
def test_a_layer_in_half_precision_is_refused_on_a_cpu(cls):
    layer = cls(1, 1, size=(9,)).half()
    with pytest.raises(TypeError, match=r"float16.*autocast"):
        layer(torch.ones(1, 1, 9, dtype=torch.float16))


@pytest.mark.parametrize("cls", LAYERS)
def test_a_signal_of_another_precision_than_the_layer_is_refused(cls):
    layer = cls(1, 1, size=(9,))
    with pytest.raises(TypeError, match=r"x is torch.float64.*torch.float32"):
        layer(torch.ones(1, 1, 9, dtype=torch.float64))
    assert layer.double()(torch.ones(1, 1, 9, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize("cls", LAYERS)
def test_autocast_leaves_the_kernel_in_full_precision(cls):
    layer = cls(2, 2, size=(65,))
    x = signal(layer)
    expected, kernel = layer(x), layer.sampled_kernel()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer.sampled_kernel(), kernel)
        y = layer(x)
    # bfloat16 has 8 bits; only the mixer may use it.
    torch.testing.assert_close(y.float(), expected, rtol=0.02, atol=0.02)


# --------------------------------------------------------------------------- alone, state, copies


class TinyNetwork(nn.Module):
    """Somebody else's network with one of our layers in place of nn.Conv."""

    def __init__(self, layer: nn.Module, channels: int) -> None:
        super().__init__()
        self.conv = layer
        self.head = nn.Linear(channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(nn.functional.gelu(self.conv(x)).movedim(1, -1)).movedim(-1, 1)


@pytest.mark.parametrize(("size", "causal"), [((24,), True), ((24,), False), ((9, 8), False)])
@pytest.mark.parametrize("cls", LAYERS)
def test_a_layer_trains_alone_in_any_module(cls, size, causal):
    """Learn the mean of each sample and the one before."""
    network = TinyNetwork(cls(1, 8, size=size, causal=causal), 8)
    x = torch.randn(32, 1, *size)
    target = (x + x.roll(1, dims=-1)) / 2
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    losses = []
    for _ in range(30):
        loss = nn.functional.mse_loss(network(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("cls", LAYERS)
def test_a_layer_fits_between_the_modules_of_a_sequential(cls):
    network = nn.Sequential(cls(1, 4, size=(16,)), nn.GELU(), cls(4, 2, size=(16,)))
    assert network(torch.randn(3, 1, 16)).shape == (3, 2, 16)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
@pytest.mark.parametrize("cls", LAYERS)
def test_a_layer_is_complete_when_built(cls, size, causal, mode):
    """The reference re-weights itself and freezes its length at the first forward."""
    layer = cls(3, 2, size=size, causal=causal).train(mode == "train")
    before = copy.deepcopy(layer.state_dict())
    layer(signal(layer, size=[n + 3 for n in size]))
    layer(signal(layer), Grid(spacing=2.0))
    stepped(layer)
    assert states_equal(layer.state_dict(), before)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
@pytest.mark.parametrize("cls", LAYERS)
def test_a_state_dict_carries_everything(cls, size, causal, trained):
    layer = cls(3, 2, size=size, causal=causal)
    if trained:
        stepped(layer)
        torch.optim.SGD(layer.parameters(), lr=1e-3).step()
    fresh = cls(3, 2, size=size, causal=causal)
    x = signal(layer)
    assert not torch.equal(fresh(x), layer(x))
    fresh.load_state_dict(layer.state_dict())
    assert torch.equal(fresh(x), layer(x))
    assert torch.equal(fresh(x, Grid(spacing=1.5)), layer(x, Grid(spacing=1.5)))


@pytest.mark.parametrize("cls", LAYERS)
@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))],
    ids=["deepcopy", "pickle"],
)
def test_copies_work_after_a_forward_and_a_backward(cls, duplicate):
    """The reference keeps its last kernel, graph and all, which cannot be copied."""
    layer = cls(2, 2, size=(9, 8))
    x = signal(layer)
    y = layer(x)  # a live graph
    other = duplicate(layer)
    assert torch.equal(other(x), y)
    y.square().sum().backward()
    other = duplicate(layer)
    assert torch.equal(other(x), layer(x))
    with torch.no_grad():
        other.bias.add_(1.0)
    assert not torch.equal(other(x), layer(x))


@pytest.mark.parametrize("cls", LAYERS)
def test_no_tensor_of_a_pass_is_kept(cls):
    layer = cls(2, 2, size=(9,))
    own = {id(t) for t in (*layer.parameters(), *layer.buffers())}
    stepped(layer)
    kept = [
        (name, value)
        for module in layer.modules()
        for name, value in vars(module).items()
        if isinstance(value, Tensor)
    ]
    assert kept == []
    assert {id(t) for t in (*layer.parameters(), *layer.buffers())} == own


@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
@pytest.mark.parametrize("cls", LAYERS)
def test_functional_call_uses_the_parameters_it_is_given(cls, size, causal):
    layer, other = (cls(2, 2, size=size, causal=causal) for _ in range(2))
    if cls is not CKConv:
        other.mask.sigma.data.mul_(1.7)  # another crop as well
    x = signal(layer)
    own = layer(x)
    parameters = dict(other.named_parameters())
    result = torch.func.functional_call(layer, parameters, (x,))
    assert torch.equal(result, other(x))
    assert not torch.equal(result, own)
    assert torch.equal(layer(x), own)  # and leaves no trace
    result.square().sum().backward()
    assert all(p.grad is None for p in layer.parameters())
    assert all(p.grad is not None for p in other.parameters())


def test_functional_call_with_another_sigma_alone_samples_another_support():
    layer = SeparableFlexConv(1, 1, size=(65,), mask=GaussianMask(1, sigma=0.1))
    wide = copy.deepcopy(layer)
    wide.mask.sigma.data.fill_(0.8)
    assert wide.sampled_kernel().shape != layer.sampled_kernel().shape
    x = signal(layer)
    result = torch.func.functional_call(layer, {"mask.sigma": torch.tensor([0.8])}, (x,))
    assert torch.equal(result, wide(x))


def test_gradients_of_a_layer_are_those_of_its_function():
    layer = SeparableFlexConv(
        2, 2, size=(6,), kernel=MAGNet(1, 2, hidden=4), mask=GaussianMask(1, sigma=1.0)
    ).double()
    names = [name for name, _ in layer.named_parameters()]
    x = signal(layer, batch=1).requires_grad_()

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))


def test_repr_shows_the_geometry():
    text = repr(SeparableFlexConv(3, 5, size=(32, 32), kernel_size=7))
    assert "3, 5, size=(32, 32), kernel_size=(7, 7), causal=False" in text
