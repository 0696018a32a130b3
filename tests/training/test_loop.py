"""Training as a whole, on the toy task."""

import csv
import importlib.util
import random
import socket

import numpy as np
import pytest
import torch
from torch import nn

import ccnn
from ccnn.fitting import fit
from ccnn.training.checkpoints import read_checkpoint
from ccnn.training.failures import NotFinite
from ccnn.training.metrics import learned_size
from ccnn.training.settings import Batching, Loggers, Machine, Optim


def rows_of(folder) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in model.state_dict().items()}


def assert_same(one, other) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


@pytest.fixture(scope="module")
def finished(toy, tmp_path_factory):
    """A run with everything it writes: folder, result and network."""
    folder, model = tmp_path_factory.mktemp("finished"), toy.network()
    result = toy.run(folder, model=model, loggers=Loggers())
    return folder, result, model


def test_loss_falls_and_classes_are_learned(finished):
    _, result, _ = finished
    losses = [row["train_loss"] for row in result.history]
    assert losses[-1] < 0.7 * losses[0]
    assert result.test["accuracy"] > 0.9  # a coin gives 0.5


def test_run_folder_holds_what_it_promises(finished):
    folder, result, model = finished
    rows = rows_of(folder)
    assert [row["epoch"] for row in rows] == ["0", "1", "2", "3"]
    assert list(rows[0]) == [
        *("epoch", "step", "lr", "train_loss", "train_accuracy", "val_loss", "val_accuracy"),
        *("seconds", "kernel_size_0", "kernel_size_1", "sigma_0", "sigma_1"),
    ]
    names = ("config.yaml", "result.json", "checkpoints/last.ckpt", "checkpoints/best.ckpt")
    assert all((folder / name).exists() for name in names)
    assert list((folder / "tensorboard").glob("events*"))
    assert_same(ccnn.load(folder / "model").state_dict(), model.state_dict())
    with np.load(folder / "predictions.npz") as file:
        accuracy = (file["logits"].argmax(1) == file["targets"]).mean()
    assert accuracy == pytest.approx(result.test["accuracy"])


def test_best_epoch_is_kept_and_tested(finished):
    folder, result, model = finished
    best = max(result.history, key=lambda r: (r["val_accuracy"], -r["val_loss"]))
    assert result.best_epoch == best["epoch"]
    assert result.val == {"loss": best["val_loss"], "accuracy": best["val_accuracy"]}
    kept = read_checkpoint(folder / "checkpoints" / "best.ckpt")
    assert_same(kept["weights"], model.state_dict())
    assert not model.training


def test_hardware_names_no_host_and_no_path(finished):
    text = finished[1].to_json()
    assert finished[1].hardware["cores"] > 0
    assert socket.gethostname() not in str(finished[1].hardware.values())
    assert str(finished[0]) not in text


def test_run_repeats_bit_for_bit_and_leaves_the_callers_numbers(toy):
    models, after = [], []
    for drawn_before in (0, 5):
        model = toy.network()
        torch.manual_seed(7)
        np.random.seed(7)
        random.seed(7)
        toy.run(None, model=model)
        after.append((torch.rand(1).item(), np.random.rand(), random.random()))
        torch.rand(drawn_before)
        models.append(weights_of(model))
    assert_same(*models)
    assert after[0] == after[1]
    other = toy.network()
    toy.run(None, model=other, seed=1)
    assert not torch.equal(other.output.weight, models[0]["output.weight"])


def test_peak_of_the_learning_rate_is_exactly_lr(toy, tmp_path):
    optim = Optim(lr=0.02, mask_lr_ratio=0.1, epochs=4, warmup_epochs=1)
    result = toy.run(tmp_path / "four", optim=optim)
    rates = [row["lr"] for row in result.history]  # of each epoch's last step
    assert rates[0] == 0.02
    assert rates == sorted(rates, reverse=True)
    # All of it warm-up, so that the checkpoint at the end holds the peak.
    toy.run(tmp_path / "one", optim=Optim(lr=0.02, mask_lr_ratio=0.1, epochs=1, warmup_epochs=1))
    state = read_checkpoint(tmp_path / "one" / "checkpoints" / "last.ckpt")
    groups = {g["name"]: g["lr"] for g in state["optimizer"]["param_groups"]}
    assert groups == {"decay": 0.02, "plain": 0.02, "masks": 0.02 * 0.1}


def test_accumulation_without_normalisation_equals_the_whole_batch(toy):
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(24, 8), nn.Tanh(), nn.Linear(8, 2))

        def forward(self, x):
            return self.layers(x)

    results = []
    for accumulate in (1, 4):
        model = Plain()
        batching = Batching(batch_size=8, accumulate=accumulate)
        result = toy.run(None, model=model, batching=batching, augment=None)
        assert result.steps == 32
        results.append(model.state_dict())
    for name, value in results[0].items():
        # The sum of a mean over four parts, rounded differently.
        torch.testing.assert_close(results[1][name], value, atol=1e-4, rtol=1e-3, msg=name)


def test_average_of_the_weights_is_what_is_kept(toy, tmp_path):
    ema = 0.5
    toy.run(tmp_path, optim=Optim(lr=0.02, epochs=1, warmup_epochs=0, ema=ema),
            splits=toy.Splits(toy.sines(8, 1), None, None))  # fmt: skip
    state = read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    assert state["step"] == 1
    start = toy.network().state_dict()
    for name, value in state["model"].items():
        if value.is_floating_point():
            expected = ema * start[name] + (1 - ema) * value
            torch.testing.assert_close(state["average"][name], expected, msg=name)
    assert_same(state["best"]["weights"], state["average"])


def test_early_stopping_stops_after_its_patience(toy):
    optim = Optim(lr=1e-9, epochs=30, warmup_epochs=0, early_stopping=2)
    val = toy.sines(24, 2)
    flat = toy.Samples(torch.zeros_like(val.x), val.y)  # nothing to be learned from it
    result = toy.run(None, optim=optim, splits=toy.Splits(toy.sines(64, 1), flat, None))
    assert result.epochs == result.best_epoch + 3 < 30


def test_nan_stops_with_step_layer_advice_and_a_good_checkpoint(toy, tmp_path):
    data = toy.splits()
    calls = 0

    def poison(x):
        nonlocal calls
        calls += 1
        return x * float("nan") if calls == 12 else x

    with pytest.raises(NotFinite, match=r"step 11 .*the input itself.*optim\.lr.*step 8 is kept"):
        toy.run(tmp_path, splits=data, augment=poison)
    state = read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    assert all(torch.isfinite(v).all() for v in state["model"].values())


def test_overflow_names_the_layer_where_it_began(toy):
    model = toy.network()
    with torch.no_grad():
        model.blocks[0].linear.weight.fill_(1e38)
    with pytest.raises(NotFinite, match=r"first in the output of blocks\.0"):
        toy.run(None, model=model)


def test_huge_learning_rate_is_stopped_before_the_weights_are_lost(toy, tmp_path):
    with pytest.raises(NotFinite, match="Try a lower"):
        toy.run(tmp_path, optim=Optim(lr=1e6, epochs=40, warmup_epochs=0))


def test_bfloat16_trains(toy):
    machine = Machine(progress="none", accelerator="cpu", precision="bf16-mixed", max_epochs=1)
    model = toy.network()
    before = weights_of(model)
    result = toy.run(None, model=model, machine=machine)
    assert result.history[0]["train_loss"] < 2
    assert model.output.weight.dtype == torch.float32
    assert not torch.equal(before["output.weight"], model.output.weight)


def test_values_are_learned(toy):
    x = toy.sines(64, 1).x
    y = x.mean(dim=(1, 2))
    data = toy.Splits(toy.Samples(x, y), toy.Samples(x[:16], y[:16]), toy.Samples(x[:8], y[:8]))
    result = toy.run(None, model=toy.network(out=1, dropout=0.0), splits=data, augment=None)
    assert result.loss == "mse"
    assert result.history[-1]["val_mse"] < result.history[0]["val_mse"]
    assert set(result.test) == {"loss", "mse"}


def test_positions_and_unequal_lengths(toy):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 1, 24, generator=generator)
    lengths = torch.randint(5, 25, (32,), generator=generator)
    y = (x[:, 0] > 0).long()
    padded = torch.where(torch.arange(24) < lengths[:, None], y, 7)  # no class: must not be read
    data = toy.Samples(x, padded, lengths)
    result = toy.run(
        None,
        model=toy.network(head="none", dropout=0.0),
        splits=toy.Splits(data, data, data),
        augment=None,
    )
    assert result.loss == "position_cross_entropy"
    assert result.test["accuracy"] > 0.7  # a coin gives 0.5


def test_authors_penalty_shrinks_the_weights(toy):
    norms = []
    for decay in (0.0, 0.05):
        model = toy.network(dropout=0.0)
        toy.run(None, model=model, optim=Optim(lr=0.02, epochs=2, warmup_epochs=0,
                                               weight_decay=decay, decay="authors"))  # fmt: skip
        norms.append(model.blocks[0].linear.weight.norm().item())
    assert norms[1] < norms[0]


def test_learned_size_counts_what_the_window_keeps(toy):
    model = toy.network()
    for layer in model.convolutions():
        with torch.no_grad():
            layer.kernel.last.weight.zero_()  # a kernel of ones: only the window makes zeros
            layer.kernel.last.bias.fill_(1.0)
        for sigma in (0.04, 0.05, 0.2, 10.0):
            with torch.no_grad():
                layer.mask.sigma.fill_(sigma)
            kept = (layer.sampled_kernel().abs().sum(dim=0) > 0).sum().item()
            assert learned_size(layer) == (kept,)


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_missing_logger_is_named_before_any_work(toy, tmp_path, name):
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed")
    with pytest.raises(ModuleNotFoundError, match=f"pip install {name}"):
        toy.run(tmp_path / "run", loggers=Loggers(tensorboard=False, **{name: True}))
    assert not (tmp_path / "run").exists()


def test_plain_progress_is_one_line_per_epoch(toy, capsys):
    toy.run(None, machine=Machine(progress="plain", accelerator="cpu", max_epochs=2))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["1/2", "2/2", "accuracy"]


def test_rich_progress_ends_with_the_test(toy, capsys):
    toy.run(None, machine=Machine(progress="rich", accelerator="cpu", max_epochs=2))
    text = capsys.readouterr().out
    assert "epoch 2/2" in text
    assert "test accuracy" in text


def test_silence(toy, capfd):
    toy.run(None)
    assert capfd.readouterr() == ("", "")


def test_targets_that_do_not_belong_are_refused(toy):
    data = toy.splits()
    data.train.y = data.train.y[:-1]
    with pytest.raises(ValueError, match="64 signals and 63 targets"):
        fit(toy.network(), data, optim=Optim())
