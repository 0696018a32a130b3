"""A CCNN is an ordinary module: copying, pickling, loading, functional calls, autocast, compile."""

import copy
import pickle
import shutil
import warnings

import pytest
import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils._python_dispatch import TorchDispatchMode

from ccnn import CCNN, Grid

TINY = {"blocks": 1, "channels": 4, "kernel_channels": 4}
KINDS = {
    "causal": {"size": (32,), "causal": True},
    "centred, fft": {"size": (80,), "mask_sigma": 0.5},
    "2-D": {"size": (7, 9)},
    "3-D": {"size": (4, 5, 6)},
}


def seeded(seed, **arguments):
    torch.manual_seed(seed)
    return CCNN(1, 3, **{**TINY, **arguments})


def signal(model, batch=2):
    return torch.randn(batch, 1, *model.size, generator=torch.Generator().manual_seed(7))


def step(model, rate=0.1):
    """Train one step, so that parameters, statistics and gradients are not the fresh ones."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    model(signal(model)).square().sum().backward()
    optimizer.step()
    return model


# --- Copies --------------------------------------------------------------------------------------


def copy_by_pickle(model):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy_by_pickle], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("trained", [False, True], ids=["before forward", "after a step"])
def test_a_copy_computes_the_same_and_lives_its_own_life(duplicate, kind, trained):
    model = seeded(0, **kind)
    if trained:
        step(model)
    twin = duplicate(model)
    assert twin.arguments == model.arguments
    x = signal(model)
    before = model.eval()(x)
    assert torch.equal(twin.eval()(x), before)
    step(twin.train())
    assert torch.equal(model(x), before)
    assert not torch.equal(twin.eval()(x), before)


def test_a_pickle_holds_no_sampled_kernel_and_no_grid():
    """So a model of a long signal is no larger than one of a short signal."""
    short, long = seeded(0, size=(32,)), seeded(0, size=(4000,))
    for model in (short, long):
        model(signal(model))
    assert abs(len(pickle.dumps(long)) - len(pickle.dumps(short))) < 100  # digits of 4000


# --- state_dict ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("when", ["before forward", "after forward", "after a step"])
def test_a_state_dict_is_all_there_is_to_a_model(kind, when):
    model, other = seeded(0, **kind), seeded(1, **kind)
    x = signal(model)
    if when == "after forward":
        model(x)
        other(2 * x)
    elif when == "after a step":
        step(model)
    assert not torch.equal(model.eval()(x), other.eval()(x))
    result = other.load_state_dict(copy.deepcopy(model.state_dict()))
    assert not result.missing_keys
    assert not result.unexpected_keys
    assert torch.equal(other(x), model(x))
    for spacing in (0.5, 2.0):
        assert torch.equal(other(x, Grid(spacing)), model(x, Grid(spacing)))


def test_a_forward_pass_adds_nothing_to_the_state_dict():
    model = seeded(0, size=(32,))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    model.eval()(signal(model))
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(after[k], v) for k, v in before.items())


def test_parameters_are_real():
    """Optimisers and distributed training dislike complex ones."""
    assert not any(v.is_complex() for v in seeded(0, size=(80,)).state_dict().values())


# --- torch.func ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_functional_call_uses_the_parameters_it_is_given(kind):
    model, other = seeded(0, **kind).eval(), seeded(1, **kind).eval()
    x = signal(model)
    # Without gradients on both sides: with them another method may be fastest, and round apart.
    with torch.no_grad():
        own = model(x)
        result = torch.func.functional_call(model, other.state_dict(), (x,))
        assert torch.equal(result, other(x))
        assert torch.equal(model(x), own)  # and leaves the module as it was


def test_functional_call_with_a_wider_window_takes_a_longer_kernel():
    """The reach is read from the σ of the call, not from the module's own."""
    model, wide = seeded(0, size=(80,)).eval(), seeded(0, size=(80,), mask_sigma=0.5).eval()
    x = signal(model)
    result = torch.func.functional_call(model, wide.state_dict(), (x,))
    assert torch.equal(result, wide(x))


def test_functional_gradient_is_the_gradient():
    model = seeded(0, size=(32,)).eval()
    x = signal(model)

    def loss(parameters):
        return torch.func.functional_call(model, parameters, (x,)).square().sum()

    parameters = dict(model.named_parameters())
    gradients = torch.func.grad(loss)({k: v.detach() for k, v in parameters.items()})
    model(x).square().sum().backward()
    for name, p in parameters.items():
        torch.testing.assert_close(gradients[name], p.grad, msg=name)


# --- Autocast ------------------------------------------------------------------------------------


class Precisions(TorchDispatchMode):
    """Note the dtypes in which FFTs and matrix products are computed."""

    def __init__(self):
        super().__init__()
        self.fft, self.product = set(), set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        if "fft" in name:
            self.fft.add(args[0].dtype)
        if "bmm" in name:
            self.product.add(args[0].dtype)
        return func(*args, **(kwargs or {}))


# Three decimal digits (8 bits) per product of two layers' depth, on outputs of order one.
BFLOAT16 = {"rtol": 0.05, "atol": 0.05}


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("masked", [False, True], ids=["all samples", "masked"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_autocast_computes_nearly_the_same(kind, masked, training):
    model = seeded(0, **kind).train(training)
    x = signal(model)
    grid = Grid(lengths=[[n - 1 for n in model.size], list(model.size)]) if masked else Grid()
    exact = copy.deepcopy(model)(x, grid)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x, grid)
    assert y.isfinite().all()
    scale = exact.abs().max()
    torch.testing.assert_close(y.float() / scale, exact / scale, **BFLOAT16)
    y.float().square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad.isfinite().all(), name
        assert p.grad.dtype == torch.float32, name


def test_autocast_takes_a_signal_in_half_precision():
    model = seeded(0, size=(32,)).eval()
    x = signal(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x.bfloat16())
    exact = model(x)
    scale = exact.abs().max()
    torch.testing.assert_close(y.float() / scale, exact / scale, **BFLOAT16)


def test_ffts_stay_in_float32_inside_autocast():
    model = seeded(0, size=(80,), mask_sigma=0.5)
    with Precisions() as seen, torch.autocast("cpu", dtype=torch.bfloat16):
        model(signal(model))
    assert seen.fft
    assert seen.fft <= {torch.float32, torch.complex64}
    assert seen.product == {torch.bfloat16}  # or else autocast did not run at all


def test_kernels_are_sampled_in_float32_inside_autocast():
    model = seeded(0, size=(80,), mask_sigma=0.5)
    exact = model.stem.sampled_kernel()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(model.stem.sampled_kernel(), exact)


# --- torch.compile -------------------------------------------------------------------------------


@pytest.fixture
def _clean_dynamo():
    """Leave no compiled code and no counters to other tests."""
    torch._dynamo.reset()
    with warnings.catch_warnings():
        # All three are torch's own, about its own code. Inductor leaves FFTs to the eager kernels,
        # which is what we want of it; it still imports torch.jit; and after a graph break, as
        # reading a mask is one, dynamo looks at the .grad of what lies between the two graphs.
        warnings.filterwarnings("ignore", message=".*complex operators")
        warnings.filterwarnings("ignore", message=".*torch.jit.", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not")
        yield
    torch._dynamo.reset()


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def assert_compiled_is_eager(model, backend, *, grid=None):
    """Output, gradients and running statistics, with the band-limited kernels of "auto"."""
    twin = copy.deepcopy(model)
    x = signal(model)
    expected = twin(x, grid)
    expected.square().sum().backward()
    result = torch.compile(model, backend=backend)(x, grid)
    result.square().sum().backward()
    # float32, fused operations round differently.
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    theirs = gradients(twin)
    largest = max(g.abs().max() for g in theirs.values())
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(
            gradient / largest, theirs[name] / largest, rtol=1e-4, atol=1e-5, msg=name
        )
    for (name, ours), buffer in zip(model.named_buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(ours, buffer, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")),
    reason="inductor compiles C++, and there is no compiler",
)
@pytest.mark.usefixtures("_clean_dynamo")
def test_compiled_is_eager():
    assert_compiled_is_eager(seeded(0, size=(32,), mask_sigma=2.0, kernel_size=63), "inductor")


# As above with a backend that traces and differentiates but generates no code, so for more kinds.
@pytest.mark.usefixtures("_clean_dynamo")
def test_traced_is_eager_where_causal():
    assert_compiled_is_eager(seeded(0, size=(32,), causal=True), "aot_eager")


@pytest.mark.usefixtures("_clean_dynamo")
def test_traced_is_eager_in_2d_with_a_mask():
    mask = torch.rand(2, 7, 9) < 0.7
    assert_compiled_is_eager(seeded(0, size=(7, 9)), "aot_eager", grid=Grid(mask=mask))


@pytest.mark.usefixtures("_clean_dynamo")
def test_a_moving_window_causes_no_recompilation_after_the_first_steps():
    """The kernel's length is rounded up to a bucket, so graphs are reused while σ moves."""
    counter = CompileCounterWithBackend("aot_eager")
    model = seeded(0, size=(129,), mask_sigma=0.25)  # 34 samples to each side, in a bucket of 40
    compiled = torch.compile(model, backend=counter)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, windows = signal(model), [conv.mask for conv in model.convolutions()]
    frames, cuts = [], set()
    for _ in range(10):
        optimizer.zero_grad()
        compiled(x).square().sum().backward()
        optimizer.step()
        with torch.no_grad():  # a drift beside the optimizer's, so that σ does move
            for window in windows:
                window.sigma.add_(0.003)
        frames.append(counter.frame_count)
        cuts.add(int(windows[0].extent().item() * 64))  # in samples, 2/(K-1) being 1/64
    assert len(cuts) >= 3, "the window must cross several samples for this test to say anything"
    assert frames[0] > 0
    assert frames[2:] == [frames[2]] * 8
    # And the graph that was reused ten times uses the σ of now.
    eager = copy.deepcopy(model)
    torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-5)
