"""`convolve`: every method is the definition, in every dimension, with gradients.

A new method is one more row of `METHODS`.
"""

import math
import signal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ccnn.ops import conv as conv_module
from ccnn.ops import convolve, good_size

# Method: how much of the future may reach a causal output, relative to the largest one. A sum
# over the taps meets no later sample at all; an FFT mixes all of them, and leaves rounding.
METHODS = {
    "direct": 0.0,
    "fft": 1e-14,
    "blocks": 1e-14,
}
each_method = pytest.mark.parametrize("method", METHODS)
each_name = pytest.mark.parametrize("method", [*METHODS, "auto"])

# The numbers, relative to the largest output.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def judge(x: Tensor, kernel: Tensor, *, causal: bool = False) -> Tensor:
    """y[b, o, t] = Σ_i Σ_k K[o, i, k] x[b, i, t + k - origin], in float64, as it is written."""
    values, taps = x.double().numpy(), kernel.double().numpy()
    if kernel.ndim < x.ndim:  # one kernel per channel: a diagonal of kernels
        taps = np.einsum("i...,io->oi...", taps, np.eye(len(taps)))
    signal_size, kernel_size = values.shape[2:], taps.shape[2:]
    y = np.zeros((len(values), len(taps), *signal_size))
    for t in np.ndindex(*signal_size):
        for k in np.ndindex(*kernel_size):
            origins = (n - 1 if causal else n // 2 for n in kernel_size)
            source = tuple(a + b - o for a, b, o in zip(t, k, origins, strict=True))
            if all(0 <= s < n for s, n in zip(source, signal_size, strict=True)):
                y[(..., *t)] += values[(..., *source)] @ taps[(..., *k)].T
    return torch.from_numpy(y)


def assert_equal_to_rounding(y: Tensor, expected: Tensor) -> None:
    assert y.shape == expected.shape
    largest = float(expected.abs().max())
    error = float((y.double() - expected.double()).abs().max())
    assert error <= TOLERANCE[y.dtype] * largest


def random(*shape: int, dtype: torch.dtype = torch.float64, contiguous: bool = True) -> Tensor:
    if contiguous:
        return torch.randn(shape, dtype=dtype)
    return torch.randn(shape[::-1], dtype=dtype).permute(*reversed(range(len(shape))))


def pair(
    signal_size: tuple[int, ...],
    kernel_size: tuple[int, ...],
    *,
    dense: bool,
    batch: int = 2,
    channels: int = 3,
    contiguous: bool = True,
) -> tuple[Tensor, Tensor]:
    x = random(batch, channels, *signal_size, contiguous=contiguous)
    outputs = (channels + 1,) if dense else ()
    return x, random(*outputs, channels, *kernel_size, contiguous=contiguous)


def test_the_table_of_this_file_holds_every_method():
    assert {*METHODS, "auto"} == set(conv_module.METHODS)


# The definition

# Longest signal and kernel per D: each kernel may be more than twice as long as the signal,
# and the loop stays within some ten thousand steps.
LONGEST = {1: (24, 60), 2: (6, 13), 3: (3, 7), 4: (3, 5)}


@st.composite
def cases(draw: st.DrawFn, dim: int) -> dict:
    longest_signal, longest_kernel = LONGEST[dim]
    return {
        "signal_size": draw(st.tuples(*[st.integers(1, longest_signal)] * dim)),
        "kernel_size": draw(st.tuples(*[st.integers(1, longest_kernel)] * dim)),
        "causal": draw(st.booleans()) if dim == 1 else False,
        "dense": draw(st.booleans()),
        "batch": draw(st.integers(1, 2)),
        "channels": draw(st.integers(1, 3)),
        "contiguous": draw(st.booleans()),
    }


def check_against_the_judge(method: str, case: dict) -> None:
    causal = case.pop("causal")
    x, kernel = pair(**case)
    expected = judge(x, kernel, causal=causal)
    assert_equal_to_rounding(convolve(x, kernel, causal=causal, method=method), expected)
    x, kernel = x.float(), kernel.float()
    expected = judge(x, kernel, causal=causal)
    assert_equal_to_rounding(convolve(x, kernel, causal=causal, method=method), expected)


@each_name
@given(case=cases(1))
def test_1d_equals_the_loop(method, case):
    check_against_the_judge(method, case)


@each_name
@given(case=cases(2))
def test_2d_equals_the_loop(method, case):
    check_against_the_judge(method, case)


@each_name
@given(case=cases(3))
def test_3d_equals_the_loop(method, case):
    check_against_the_judge(method, case)


@each_name
@given(case=cases(4))
def test_4d_equals_the_loop(method, case):
    check_against_the_judge(method, case)


# What hypothesis may or may not draw, and must not be missed.
CORNERS = [
    ((1,), (1,)),
    ((1,), (2,)),
    ((1,), (9,)),
    ((2,), (1,)),
    ((7,), (7,)),
    ((8,), (8,)),
    ((7,), (8,)),
    ((8,), (15,)),
    ((8,), (16,)),
    ((8,), (17,)),
    ((5,), (64,)),
    ((5,), (65,)),
    ((1, 1), (3, 4)),
    ((1, 9), (9, 1)),
    ((2, 7), (9, 2)),
    ((4, 1, 3), (2, 5, 3)),
    ((2, 1, 2, 3), (1, 4, 3, 2)),
]


@each_name
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(("signal_size", "kernel_size"), CORNERS)
def test_corners_equal_the_loop(method, dense, signal_size, kernel_size):
    for causal in [False, True] if len(signal_size) == 1 else [False]:
        for batch in (1, 2):
            case = {"signal_size": signal_size, "kernel_size": kernel_size, "dense": dense}
            check_against_the_judge(method, case | {"causal": causal, "batch": batch})


@each_method
@pytest.mark.parametrize("length", [997, 1000])
@pytest.mark.parametrize("taps", [3, 64, 999, 1000, 2500])
@pytest.mark.parametrize("causal", [False, True])
def test_a_long_signal_equals_numpy(method, length, taps, causal):
    """np.convolve is a second judge, quick enough for the lengths that are used."""
    for dtype in TOLERANCE:
        x, kernel = random(1, 1, length, dtype=dtype), random(1, taps, dtype=dtype)
        flipped = kernel[0].flip(0).double().numpy()
        full = np.convolve(x[0, 0].double().numpy(), flipped)
        start = 0 if causal else taps - 1 - taps // 2
        expected = torch.from_numpy(full[start : start + length])[None, None]
        assert_equal_to_rounding(convolve(x, kernel, causal=causal, method=method), expected)


TORCH_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@each_name
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    ("signal_size", "kernel_size"),
    [((31,), (7,)), ((30,), (8,)), ((9, 14), (5, 3)), ((9, 14), (4, 6)), ((5, 6, 7), (3, 2, 5))],
)
def test_equals_torch(method, dense, signal_size, kernel_size):
    x, kernel = pair(signal_size, kernel_size, dense=dense)
    conv = TORCH_CONV[len(signal_size)]
    padding = tuple(k // 2 for k in kernel_size)
    if dense:
        expected = conv(x, kernel, padding=padding)
    else:
        expected = conv(x, kernel[:, None], padding=padding, groups=len(kernel))
    # torch returns one sample more where K is even.
    expected = expected[(..., *(slice(n) for n in signal_size))]
    assert_equal_to_rounding(convolve(x, kernel, method=method), expected)


@each_name
@pytest.mark.parametrize("taps", [1, 6, 7, 40])
def test_causal_equals_torch_with_zeros_before(method, taps):
    x, kernel = pair((31,), (taps,), dense=True)
    expected = F.conv1d(F.pad(x, (taps - 1, 0)), kernel)
    assert_equal_to_rounding(convolve(x, kernel, causal=True, method=method), expected)


@each_method
def test_it_is_a_correlation_a_tap_after_the_middle_sees_the_future(method):
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    kernel = torch.tensor([[0.0, 0.0, 1.0]])
    expected = torch.tensor([[[2.0, 3.0, 4.0, 0.0]]])
    torch.testing.assert_close(convolve(x, kernel, method=method), expected)


@each_method
@pytest.mark.parametrize("kernel_size", [(5, 5, 5), (4, 4, 4), (3, 6, 8), (1, 2, 13)])
def test_a_single_tap_at_the_middle_is_the_identity(method, kernel_size):
    x, kernel = pair((4, 5, 6), kernel_size, dense=False)
    kernel = torch.zeros_like(kernel)
    kernel[(..., *(k // 2 for k in kernel_size))] = 1
    assert_equal_to_rounding(convolve(x, kernel, method=method), x)


@each_method
def test_dense_with_a_diagonal_of_kernels_is_depthwise(method):
    x, kernel = pair((6, 7), (3, 4), dense=False)
    dense = torch.diag_embed(kernel.movedim(0, -1)).movedim((-2, -1), (0, 1))
    expected = convolve(x, kernel, method=method)
    assert_equal_to_rounding(convolve(x, dense, method=method), expected)


@pytest.mark.parametrize("taps", [1, 49, 50, 51, 52, 200])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_auto_equals_every_method(taps, dense, causal):
    x, kernel = pair((101,), (taps,), dense=dense)
    auto = convolve(x, kernel, causal=causal, method="auto")
    torch.testing.assert_close(auto, convolve(x, kernel, causal=causal), rtol=0, atol=0)
    for method in METHODS:
        assert_equal_to_rounding(auto, convolve(x, kernel, causal=causal, method=method))


@each_name
def test_inputs_are_not_changed(method):
    x, kernel = pair((8,), (60,), dense=False)
    before = x.clone(), kernel.clone()
    convolve(x, kernel, method=method)
    torch.testing.assert_close((x, kernel), before, rtol=0, atol=0)


@each_method
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    ("signal_size", "kernel_size"), [((5,), (3,)), ((2, 3, 2, 2), (3, 1, 2, 1))]
)
def test_an_empty_batch_gives_an_empty_batch(method, dense, signal_size, kernel_size):
    x, kernel = pair(signal_size, kernel_size, dense=dense, batch=0)
    y = convolve(x, kernel, method=method)
    assert y.shape == (0, 4 if dense else 3, *signal_size)


# Gradients


@each_name
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    ("signal_size", "kernel_size", "causal"),
    [
        ((6,), (3,), False),
        ((5,), (4,), False),
        ((1,), (1,), False),
        ((3,), (8,), False),
        ((6,), (3,), True),
        ((5,), (4,), True),
        ((3,), (8,), True),
        ((3, 4), (3, 2), False),
        ((2, 3), (5, 4), False),
        ((2, 3, 2), (1, 2, 3), False),
        ((2, 1, 2, 2), (2, 3, 1, 2), False),
    ],
)
def test_gradients(method, dense, signal_size, kernel_size, causal):
    x, kernel = pair(signal_size, kernel_size, dense=dense, channels=2)
    x.requires_grad_()
    kernel.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, kernel: convolve(x, kernel, causal=causal, method=method), (x, kernel)
    )


@each_method
@pytest.mark.parametrize("dense", [False, True])
def test_second_gradients(method, dense):
    x, kernel = pair((4,), (3,), dense=dense, batch=1, channels=2)
    x.requires_grad_()
    kernel.requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda x, kernel: convolve(x, kernel, method=method), (x, kernel)
    )


@each_method
def test_taps_that_meet_no_sample_get_no_gradient(method):
    """Lags of S and more lie outside the signal, for every output."""
    x, kernel = pair((3,), (21,), dense=False)
    kernel.requires_grad_()
    convolve(x, kernel, method=method).square().sum().backward()
    reached = torch.arange(21) - 10
    assert (kernel.grad[:, reached.abs() >= 3] == 0).all()
    assert (kernel.grad[:, reached.abs() < 3] != 0).all()


# Causality


@each_method
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("taps", [2, 3, 33, 64, 150])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_causal_outputs_ignore_the_future(method, dense, taps, dtype):
    x, kernel = (t.to(dtype) for t in pair((64,), (taps,), dense=dense))
    changed = x.clone()
    changed[..., 40:] = torch.randn(changed[..., 40:].shape, dtype=dtype)
    before = convolve(x, kernel, causal=True, method=method)
    after = convolve(changed, kernel, causal=True, method=method)
    # METHODS says it for float64.
    scale = torch.finfo(dtype).eps / torch.finfo(torch.float64).eps
    leak = float((after - before)[..., :40].abs().max())
    assert leak <= METHODS[method] * scale * float(before.abs().max())
    assert (after[..., 40] != before[..., 40]).all()  # the change itself is seen


@pytest.mark.parametrize("method", [name for name, leak in METHODS.items() if leak == 0])
@pytest.mark.parametrize("taps", [2, 3, 64, 150])
def test_an_exactly_causal_method_ignores_even_nan(method, taps):
    x, kernel = pair((64,), (taps,), dense=True)
    expected = convolve(x, kernel, causal=True, method=method)[..., :40]
    x[..., 40:] = torch.nan
    y = convolve(x, kernel, causal=True, method=method)
    torch.testing.assert_close(y[..., :40], expected, rtol=0, atol=0)
    assert y[..., 40:41].isnan().all()


@each_name
@pytest.mark.parametrize("taps", [1, 2, 7, 100])
def test_the_last_tap_of_a_causal_kernel_is_lag_zero(method, taps):
    x = random(2, 3, 20)
    kernel = torch.zeros(3, taps, dtype=x.dtype)
    kernel[:, -1] = 1
    assert_equal_to_rounding(convolve(x, kernel, causal=True, method=method), x)


@each_name
@pytest.mark.parametrize("lag", [1, 5, 19])
def test_earlier_taps_of_a_causal_kernel_are_older_lags(method, lag):
    x = random(2, 3, 20)
    kernel = torch.zeros(3, 20, dtype=x.dtype)
    kernel[:, -1 - lag] = 1
    expected = F.pad(x, (lag, 0))[..., :20]
    assert_equal_to_rounding(convolve(x, kernel, causal=True, method=method), expected)


# What the authors' code gets wrong (facts.md, section 4)


@each_method
@pytest.mark.parametrize("length", [160, 161])
@pytest.mark.parametrize("taps", [50, 51, 52, 161])
@pytest.mark.parametrize("causal", [False, True])
def test_authors_bug_an_odd_fft_length_gives_wrong_values(method, length, taps, causal):
    """Their irfft is not told its length: wrong by 100 % where L + K - 1 is odd."""
    x, kernel = pair((length,), (taps,), dense=False, batch=1, channels=1)
    expected = judge(x, kernel, causal=causal)
    assert_equal_to_rounding(convolve(x, kernel, causal=causal, method=method), expected)


@each_method
@pytest.mark.parametrize("taps", [2, 4, 50, 64])
def test_authors_bug_an_even_centred_kernel_adds_a_sample(method, taps):
    """Their direct path returns L + 1 samples, their FFT L."""
    x, kernel = pair((33,), (taps,), dense=False)
    assert convolve(x, kernel, method=method).shape == x.shape


@each_method
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kernel_size", [(3, 11), (11, 3), (1, 13), (13, 1), (4, 9), (9, 4)])
def test_authors_bug_non_square_kernels_are_misaligned(method, dense, kernel_size):
    """Their 2-D FFT pads every axis by the last one's K//2, and refuses separable kernels."""
    x, kernel = pair((8, 7), kernel_size, dense=dense, batch=1, channels=2)
    assert_equal_to_rounding(convolve(x, kernel, method=method), judge(x, kernel))


# Sizes of FFTs

SMOOTH = sorted(
    2**a * 3**b * 5**c * 7**d
    for a in range(22)
    for b in range(14)
    for c in range(10)
    for d in range(8)
    if 2**a * 3**b * 5**c * 7**d <= 2**21
)


@given(st.integers(1, 2**21), st.sampled_from((1, 2, 6, 16)))
@example(1, 2)
@example(1, 1)
@example(2**21, 16)
@example(2401, 2)  # 7⁴ is good, but odd
def test_good_size_is_the_smallest_good_one(n, multiple):
    good = (s for s in (*SMOOTH, 2**22) if s % multiple == 0)
    assert good_size(n, multiple=multiple) == next(s for s in good if s >= n)


@pytest.mark.parametrize("multiple", [0, -2, 11, 22])
def test_a_multiple_that_no_good_size_has_is_refused(multiple):
    with pytest.raises(ValueError, match=rf"multiple .*{multiple}"):
        good_size(5, multiple=multiple)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs SIGALRM")
@pytest.mark.parametrize("n", [0, -1])
def test_good_size_of_nothing_is_refused(n):
    def hangs(*_: object) -> None:
        raise TimeoutError(f"good_size({n}) does not return")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, 1)
    try:
        with pytest.raises(ValueError, match=rf"n .*{n}"):
            good_size(n)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class TransformLengths(TorchFunctionMode):
    """Notes the length of every FFT that torch is asked for; all run along the last axis."""

    FUNCTIONS = (torch.fft.rfft, torch.fft.fft, torch.fft.ifft, torch.fft.irfft)

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self.FUNCTIONS:
            assert kwargs.get("dim", -1) == -1
            self.seen.append(kwargs.get("n", args[0].shape[-1]))
        return func(*args, **kwargs)


@pytest.mark.parametrize("signal_size", [(997,), (100,), (101, 103), (7, 100), (11, 13, 17)])
@pytest.mark.parametrize("taps", [11, 12])
def test_ffts_have_good_lengths(signal_size, taps):
    """Prime lengths become smooth, even ones: 108 where 105 = 3·5·7 would do."""
    dim = len(signal_size)
    x, kernel = pair(signal_size, (taps,) * dim, dense=False, batch=1, channels=1)
    with TransformLengths() as lengths:
        convolve(x, kernel, method="fft")
    # The kernel, the signal and the result, one axis after the other.
    assert len(lengths.seen) == 3 * dim
    # No more than the signal and the kernel beside each other, rounded up.
    most = [good_size(n + taps, multiple=16 if dim == 1 else 2) for n in signal_size]
    for n in lengths.seen:
        assert n in SMOOTH
        assert n % 2 == 0
        assert n <= max(most)


def test_a_kernel_far_longer_than_the_signal_costs_no_long_fft():
    x, kernel = pair((16,), (5001,), dense=False, batch=1, channels=1)
    with TransformLengths() as lengths:
        convolve(x, kernel, method="fft")
    assert max(lengths.seen) <= 3 * 16


# Autocast


@each_name
@pytest.mark.parametrize("dense", [False, True])
def test_autocast_computes_in_float32_and_keeps_the_dtype(method, dense):
    x, kernel = (t.float() for t in pair((70,), (60,), dense=dense))
    rounded = x.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = convolve(rounded, kernel, method=method)
        z = convolve(x, kernel, method=method)
    assert y.dtype == torch.bfloat16
    expected = convolve(rounded.float(), kernel, method=method)
    torch.testing.assert_close(y, expected.bfloat16(), rtol=0, atol=0)
    torch.testing.assert_close(z, convolve(x, kernel, method=method), rtol=0, atol=0)


@each_name
def test_autocast_gradients_are_those_of_float32(method):
    x, kernel = (t.float() for t in pair((20,), (9,), dense=True))
    kernel.requires_grad_()
    weight = torch.randn(2, 4, 20)
    (expected,) = torch.autograd.grad((convolve(x, kernel, method=method) * weight).sum(), kernel)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = convolve(x, kernel, method=method)
    (result,) = torch.autograd.grad((y * weight).sum(), kernel)
    torch.testing.assert_close(result, expected)


# What is refused: a type of error, and the words it must say

SIGNAL = torch.zeros(2, 3, 8)
IMAGE = torch.zeros(2, 3, 8, 8)

REFUSED = {
    "x without channels": (torch.zeros(3, 8), torch.zeros(3, 5), {}, ["x", "(B, C, *S)", "(3, 8)"]),
    "x without positions": (torch.zeros(3), torch.zeros(3), {}, ["x", "(B, C, *S)", "(3,)"]),
    "kernel of another D": (
        IMAGE,
        torch.zeros(3, 5),
        {},
        ["kernel", "(C, *K)", "(C_out, C_in, *K)", "2 axes", "(2, 3, 8, 8)", "(3, 5)"],
    ),
    "kernel with too many axes": (
        SIGNAL,
        torch.zeros(4, 3, 5, 5),
        {},
        ["kernel", "1 axes", "(2, 3, 8)", "(4, 3, 5, 5)"],
    ),
    "depthwise channels": (
        SIGNAL,
        torch.zeros(4, 5),
        {},
        ["kernel", "(4, 5)", "4 input channels", "x", "(2, 3, 8)", "has 3"],
    ),
    "dense channels": (
        SIGNAL,
        torch.zeros(3, 4, 5),
        {},
        ["kernel", "(3, 4, 5)", "4 input channels", "x", "(2, 3, 8)", "has 3"],
    ),
    "causal in 2-D": (
        IMAGE,
        torch.zeros(3, 5, 5),
        {"causal": True},
        ["causal", "D = 1", "x has 2", "(2, 3, 8, 8)"],
    ),
    "unknown method": (
        SIGNAL,
        torch.zeros(3, 5),
        {"method": "winograd"},
        ["method", "'winograd'", "auto", *METHODS],
    ),
    "no method": (SIGNAL, torch.zeros(3, 5), {"method": None}, ["method", "None", "auto"]),
    "empty signal": (
        torch.zeros(2, 3, 0),
        torch.zeros(3, 5),
        {},
        ["x", "(2, 3, 0)", "kernel", "(3, 5)", "empty"],
    ),
    "one empty axis of an image": (
        torch.zeros(2, 3, 8, 0),
        torch.zeros(3, 5, 5),
        {},
        ["x", "(2, 3, 8, 0)", "empty"],
    ),
    "empty kernel": (SIGNAL, torch.zeros(3, 0), {}, ["kernel", "(3, 0)", "empty"]),
    "no output channel": (SIGNAL, torch.zeros(0, 3, 5), {}, ["kernel", "(0, 3, 5)", "empty"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_by_name(case):
    x, kernel, options, words = REFUSED[case]
    with pytest.raises(ValueError, match=r".") as caught:
        convolve(x, kernel, **options)
    for word in words:
        assert word in str(caught.value)


@each_name
@pytest.mark.parametrize("name", ["x", "kernel"])
@pytest.mark.parametrize(
    ("dtype", "way_out"),
    [
        (torch.int64, "expected torch.float32 or torch.float64"),
        (torch.uint8, "expected torch.float32 or torch.float64"),
        (torch.bool, "expected torch.float32 or torch.float64"),
        (torch.complex64, "expected torch.float32 or torch.float64"),
        (torch.complex128, "expected torch.float32 or torch.float64"),
        (torch.float16, "pass float32"),
        (torch.bfloat16, "pass float32"),
    ],
)
def test_dtypes_that_cannot_be_convolved_are_refused_by_name(method, name, dtype, way_out):
    arguments = {"x": SIGNAL, "kernel": torch.zeros(3, 5)}
    arguments[name] = arguments[name].to(dtype)
    with pytest.raises(TypeError, match=rf"^{name} is {dtype}") as caught:
        convolve(**arguments, method=method)
    assert way_out in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64])
def test_autocast_makes_no_float_of_integers_or_complex_numbers(dtype):
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(TypeError, match=f"^x is {dtype}; expected torch.float32"),
    ):
        convolve(SIGNAL.to(dtype), torch.zeros(3, 5))


def test_two_dtypes_are_refused():
    with pytest.raises(TypeError, match=r"x is torch.float32 but kernel is torch.float64; cast"):
        convolve(SIGNAL, torch.zeros(3, 5, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"x is torch.float64 but kernel is torch.float32; cast"):
        convolve(SIGNAL.double(), torch.zeros(3, 5))


def test_options_are_keywords():
    with pytest.raises(TypeError, match="positional"):
        convolve(SIGNAL, torch.zeros(3, 5), True)


def test_the_judge_knows_a_convolution_done_by_hand():
    """x = 1 2 3, K = 1 10 100: the middle tap is 10 (centred), lag zero is 100 (causal)."""
    x, kernel = torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[1.0, 10.0, 100.0]])
    assert judge(x, kernel).flatten().tolist() == [210.0, 321.0, 32.0]
    assert judge(x, kernel, causal=True).flatten().tolist() == [100.0, 210.0, 321.0]
    even = torch.tensor([[1.0, 10.0]])
    assert judge(x, even).flatten().tolist() == [10.0, 21.0, 32.0]
    assert math.isclose(float(judge(x[..., None], kernel[..., None])[0, 0, 1, 0]), 321.0)
