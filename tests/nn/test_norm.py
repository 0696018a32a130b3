"""`BatchNorm` is torch's, sees only samples that exist, and sums over processes."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

from ccnn.nn import BatchNorm
from ccnn.nn.norm import masked_statistics

SIZES = {1: (7,), 2: (4, 5), 3: (2, 3, 4)}
TORCH_NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
each_dim = pytest.mark.parametrize("dim", SIZES)
# What padding may hold.
each_padding = pytest.mark.parametrize("padding", [0.0, 1e6, torch.inf, torch.nan])


def randomise_(*modules: nn.Module) -> None:
    """Give all of them the same affine map, so that its gradients are not those of 1 and 0."""
    channels = len(modules[0].weight)
    weight, bias = torch.randn(channels), torch.randn(channels)
    with torch.no_grad():
        for module in modules:
            module.weight.copy_(weight)
            module.bias.copy_(bias)


def random_mask(batch: int, size: tuple[int, ...]) -> Tensor:
    """Holes everywhere, no signal empty."""
    mask = torch.rand(batch, 1, *size) < 0.6
    mask[(slice(None), 0, *(0 for _ in size))] = True
    return mask


def valid_samples(x: Tensor, mask: Tensor) -> Tensor:
    """(B, C, *S) -> (N, C), the samples that exist one after the other."""
    return x.movedim(1, -1)[mask[:, 0]]


def assert_same_buffers(first: nn.Module, second: nn.Module) -> None:
    for (name, a), (other, b) in zip(first.named_buffers(), second.named_buffers(), strict=True):
        assert name == other
        torch.testing.assert_close(a, b)


# Without a mask: torch's


@each_dim
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [False, True], ids=["no mask", "full mask"])
def test_equals_torch_over_several_steps(dim, dtype, masked):
    """Training, then evaluation, then training: outputs, gradients, running statistics."""
    ours = BatchNorm(3, eps=1e-3, momentum=0.3).to(dtype)
    theirs = TORCH_NORM[dim](3, eps=1e-3, momentum=0.3).to(dtype)
    randomise_(ours, theirs)
    for step in range(6):
        training = step != 3
        ours.train(training)
        theirs.train(training)
        x = (2 + step) * torch.randn(4, 3, *SIZES[dim], dtype=dtype) + step
        mask = torch.ones(4, 1, *SIZES[dim], dtype=torch.bool) if masked else None
        weight = torch.randn_like(x)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        y, expected = ours(a, mask), theirs(b)
        (y * weight).sum().backward()
        (expected * weight).sum().backward()
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(a.grad, b.grad)
        assert_same_buffers(ours, theirs)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)
    assert ours.num_batches_tracked == 5


def test_defaults_are_those_of_torch():
    ours, theirs = BatchNorm(5), nn.BatchNorm1d(5)
    assert (ours.eps, ours.momentum) == (theirs.eps, theirs.momentum)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=0)


@each_dim
def test_state_dicts_go_both_ways(dim):
    ours, theirs = BatchNorm(3), TORCH_NORM[dim](3)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    randomise_(theirs)
    x = 5 + 3 * torch.randn(4, 3, *SIZES[dim])
    theirs(x)
    ours.load_state_dict(theirs.state_dict())
    ours.eval()
    theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=0)

    ours.train()(x)
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=0, atol=0)


def test_beyond_three_axes_positions_are_one_axis():
    x = torch.randn(2, 3, 2, 3, 2, 2)
    ours, theirs = BatchNorm(3), nn.BatchNorm1d(3)
    torch.testing.assert_close(ours(x).flatten(2), theirs(x.flatten(2)))
    assert_same_buffers(ours, theirs)


# With a mask: the samples that exist, put one after the other


@each_dim
@each_padding
def test_masked_samples_do_not_exist(dim, padding):
    ours, theirs = BatchNorm(3).double(), nn.BatchNorm1d(3).double()
    randomise_(ours, theirs)
    for step in range(3):
        x = (2 + step) * torch.randn(4, 3, *SIZES[dim], dtype=torch.float64) + step
        mask = random_mask(4, SIZES[dim])
        weight = torch.randn_like(x)
        a = torch.where(mask, x, padding).requires_grad_()
        b = valid_samples(x, mask).requires_grad_()
        y, expected = ours(a, mask), theirs(b)
        # A loss of valid positions only, as everything after a norm makes it.
        torch.where(mask, y * weight, 0.0).sum().backward()
        (expected * valid_samples(weight, mask)).sum().backward()
        torch.testing.assert_close(valid_samples(y, mask), expected)
        torch.testing.assert_close(valid_samples(a.grad, mask), b.grad)
        assert (valid_samples(a.grad, ~mask) == 0).all()
        assert_same_buffers(ours, theirs)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


@each_padding
def test_masked_samples_do_not_exist_in_evaluation(padding):
    """Also where the affine map is tuned with statistics held fixed."""
    ours, theirs = BatchNorm(3).double(), nn.BatchNorm1d(3).double()
    randomise_(ours, theirs)
    theirs(3 + 2 * torch.randn(9, 3, 7, dtype=torch.float64))
    ours.load_state_dict(theirs.state_dict())
    ours.eval()
    theirs.eval()
    x, mask = torch.randn(4, 3, 7, dtype=torch.float64), random_mask(4, (7,))
    a = torch.where(mask, x, padding).requires_grad_()
    b = valid_samples(x, mask).requires_grad_()
    y, expected = ours(a, mask), theirs(b)
    torch.where(mask, y.sin(), 0.0).sum().backward()
    expected.sin().sum().backward()
    torch.testing.assert_close(valid_samples(y, mask), expected)
    torch.testing.assert_close(valid_samples(a.grad, mask), b.grad)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)
    assert_same_buffers(ours, theirs)


def test_gradients_of_the_masked_norm():
    norm, mask = BatchNorm(2).double(), random_mask(3, (4,))
    x = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: torch.where(mask, norm(x, mask), 0.0), (x,))


def test_statistics_by_hand():
    x = torch.tensor([[[1.0, 2.0, 99.0]], [[6.0, 99.0, 99.0]]])
    mask = torch.tensor([[[True, True, False]], [[True, False, False]]])
    mean, var, count = masked_statistics(x, mask)
    assert (mean.item(), count.item()) == (3.0, 3)
    assert var.item() == pytest.approx((4 + 1 + 9) / 3)
    norm = BatchNorm(1, momentum=0.5)
    norm(x, mask)
    assert norm.running_mean.item() == pytest.approx(0.5 * 0 + 0.5 * 3)
    assert norm.running_var.item() == pytest.approx(0.5 * 1 + 0.5 * 14 / 2)  # unbiased, as torch's


@pytest.mark.parametrize("masked", [False, True])
def test_a_large_mean_costs_no_more_accuracy_than_in_torch(masked):
    """E[x²] - E[x]² would leave nothing of a variance of 1 beside a mean of 10⁴ in float32."""
    x = torch.randn(8, 2, 500, dtype=torch.float64) + 1e4
    mask = random_mask(8, (500,)) if masked else None
    samples = x if mask is None else valid_samples(x, mask)
    exact = nn.BatchNorm1d(2).double()
    expected = exact(samples.float().double())  # what is rounded on the way in is no one's fault
    norm = BatchNorm(2)
    y = norm(x.float(), mask).double()
    y = y if mask is None else valid_samples(y, mask)
    # A float32 near 10⁴ is known to 5e-4; so is what is left when the mean is taken off.
    torch.testing.assert_close(y, expected, rtol=0, atol=2e-3)
    torch.testing.assert_close(norm.running_var.double(), exact.running_var, rtol=1e-5, atol=0)
    torch.testing.assert_close(norm.running_mean.double(), exact.running_mean, rtol=1e-6, atol=0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_half_precision_goes_in_and_comes_out(masked, training):
    """As inside autocast: float32 parameters, bfloat16 signals, statistics in float32."""
    x = (3 + torch.randn(4, 3, 50)).bfloat16()
    mask = torch.ones(4, 1, 50, dtype=torch.bool) if masked else None
    norm, exact = BatchNorm(3).train(training), nn.BatchNorm1d(3).train(training)
    y = norm(x, mask)
    torch.testing.assert_close(y.float(), exact(x.float()), rtol=1e-2, atol=1e-2)
    assert_same_buffers(norm, exact)
    assert y.dtype == torch.bfloat16


# Over processes

# Whether each process has a mask; and how many signals.
WORLDS = {
    "masks": (True, True),
    "no mask": (False, False),
    "a mask on one process": (True, False),
}
BATCHES = (2, 5)
STEPS = 2


def shard(case: str, rank: int, step: int) -> tuple[Tensor, Tensor, Tensor]:
    """The signals, mask and loss weights of one process at one step."""
    generator = torch.Generator().manual_seed(100 * step + 10 * list(WORLDS).index(case) + rank)
    shape = (BATCHES[rank], 3, 6)
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * (1 + rank) + 4 * rank
    weight = torch.randn(shape, generator=generator, dtype=torch.float64)
    mask = torch.rand(BATCHES[rank], 1, 6, generator=generator) < 0.5 + 0.3 * rank
    mask[..., 0] = True
    return x, mask if WORLDS[case][rank] else torch.ones_like(mask), weight


def train(case: str, ranks: Sequence[int]) -> dict[str, Tensor]:
    """Take some steps on the batches of these ranks, put together; return all that came out."""
    torch.manual_seed(7)
    norm = BatchNorm(3).double()
    randomise_(norm)
    results = {}
    for step in range(STEPS):
        xs, masks, weights = zip(*[shard(case, rank, step) for rank in ranks], strict=True)
        x = torch.cat(xs).requires_grad_()
        mask = torch.cat(masks)
        y = norm(x, mask if True in [WORLDS[case][rank] for rank in ranks] else None)
        y = torch.where(mask, y, 0.0)
        (y * torch.cat(weights)).sum().backward()
        results[f"output {step}"] = y.detach()
        results[f"input gradient {step}"] = x.grad
    results |= {"weight gradient": norm.weight.grad, "bias gradient": norm.bias.grad}
    return results | {f"buffer {name}": buffer for name, buffer in norm.named_buffers()}


def run_one_process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=len(BATCHES),
        timeout=timedelta(seconds=20),
    )
    results = {case: train(case, [rank]) for case in WORLDS}
    if rank == 0:  # evaluation asks no other process: this one is alone, and would wait in vain
        BatchNorm(3).eval()(torch.ones(1, 3, 6), torch.ones(1, 1, 6, dtype=torch.bool))
    dist.destroy_process_group()
    torch.save(results, Path(folder) / f"{rank}.pt")


@pytest.fixture(scope="module")
def processes(tmp_path_factory) -> list[dict[str, dict[str, Tensor]]]:
    """What two real processes computed, each on its part of the batch."""
    folder = tmp_path_factory.mktemp("processes")
    with pytest.MonkeyPatch.context() as patch:
        # So that the new processes find this file, however pytest was started.
        patch.syspath_prepend(Path(__file__).parents[2])
        mp.spawn(run_one_process, args=(str(folder),), nprocs=len(BATCHES))
    return [torch.load(folder / f"{rank}.pt") for rank in range(len(BATCHES))]


@pytest.mark.parametrize("case", WORLDS)
def test_two_processes_equal_one_with_the_whole_batch(processes, case):
    first, second = (results[case] for results in processes)
    for name, expected in train(case, [0, 1]).items():
        if name.startswith(("output", "input")):
            result = torch.cat([first[name], second[name]])
        elif name.endswith("gradient"):
            result = first[name] + second[name]
        else:
            result = first[name]
            assert torch.equal(result, second[name]), name  # every process holds the same
        # The number; the sums run in another order.
        torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)


def test_one_part_alone_would_not_give_the_whole():
    """The comparison above can fail: without sums over processes the numbers are others."""
    whole, part = train("masks", [0, 1]), train("masks", [0])
    assert not torch.allclose(whole["buffer running_mean"], part["buffer running_mean"], rtol=0.1)
    assert not torch.allclose(whole["output 0"][:2], part["output 0"], rtol=0.1)
