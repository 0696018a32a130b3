"""Two signals judged together by one network."""

import pytest
import torch

import ccnn
from ccnn.models import PairCCNN


def small(**changes):
    return {
        "in_channels": 3,
        "out_channels": 6,
        "size": (20,),
        "blocks": 1,
        "channels": 8,
        "kernel_channels": 4,
        "embedding": 5,
    } | changes


def test_it_compares_what_one_encoder_finds_in_both():
    model = PairCCNN(2, small()).eval()
    x = torch.randint(0, 5, (4, 2, 20))
    a, b = model.encoder(x[:, 0]), model.encoder(x[:, 1])
    expected = torch.cat([a, b, a * b, a - b], 1) @ model.output.weight.T + model.output.bias
    torch.testing.assert_close(model(x), expected)


def test_signals_may_be_real_and_of_unequal_length():
    model = PairCCNN(3, small(embedding=None)).eval()
    x = torch.randn(2, 2, 3, 20)
    lengths = torch.tensor([20, 9, 5, 14])  # of the first pair, then of the second
    alone = model.encoder(x[0, 1, None, :, :9])
    other = model.encoder(x[0, 0, None])
    expected = model.output(torch.cat([other, alone, other * alone, other - alone], 1))
    got = model(x, ccnn.Grid(lengths=lengths))
    assert got.shape == (2, 3)
    torch.testing.assert_close(got[:1], expected, rtol=1e-4, atol=1e-5)  # another FFT length


def test_it_is_saved_and_loaded_like_any_other(tmp_path):
    model = PairCCNN(2, small()).eval()
    x = torch.randint(0, 5, (3, 2, 20))
    copy = ccnn.load(ccnn.save(model, tmp_path / "pair"))
    assert isinstance(copy, PairCCNN)
    assert torch.equal(copy(x), model(x))


def test_every_parameter_learns():
    model = PairCCNN(2, small())
    model(torch.randint(0, 5, (4, 2, 20))).square().sum().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]
    assert [id(c) for c in model.convolutions()] == [id(c) for c in model.encoder.convolutions()]


@pytest.mark.parametrize("shape", [(4, 20), (4, 3, 20), (4, 2, 3, 20)])
def test_what_is_no_pair_is_refused(shape):
    with pytest.raises(ValueError, match=r"\(B, 2, \*S\)"):
        PairCCNN(2, small())(torch.zeros(shape, dtype=torch.int64))


def test_an_encoder_without_one_vector_per_signal_is_refused():
    with pytest.raises(ValueError, match="pool"):
        PairCCNN(2, small(head="none"))


def test_lengths_may_be_given_by_pair():
    model = PairCCNN(2, small()).eval()
    x = torch.randint(0, 5, (3, 2, 20))
    lengths = torch.tensor([[20, 9], [5, 14], [1, 20]])
    by_pair = model(x, ccnn.Grid(lengths=lengths, spacing=2.0))
    assert torch.equal(by_pair, model(x, ccnn.Grid(lengths=lengths.flatten(), spacing=2.0)))
