"""Losses: sums and counts, masks, and the choice by name."""

import math

import pytest
import torch

from ccnn.training.losses import LOSSES, pick_loss


def compare(name, outputs, targets, mask=None, smoothing=0.0) -> list[float]:
    return [float(v) for v in LOSSES[name].compare(outputs, targets, mask, smoothing)]


def test_cross_entropy_of_a_known_batch():
    outputs = torch.tensor([[0.0, 0.0], [math.log(3.0), 0.0]])
    loss, right, count = compare("cross_entropy", outputs, torch.tensor([1, 0]))
    assert loss == pytest.approx(math.log(2) + math.log(4 / 3))
    assert (right, count) == (1, 2)


def test_single_logit_is_two_logits_with_a_zero():
    logit = torch.randn(6, 1)
    targets = torch.randint(0, 2, (6,))
    both = torch.cat([torch.zeros(6, 1), logit], dim=1)
    assert compare("single_logit", logit, targets) == pytest.approx(
        compare("cross_entropy", both, targets)
    )
    torch.testing.assert_close(
        LOSSES["single_logit"].probabilities(logit), LOSSES["cross_entropy"].probabilities(both)
    )
    smooth = compare("single_logit", logit, targets, smoothing=0.1)
    assert smooth == pytest.approx(compare("cross_entropy", both, targets, smoothing=0.1))


def test_positions_are_as_many_samples():
    outputs, targets = torch.randn(2, 3, 5), torch.randint(0, 3, (2, 5))
    flat = compare("cross_entropy", outputs.movedim(1, -1).flatten(0, 1), targets.flatten())
    assert compare("position_cross_entropy", outputs, targets) == pytest.approx(flat)


def test_padding_is_not_counted():
    mask = torch.tensor([[True, True, False], [True, False, False]])[:, None]
    outputs, targets = torch.randn(2, 4, 3), torch.randint(0, 4, (2, 3))
    expected = compare("position_cross_entropy", outputs, targets, mask)
    outputs[~mask.expand_as(outputs)] = 1e6
    assert compare("position_cross_entropy", outputs, targets, mask) == expected
    assert expected[2] == 3
    values, wanted = torch.randn(2, 1, 3), torch.randn(2, 3)
    loss, score, count = compare("position_mse", values, wanted, mask)
    squares = (values[:, 0] - wanted).square()
    assert loss == pytest.approx(float(squares[mask[:, 0]].sum()))
    assert (score, count) == (loss, 3)


def test_mse_takes_one_column_or_several():
    outputs, targets = torch.randn(4, 1), torch.randn(4)
    expected = float((outputs[:, 0] - targets).square().sum())
    assert compare("mse", outputs, targets) == pytest.approx([expected, expected, 4])
    wide = torch.randn(4, 3)
    assert compare("mse", wide, torch.zeros(4, 3))[0] == pytest.approx(
        float(wide.square().sum() / 3)
    )


@pytest.mark.parametrize(
    ("name", "targets", "positions", "chosen"),
    [
        ("auto", torch.zeros(2, dtype=torch.long), False, "cross_entropy"),
        ("auto", torch.zeros(2), False, "mse"),
        ("auto", torch.zeros(2, 5, dtype=torch.long), True, "position_cross_entropy"),
        ("auto", torch.zeros(2, 1, 5), True, "position_mse"),
        ("single_logit", torch.zeros(2, dtype=torch.long), False, "single_logit"),
    ],
)
def test_choice(name, targets, positions, chosen):
    assert pick_loss(name, targets, positions=positions).name == chosen


def test_classes_that_are_numbers_are_refused():
    with pytest.raises(ValueError, match=r"optim\.loss=mse"):
        pick_loss("cross_entropy", torch.zeros(3), positions=False)
