"""A figure shows what a layer uses: drawn data are compared with sampled kernels."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from ccnn.nn import CKConv, FlexConv, FourierNet, GaussianMask, MAGNet, SeparableFlexConv
from ccnn.plots import (
    panels,
    plot_agreement,
    plot_confusion,
    plot_dimensions,
    plot_history,
    plot_kernel,
    plot_kernel_sizes,
    plot_masks,
    plot_resolutions,
    plot_sigmas,
    plot_spectrum,
    save_figure,
)
from ccnn.plots.colours import fading


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def layer(*size: int, **settings) -> SeparableFlexConv:
    mask = GaussianMask(len(size), sigma=0.2)
    return SeparableFlexConv(3, 3, size=size, mask=mask, **settings)


def test_a_1d_kernel_is_a_line_over_positions_around_lag_zero():
    conv = layer(41)
    lines = plot_kernel(conv, spacing=0.5, channels=[0, 2]).get_lines()
    kernel = conv.sampled_kernel(0.5).detach().numpy()
    reach = kernel.shape[1] // 2
    for line, channel in zip(lines, (0, 2), strict=False):
        np.testing.assert_allclose(line.get_xdata(), 0.5 * np.arange(-reach, reach + 1))
        np.testing.assert_array_equal(line.get_ydata(), kernel[channel])


def test_a_causal_kernel_ends_at_lag_zero():
    conv = layer(40, causal=True)
    positions = plot_kernel(conv).get_lines()[0].get_xdata()
    assert positions[-1] == 0
    assert positions[0] == 1 - conv.sampled_kernel().shape[-1]


@pytest.mark.parametrize("size", [(21, 31), (9, 21, 31), (5, 9, 21, 31)])
def test_higher_kernels_are_an_image_through_lag_zero(size):
    conv = layer(*size)
    ax = plot_kernel(conv, spacing=0.5, channels=1)
    kernel = conv.sampled_kernel(0.5)[1].detach()
    while kernel.ndim > 2:
        kernel = kernel[len(kernel) // 2]
    (image,) = ax.get_images()
    np.testing.assert_array_equal(image.get_array(), kernel.numpy())
    left, right, bottom, top = image.get_extent()
    assert (left, top) == (-right, -bottom)
    assert right == pytest.approx(0.5 * kernel.shape[1] / 2)  # samples are pixels of their width
    assert bottom == pytest.approx(0.5 * kernel.shape[0] / 2)  # rows go down, as in the tensor


def test_an_image_is_white_at_zero():
    (image,) = plot_kernel(layer(21, 21)).get_images()
    low, high = image.get_clim()
    assert low == -high


def test_kernels_of_a_dense_layer_are_counted_over_pairs():
    conv = FlexConv(2, 3, size=(21,))
    line = plot_kernel(conv, channels=5).get_lines()[0]
    np.testing.assert_array_equal(line.get_ydata(), conv.sampled_kernel()[2, 1].detach().numpy())


@pytest.mark.parametrize("channels", [3, -1, [0, 7]])
def test_a_kernel_that_is_not_there_is_named(channels):
    with pytest.raises(ValueError, match=r"there is no kernel .*has 3"):
        plot_kernel(layer(21), channels=channels)


def test_an_image_of_two_kernels_is_refused():
    with pytest.raises(ValueError, match="exactly one"):
        plot_kernel(layer(21, 21), channels=[0, 1])


@pytest.mark.parametrize(
    ("size", "causal"), [((41,), False), ((41,), True), ((21, 41), False), ((9, 21, 41), False)]
)
def test_samples_of_all_resolutions_lie_on_one_curve(size, causal):
    ax = plot_resolutions(layer(*size, causal=causal), (2.0, 0.5, 1.0))
    curve, *samples = ax.get_lines()
    assert [line.get_label() for line in samples] == [f"spacing {s}" for s in ("0.5", "1", "2")]
    known = dict(zip(curve.get_xdata(), curve.get_ydata(), strict=True))
    scale = float(np.abs(curve.get_ydata()).max())
    for line in samples:
        assert len(line.get_xdata()) > 3
        for position, value in zip(line.get_xdata(), line.get_ydata(), strict=True):
            # Both are the same function at the same float32 coordinate, to rounding.
            assert float(known[position]) == pytest.approx(float(value), abs=1e-5 * scale)


def test_resolutions_of_nothing_are_refused():
    with pytest.raises(ValueError, match="spacings is empty"):
        plot_resolutions(layer(21), [])


def one_sine(frequency: float, size: int = 101) -> CKConv:
    """Return a layer whose kernel is a sine with a given number of cycles per training sample."""
    net = FourierNet(1, 1, hidden=1, layers=0, omega_0=1.0)
    with torch.no_grad():
        net.filters[0].weight.fill_(2 * math.pi * frequency * (size - 1) / 2)
    return CKConv(1, 1, size=(size,), kernel=net)


@pytest.mark.parametrize("frequency", [0.1, 0.4, 0.6, 3.1, 40.1])
def test_the_spectrum_of_a_sine_peaks_at_its_frequency(frequency):
    line = plot_spectrum(one_sine(frequency)).get_lines()[0]
    peak = line.get_xdata()[np.argmax(line.get_ydata())]
    assert peak == pytest.approx(frequency, abs=0.01)  # a kernel of 101 samples resolves 1/101


def test_the_legend_says_how_much_lies_below_nyquist():
    (ax,) = panels()
    plot_spectrum(one_sine(0.1), label="slow", ax=ax)
    plot_spectrum(one_sine(3.1), label="fast", ax=ax)
    slow, nyquist, fast = ax.get_legend_handles_labels()[1]
    assert nyquist == "Nyquist"  # once
    assert float(slow.removeprefix("slow: ").split("%")[0]) > 99
    assert float(fast.removeprefix("fast: ").split("%")[0]) < 1


def test_auto_keeps_a_fresh_kernel_below_nyquist_and_the_papers_omega_does_not():
    shares = []
    for omega_0 in ("auto", 2976.49):
        torch.manual_seed(0)
        net = MAGNet(1, 8, omega_0=omega_0, spread=0.125, causal=True)
        conv = SeparableFlexConv(8, 8, size=(784,), kernel=net, causal=True)
        label = plot_spectrum(conv).get_legend_handles_labels()[1][0]
        shares.append(float(label.split("%")[0]))
    assert shares[0] > 95
    assert shares[1] < 30


@pytest.mark.parametrize("plot", [plot_kernel, plot_spectrum])
def test_axes_are_used_if_given_and_made_if_not(plot):
    (ax,) = panels()
    assert plot(layer(21), ax=ax) is ax
    assert not plt.get_fignums()
    assert plot(layer(21)) is plt.gca()


def test_axes_have_names_and_units():
    axes = panels(3)
    plot_kernel(layer(21, 21), ax=axes[0])
    plot_resolutions(layer(21, 21), [1.0], ax=axes[1])
    plot_spectrum(layer(21, 21), ax=axes[2])
    for ax, unit in zip(axes, ("training samples", "training samples", "cycles"), strict=True):
        assert unit in ax.get_xlabel()
        assert ax.get_ylabel()


def test_figures_are_written(tmp_path):
    ax = plot_kernel(layer(21), ax=panels(2)[1])
    save_figure(ax, tmp_path / "kernel.svg")
    assert "<svg" in (tmp_path / "kernel.svg").read_text()


def test_drawing_leaves_the_layer_alone():
    conv = layer(21)
    before = {name: value.clone() for name, value in conv.state_dict().items()}
    plot_kernel(conv)
    plot_spectrum(conv)
    assert all(torch.equal(before[name], value) for name, value in conv.state_dict().items())
    assert all(p.grad is None for p in conv.parameters())


def test_curves_are_drawn_over_their_epochs_and_the_kept_one_is_marked():
    curves = {"train": [3.0, 2.0, 1.0], "validation": [4.0, math.nan, 2.5]}
    ax = plot_history([0, 1, 2], curves, ylabel="loss", best=2)
    train, validation, best = ax.get_lines()
    np.testing.assert_array_equal(train.get_ydata(), curves["train"])
    np.testing.assert_array_equal(validation.get_ydata(), curves["validation"])
    np.testing.assert_array_equal(best.get_xydata(), [[2, 2.5]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("epoch", "loss")
    assert [text.get_text() for text in ax.texts] == ["train", "validation"]


def test_names_of_curves_that_end_together_do_not_touch():
    curves = {name: [0.0, 1.0] for name in "abcd"} | {"far": [0.0, 9.0]}
    ax = plot_history([0, 1], curves, ylabel="loss")
    heights = sorted(text.xy[1] for text in ax.texts)
    assert min(np.diff(heights)) > 0.08  # of the axes' height


@pytest.mark.parametrize("curves", [{}, {"train": [1.0]}])
def test_curves_that_do_not_fit_their_epochs_are_refused(curves):
    with pytest.raises(ValueError, match=r"curves is empty|1 values for 2 epochs"):
        plot_history([0, 1], curves, ylabel="loss")


@pytest.mark.parametrize("plot", [plot_kernel_sizes, plot_sigmas])
def test_each_layer_and_axis_is_a_line_over_training(plot):
    values = np.arange(1.0, 13.0).reshape(3, 2, 2)  # three epochs, two layers, two axes
    ax = plot([5, 6, 7], values)
    lines = ax.get_lines()
    drawn = [line.get_ydata() for line in lines]
    np.testing.assert_array_equal(drawn, values.reshape(3, 4).T)
    assert [line.get_linestyle() for line in lines] == ["-", "--", "-", "--"]
    assert lines[0].get_color() == lines[1].get_color() != lines[2].get_color()
    assert [text.get_text() for text in ax.texts] == ["stem", "block 1"]
    with pytest.raises(ValueError, match=r"\(epochs, layers, D\) with 2 epochs"):
        plot([0, 1], values)


def test_the_sign_of_a_width_does_not_matter():
    line = plot_sigmas([0], [[[-0.2]]]).get_lines()[0]
    assert line.get_ydata() == pytest.approx([0.2])


def test_confusions_are_coloured_by_row_and_numbered():
    ax = plot_confusion([[3, 1], [0, 0]], labels=["cat", "dog"])
    np.testing.assert_array_equal(ax.get_images()[0].get_array(), [[0.75, 0.25], [0, 0]])
    assert {(t.get_position(), t.get_text()) for t in ax.texts} == {((0, 0), "3"), ((1, 0), "1")}
    assert [t.get_text() for t in ax.get_yticklabels()] == ["cat", "dog"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted class", "true class")


def test_many_classes_have_no_numbers_and_few_ticks():
    ax = plot_confusion(np.eye(100, dtype=int))
    assert not ax.texts
    assert len(ax.get_xticks()) <= 20


@pytest.mark.parametrize(
    ("matrix", "labels"), [(np.zeros((2, 3)), None), (np.zeros(4), None), (np.eye(2), ["one"])]
)
def test_what_is_no_confusion_matrix_is_refused(matrix, labels):
    with pytest.raises(ValueError, match=r"\(classes, classes\)|2 classes, but 1 labels"):
        plot_confusion(matrix, labels=labels)


def test_agreement_is_a_dot_per_sample_and_a_line():
    line, dots = plot_agreement([0.0, 2.0], [1.0, 3.0]).get_lines()
    np.testing.assert_array_equal(dots.get_xydata(), [[0, 1], [2, 3]])
    np.testing.assert_array_equal(line.get_xydata(), [[0, 0], [3, 3]])
    with pytest.raises(ValueError, match="2 targets and 1 values"):
        plot_agreement([1, 2], [1])


def test_models_of_one_data_set_share_a_row():
    rows = {"MNIST": {"1-D": 99.0, "2-D": 99.5}, "CIFAR-10": {"2-D": 93.0, "1-D": 90.0}}
    ax = plot_dimensions(rows)
    dots = {
        (line.get_label(), *map(float, line.get_xydata()[0]))
        for line in ax.get_lines()
        if line.get_marker() == "o"
    }
    assert dots == {("1-D", 99.0, 0), ("2-D", 99.5, 0), ("1-D", 90.0, 1), ("2-D", 93.0, 1)}
    colours = {(line.get_label(), line.get_color()) for line in ax.get_lines()}
    assert len([c for label, c in colours if label in ("1-D", "2-D")]) == 2
    assert [t.get_text() for t in ax.get_yticklabels()] == ["MNIST", "CIFAR-10"]
    with pytest.raises(ValueError, match="accuracies is empty"):
        plot_dimensions({})


@pytest.mark.parametrize("causal", [False, True])
def test_windows_end_where_the_kernel_is_cut(causal):
    layers = [
        SeparableFlexConv(2, 2, size=(101,), mask=GaussianMask(1, sigma=sigma), causal=causal)
        for sigma in (0.1, 0.2)
    ]
    ax = plot_masks(layers)
    for depth, (line, conv) in enumerate(zip(ax.get_lines(), layers, strict=True)):
        reach = float(conv.mask.extent()[0]) * (100 if causal else 50) / (2 if causal else 1)
        x, y = (np.asarray(v) for v in line.get_data())
        assert x[0] == pytest.approx(-reach, rel=1e-5)
        assert x[-1] == pytest.approx(0 if causal else reach, rel=1e-5)
        sigma = conv.mask.sigma.item() * 50
        np.testing.assert_allclose(y - depth, 0.85 * np.exp(-0.5 * (x / sigma) ** 2), atol=2e-3)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["stem", "block 1"]


def test_a_window_has_a_line_per_axis_and_none_is_flat():
    mask = GaussianMask(2, sigma=[0.1, 0.4])
    lines = plot_masks([SeparableFlexConv(2, 2, size=(51, 51), mask=mask)]).get_lines()
    assert len(lines) == 2
    assert lines[1].get_xdata()[-1] == pytest.approx(4 * lines[0].get_xdata()[-1], rel=1e-5)
    (line,) = plot_masks([CKConv(1, 1, size=(21,))]).get_lines()
    np.testing.assert_allclose(line.get_ydata(), 0.85, rtol=1e-6)
    with pytest.raises(ValueError, match="layers is empty"):
        plot_masks([])


def test_the_colours_of_an_image_have_a_scale_unless_one_asks_for_none():
    for colorbar, axes in ((True, 2), (False, 1)):
        ax = plot_kernel(layer(21, 21), colorbar=colorbar, ax=panels()[0])
        assert len(ax.figure.axes) == axes


def test_zero_is_transparent_so_that_the_page_shows_through():
    ends, middle = fading("blue", "red")([0.0, 1.0]), fading("blue", "red")(0.5)
    np.testing.assert_allclose(ends, [[0, 0, 1, 1], [1, 0, 0, 1]], atol=0.01)
    assert middle[3] == pytest.approx(0, abs=0.01)
    assert fading("blue")(0.0)[3] == 0
