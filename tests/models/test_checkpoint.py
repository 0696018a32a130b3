"""`CCNN(checkpoint=True)` learns the same with less memory."""

import pytest
import torch

import ccnn
from ccnn import CCNN, Grid

SIZES = [(32,), (9, 8)]


def pair(size=(32,), *, dtype=torch.float64, **settings) -> tuple[CCNN, CCNN]:
    """Return a network and the same one with checkpoints."""
    arguments = {"blocks": 3, "channels": 6, "kernel_channels": 8} | settings
    plain = CCNN(2, 3, size, **arguments).to(dtype)
    lean = CCNN(2, 3, size, checkpoint=True, **arguments).to(dtype)
    lean.load_state_dict(plain.state_dict())
    return plain, lean


def step(model: CCNN, x: torch.Tensor, grid: Grid | None = None) -> tuple:
    """Return the output and the gradient of x after one backward pass with a fixed seed."""
    torch.manual_seed(1)
    x = x.clone().requires_grad_()
    y = model(x, grid)
    y.square().sum().backward()
    return y.detach(), x.grad


def assert_same(plain: CCNN, lean: CCNN, x, grid=None):
    for a, b in zip(step(plain, x, grid), step(lean, x, grid), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    for (name, a), b in zip(plain.named_parameters(), lean.parameters(), strict=True):
        assert a.grad is not None, name
        torch.testing.assert_close(
            a.grad, b.grad, rtol=1e-12, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}"
        )
    for (name, a), b in zip(plain.named_buffers(), lean.buffers(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("settings", [{}, {"head": "none"}, {"dropout": 0.4}])
@pytest.mark.parametrize("size", SIZES)
def test_gradients_and_buffers_are_the_same(size, settings):
    assert_same(*pair(size, **settings), torch.randn(4, 2, *size, dtype=torch.float64) + 1)


@pytest.mark.parametrize("kind", ["channel", "element"])
def test_dropout_draws_the_same_numbers(kind):
    plain, lean = pair(dropout=0.5, dropout_in=0.2, dropout_kind=kind)
    x = torch.randn(4, 2, 32, dtype=torch.float64)
    assert_same(plain, lean, x)
    torch.manual_seed(2)
    other = lean(x)
    torch.manual_seed(1)
    assert not torch.equal(lean(x), other)


@pytest.mark.parametrize("settings", [{"causal": True}, {"causal": True, "head": "last"}])
def test_causal_networks(settings):
    x = torch.randn(4, 2, 32, dtype=torch.float64)
    assert_same(*pair(**settings), x)


@pytest.mark.parametrize("size", SIZES)
def test_masks(size):
    mask = torch.rand(4, 1, *size) < 0.6
    x = torch.where(mask, torch.randn(4, 2, *size, dtype=torch.float64), float("nan"))
    plain, lean = pair(size, dropout=0.3)
    assert_same(plain, lean, x, Grid(mask=mask))
    assert all(p.grad.isfinite().all() for p in lean.parameters())


def test_lengths_and_spacing():
    x = torch.randn(3, 2, 16, dtype=torch.float64)
    assert_same(*pair(), x, Grid(2.0, lengths=[16, 7, 1]))


def test_statistics_are_updated_once():
    _, lean = pair()
    step(lean, torch.randn(4, 2, 32, dtype=torch.float64))
    norms = [m for m in lean.modules() if isinstance(m, ccnn.nn.BatchNorm)]
    # The last normalisation, the stem's and one in each block.
    assert [int(m.num_batches_tracked) for m in norms] == [1] * 5


def test_evaluation_is_the_same():
    plain, lean = pair()
    x = torch.randn(4, 2, 32, dtype=torch.float64)
    assert_same(plain.eval(), lean.eval(), x)
    with torch.no_grad():
        torch.testing.assert_close(plain(x), lean(x), rtol=0, atol=0)


def kept_bytes(model: CCNN, x: torch.Tensor) -> int:
    """Return the bytes that the graph of one step keeps, parameters and input not counted."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    own |= {b.untyped_storage().data_ptr() for b in model.buffers()}
    own.add(x.untyped_storage().data_ptr())
    storages = {}  # holding them keeps an address from being used twice

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(x).square().sum()
    total = sum(storage.nbytes() for storage in storages.values())
    loss.backward()
    return total


@pytest.mark.parametrize("size", [(4096,), (64, 64)])
def test_less_than_half_is_kept(size):
    plain, lean = pair(size, dtype=torch.float32, channels=16, kernel_channels=32)
    x = torch.randn(2, 2, *size)
    assert kept_bytes(lean, x) < kept_bytes(plain, x) / 2


def test_memory_does_not_creep_up():
    _, lean = pair((4096,), dtype=torch.float32)
    x = torch.randn(2, 2, 4096)
    optimizer = torch.optim.SGD(lean.parameters(), lr=0.0)
    kept = []
    for _ in range(5):
        optimizer.zero_grad()
        kept.append(kept_bytes(lean, x))
        optimizer.step()
    assert kept == kept[:1] * 5
    assert kept[0] > 0


def test_autocast_trains_with_checkpoints():
    _, lean = pair(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = lean(torch.randn(4, 2, 32)).float().square().sum()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in lean.parameters())


def test_the_argument_survives_saving(tmp_path):
    _, lean = pair(dtype=torch.float32)
    ccnn.save(lean, tmp_path / "model")
    assert ccnn.load(tmp_path / "model").checkpoint is True


@pytest.mark.slow
def test_a_length_of_64000_has_the_same_gradients_bit_for_bit():
    settings = {"blocks": 4, "channels": 110, "kernel_channels": 32, "causal": True}
    plain, lean = pair((64_000,), dtype=torch.float32, **settings)
    x = torch.randn(1, 2, 64_000)
    for a, b in zip(step(plain, x), step(lean, x), strict=True):
        assert torch.equal(a, b)
    for (name, a), b in zip(plain.named_parameters(), lean.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad), name
