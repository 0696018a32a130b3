"""The whole network at scattered points."""

import copy
import itertools
import math

import pytest
import torch
from torch import Tensor

from ccnn import CCNN, Grid, Points, cached
from ccnn.models import PairCCNN

TINY = {"blocks": 2, "channels": 6, "kernel_channels": 4}
GEOMETRIES = [((24,), False), ((25,), True), ((6, 5), False), ((4, 3, 4), False)]


def network(size, causal=False, *, seen=3, **arguments):
    """A small CCNN in float64 whose biases are not zero and whose norms have seen data."""
    model = CCNN(2, 3, size, causal=causal, **TINY, **arguments).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.03 * torch.randn_like(parameter))
        for _ in range(seen):
            model(torch.randn(4, 2, *size).double())
    return model.eval()


def lattice(size, batch=2) -> Tensor:
    grid = torch.tensor(list(itertools.product(*map(range, size))), dtype=torch.float64)
    return grid.expand(batch, -1, -1)


def scattered(size, count, batch=2) -> Tensor:
    return torch.rand(batch, count, len(size), dtype=torch.float64) * torch.tensor(size)


def signal(count, batch=2) -> Tensor:
    return torch.randn(batch, 2, count, dtype=torch.float64)


def close(found, expected, tolerance=1e-8):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("head", ["pool", "none", "last"])
@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
def test_points_on_a_regular_grid_are_a_grid(size, causal, head, training):
    if head == "last" and len(size) > 1:
        pytest.skip("D = 1 only")
    model = network(size, causal, head=head, seen=1).train(training)
    other = copy.deepcopy(model)
    x = signal(math.prod(size))
    on_grid = model(x.view(2, 2, *size))
    at_points = other(x, Points(lattice(size)))
    close(at_points, on_grid.flatten(2) if head == "none" else on_grid)
    on_grid.square().sum().backward()
    at_points.square().sum().backward()
    # Through batch statistics gradients lose digits; they are up to 1e3 here.
    for a, b in zip(other.parameters(), model.parameters(), strict=True):
        close(a.grad, b.grad, 1e-7)
    for a, b in zip(other.buffers(), model.buffers(), strict=True):
        close(a, b)


def test_float32_and_tables_are_a_grid_to_1e_4():
    model = network((128,)).float()
    x = torch.randn(4, 2, 400)
    expected = model(x)
    found = model(x, Points(lattice((400,), batch=4)))
    close(found, expected, 1e-4)


@pytest.mark.parametrize("head", ["pool", "none", "last"])
@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
def test_unequal_counts_give_each_signal_what_it_gets_alone(size, causal, head):
    if head == "last" and len(size) > 1:
        pytest.skip("D = 1 only")
    model = network(size, causal, head=head)
    positions, x = scattered(size, 20, batch=3), signal(20, batch=3)
    mask = torch.rand(3, 20) < 0.6
    mask[1] = torch.arange(20) == 7  # one point only
    rubbish = torch.where(mask[..., None], positions, math.nan)
    y = model(torch.where(mask[:, None], x, math.nan), Points(rubbish, mask))
    for b, alive in enumerate(mask):
        alone = model(x[b : b + 1, :, alive], Points(positions[b : b + 1, alive]))[0]
        close(y[b][:, alive] if head == "none" else y[b], alone)
        if head == "none":
            assert not y[b][:, ~alive].any()


@pytest.mark.parametrize("head", ["pool", "none", "last"])
def test_order_and_origin_do_not_matter(head):
    model = network((25,), causal=True, head=head)
    positions, x = scattered((25,), 20), signal(20)
    order = torch.randperm(20)
    expected = model(x, Points(positions))
    found = model(x[..., order], Points(positions[:, order] + 1000))
    close(found, expected[..., order] if head == "none" else expected, 1e-7)


def test_a_causal_network_sees_nothing_later_positions_included():
    model = network((25,), causal=True, head="none")
    times = 25 * torch.rand(1, 20, dtype=torch.float64).sort().values
    x = signal(20, batch=1)
    expected = model(x, Points(times))
    for n in (1, 2, 7, 19):
        later, other = times.clone(), x.clone()
        later[:, n:] = times[:, n - 1 : n] + 9 * torch.rand(1, 20 - n)
        other[..., n:] = torch.randn(1, 2, 20 - n)
        close(model(other, Points(later))[..., :n], expected[..., :n], 1e-11)


def test_training_at_points_reaches_every_parameter():
    """With dropout and unequal counts; what masked samples hold reaches no statistic."""
    model = network((25,), dropout=0.2, dropout_in=0.1).train()
    mask = torch.rand(2, 30) < 0.7
    positions = torch.where(mask[..., None], scattered((25,), 30), math.nan)
    x = torch.where(mask[:, None], signal(30), math.nan)
    model(x, Points(positions, mask)).square().sum().backward()
    assert all(value.isfinite().all() for value in model.state_dict().values())
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name
        # What is added to a whole channel before a normalisation is taken away by it.
        assert name in ("stem.bias", "stem.mix.bias") or parameter.grad.any(), name


# Other positions


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("size", "causal"), GEOMETRIES)
def test_a_network_is_a_function_of_position(size, causal, training):
    """At the samples' positions it is the samples' output, whatever else is asked for."""
    model = network(size, causal, head="none")
    points, x = Points(scattered(size, 15)), signal(15)
    query = torch.cat([points.positions[:, [4, 2, 9]], scattered(size, 4)], dim=1)
    expected = copy.deepcopy(model).train(training)(x, points)
    found = model.train(training)(x, points, query=query)
    assert found.shape == (2, 3, 7)
    close(found[..., :3], expected[..., [4, 2, 9]])


def test_forecasts_of_a_causal_network_do_not_depend_on_what_comes_after_them():
    model = network((25,), causal=True, head="none")
    times = torch.linspace(0, 20, 15, dtype=torch.float64)[None]
    x, query = signal(15, batch=1), torch.tensor([[3.1, 9.9]], dtype=torch.float64)
    expected = model(x, Points(times), query=query)
    early = times <= 9.9
    found = model(x[..., early[0]], Points(times[:, early[0]]), query=query)
    close(found, expected, 1e-11)


def test_query_asks_for_positions_and_a_pooled_head_has_none():
    model = network((25,))
    with pytest.raises(ValueError, match=r'query .* head="pool" .* build .* head="none"'):
        model(signal(9), Points(scattered((25,), 9)), query=torch.zeros(2, 1))
    with pytest.raises(TypeError, match="query needs to know where the samples lie"):
        network((25,), head="none")(signal(9), Grid(), query=torch.zeros(2, 1))


# The rest


def test_inside_cached_points_give_the_same():
    model = network((25,))
    x, points = signal(20), Points(scattered((25,), 20))
    expected = model(x, points)
    with cached(model):
        y = model(x, points)
        assert not y.requires_grad
        close(y, expected)


def test_symbols_at_points_are_looked_up():
    model = CCNN(2, 3, (25,), embedding=5, **TINY).double().eval()
    symbols = torch.randint(5, (2, 25))
    mask = torch.rand(2, 25) < 0.7
    padded = torch.where(mask, symbols, -1)
    found = model(padded, Points(lattice((25,)), mask, mask.double()))
    vectors = model.embedding(symbols).mT
    plain = CCNN(2, 3, (25,), **TINY).double().eval()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if "embedding" not in k})
    close(found, plain(vectors, Grid(mask=mask)))


def test_pairs_of_signals_may_lie_anywhere():
    size = (6, 5)
    arguments = {"in_channels": 2, "out_channels": 4, "size": size, **TINY}
    model = PairCCNN(3, arguments).double().eval()
    x = torch.randn(2, 2, 2, *size, dtype=torch.float64)
    close(model(x.flatten(3), Points(lattice(size, batch=4))), model(x))


def test_autocast_runs_and_is_near():
    model = network((25,)).float()
    x, points = signal(20).float(), Points(scattered((25,), 20))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x, points)
    torch.testing.assert_close(y.float(), model(x, points), rtol=0.05, atol=0.05)


def test_what_is_no_domain_is_refused():
    with pytest.raises(TypeError, match=r"ccnn\.Points\(positions\), got Tensor"):
        network((25,))(signal(9), scattered((25,), 9))
