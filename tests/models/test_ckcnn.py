"""The CKCNN is the network of the CKConv authors, and their weights score what they published."""

import io
import math
import zipfile

import pytest
import torch
import torch.nn.functional as F

import ccnn
from ccnn import Grid
from ccnn.models import CKCNN, load_ckconv
from ccnn.nn.kernels.weight_norm import NormedLinear, weight_of
from ccnn.tasks import mnist
from ccnn.tasks.task import Samples

# Facts 10.1, and the table of published files: channels, classes, width, parameters.
COUNTS = [
    (1, 10, 30, 98_286),  # sMNIST, pMNIST, Speech Commands
    (1, 10, 100, 1_030_546),
    (3, 10, 30, 100_386),  # sCIFAR10
    (3, 10, 100, 1_037_546),
    (3, 20, 30, 100_696),  # CharacterTrajectories
    (20, 10, 30, 118_236),  # MFCC
    (75, 1, 30, 175_707),  # PhysioNet
]
SMNIST_OMEGA, TRAJECTORIES_OMEGA = 31.09195739463897, 12.589391905289371


@pytest.fixture(scope="module")
def smnist_file(data_root):
    return data_root / "checkpoints" / "ckcnn_smnist_30.pt"


@pytest.fixture(scope="module")
def trajectories_file(data_root):
    return data_root / "checkpoints" / "ckcnn_chartrajectories_8x.pt"


@pytest.fixture(scope="module")
def smnist_test(data_root):
    """The test part alone: reading all of MNIST takes seconds."""
    images = mnist.read_idx(mnist.find_file(data_root, mnist.IMAGES["test"]), 3)
    labels = mnist.read_idx(mnist.find_file(data_root, mnist.LABELS["test"]), 1)
    x = torch.tensor(images.reshape(-1, 1, 784)).float()
    return Samples((x / 255 - mnist.MEAN) / mnist.STD, torch.tensor(labels).long())


# --- The network ---------------------------------------------------------------------------------


@pytest.mark.parametrize("row", COUNTS, ids=str)
def test_it_has_the_published_number_of_parameters(row):
    before, classes, width, count = row
    model = CKCNN(before, classes, (50,), channels=width, init="none")
    assert sum(p.numel() for p in model.parameters()) == count


def slow_kernel(conv):
    """Facts 10.1: weight-normed linears, sines of ω₀ times their outputs, (C_out, C_in, K)."""
    h = torch.linspace(-1, 1, conv.size[0], dtype=torch.float64)[:, None]
    for layer in (*conv.kernel.sines, conv.kernel.output):
        v = layer.weight
        rows = [g * row / row.square().sum().sqrt() for g, row in zip(layer.length, v, strict=True)]
        h = h @ torch.stack(rows).T + layer.bias
        if layer is not conv.kernel.output:
            h = torch.sin(conv.kernel.omega_0 * h)
    return h.T.reshape(conv.out_channels, conv.in_channels, -1)


def slow_network(model, x):
    """The published network, written out; x is as long as the kernels."""
    for block in model.blocks:
        h = x
        for conv, norm in ((block.conv1, block.norm1), (block.conv2, block.norm2)):
            padded = F.pad(h, (conv.size[0] - 1, 0))
            h = F.conv1d(padded, slow_kernel(conv), conv.bias)  # lag zero is the last sample
            mean = h.mean(dim=(1, 2), keepdim=True)
            var = h.var(dim=(1, 2), keepdim=True, correction=0)
            h = (h - mean) / (var + 1e-12).sqrt() * norm.weight[:, None] + norm.bias[:, None]
            h = F.relu(h)
        short = block.shortcut
        x = F.relu(h + (x if short is None else F.conv1d(x, short.weight[..., None], short.bias)))
    return x[..., -1] @ model.output.weight.T + model.output.bias


@pytest.mark.parametrize("before", [2, 5], ids=["a linear shortcut", "the identity"])
def test_forward_is_the_published_network(before):
    model = CKCNN(before, 3, (17,), channels=5, kernel_channels=4, omega_0=7.5).double()
    for p in model.parameters():
        p.data.add_(0.1 * torch.randn_like(p))  # nothing is left at zero or one
    x = torch.randn(3, before, 17, dtype=torch.float64)
    torch.testing.assert_close(model.eval()(x), slow_network(model, x))


def test_as_the_authors_it_starts_from_torchs_weights_and_wide_biases():
    model = CKCNN(1, 10, (64,), init="authors", omega_0=30.0)
    for name, layer in model.named_modules():
        if isinstance(layer, NormedLinear):
            bound = layer.in_features**-0.5
            weight = weight_of(layer)
            assert weight.abs().max() <= bound + 1e-6, name
            assert layer.bias.abs().max() <= 1
            if weight.numel() > 500:
                assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
                assert layer.bias.std().item() > 0.4  # of U(±1): 0.58
    assert model.output.weight.std().item() == pytest.approx(0.01, rel=0.2)
    assert (model.output.bias == 0).all()
    kernel = model.blocks[0].conv2.sampled_kernel()
    assert 0.5 < kernel.std() < 0.9  # facts 10.1: about 0.7


def test_with_our_initialisation_a_fresh_kernel_has_unit_energy():
    model = CKCNN(2, 3, (40,), channels=4)
    for conv in model.convolutions():
        energy = conv.sampled_kernel().flatten(1).square().sum(dim=1)
        torch.testing.assert_close(energy, torch.ones_like(energy), rtol=1e-4, atol=1e-4)


def test_images_are_refused_by_name():
    with pytest.raises(ValueError, match=r"CKCNN reads sequences .* \(32, 32\) has 2 axes"):
        CKCNN(3, 10, (32, 32))


# --- The published weights -----------------------------------------------------------------------


def test_stored_kernels_are_regenerated(trajectories_file):
    """The file holds what the authors' code sampled from its weights."""
    stored = torch.load(trajectories_file, weights_only=True, map_location="cpu")
    model = load_ckconv(trajectories_file, omega_0=TRAJECTORIES_OMEGA)
    assert model.size == (23,)
    for i, conv in enumerate(model.convolutions()):
        theirs = stored[f"backbone.{i // 2}.cconv{i % 2 + 1}.conv_kernel"]
        assert (conv.sampled_kernel() - theirs).abs().max() < 1e-5


def test_published_weights_are_kept_to_the_bit(smnist_file):
    stored = torch.load(smnist_file, weights_only=True, map_location="cpu")
    model = load_ckconv(smnist_file, omega_0=SMNIST_OMEGA)
    assert not model.training
    assert sum(p.numel() for p in model.parameters()) == sum(v.numel() for v in stored.values())
    pairs = {
        "backbone.1.cconv2.Kernel.kernel_net.4.weight_v": model.blocks[1]
        .conv2.kernel.sines[1]
        .weight,
        "backbone.0.cconv1.Kernel.kernel_net.8.weight_g": model.blocks[
            0
        ].conv1.kernel.output.length,
        "backbone.0.shortcut.0.weight": model.blocks[0].shortcut.weight,
        "backbone.1.norm1.layer_norm.bias": model.blocks[1].norm1.bias,
        "finallyr.weight": model.output.weight,
    }
    for key, ours in pairs.items():
        assert torch.equal(ours, stored[key].reshape(ours.shape)), key


def right_answers(model, samples, *, batch=100):
    with torch.inference_mode(), ccnn.cached(model):
        parts = zip(samples.x.split(batch), samples.y.split(batch), strict=True)
        return sum(int((model(x).argmax(dim=1) == y).sum()) for x, y in parts)


def test_published_network_answers_200_images(smnist_file, smnist_test):
    model = load_ckconv(smnist_file, omega_0=SMNIST_OMEGA)
    some = smnist_test.take(slice(0, 10_000, 50))
    assert right_answers(model, some) == 199


@pytest.mark.slow
def test_published_network_scores_what_was_published(smnist_file, smnist_test):
    model = load_ckconv(smnist_file, omega_0=SMNIST_OMEGA)
    assert len(smnist_test) == 10_000
    assert right_answers(model, smnist_test) == 9931


# --- Files that are something else ---------------------------------------------------------------


def published_like(model: CKCNN) -> dict[str, torch.Tensor]:
    """The state dict of a CKCNN as the authors' code would store it, written out by hand."""
    state = {}
    for b, block in enumerate(model.blocks):
        for i, (conv, norm) in enumerate(((block.conv1, block.norm1), (block.conv2, block.norm2))):
            place = f"backbone.{b}.cconv{i + 1}"
            state[f"{place}.bias"] = conv.bias
            layers = (*conv.kernel.sines, conv.kernel.output)
            for index, layer in zip((0, 4, 8), layers, strict=True):
                net = f"{place}.Kernel.kernel_net.{index}"
                state[f"{net}.bias"] = layer.bias
                state[f"{net}.weight_g"] = layer.length[:, None, None]
                state[f"{net}.weight_v"] = layer.weight[:, :, None]
            state[f"backbone.{b}.norm{i + 1}.layer_norm.weight"] = norm.weight
            state[f"backbone.{b}.norm{i + 1}.layer_norm.bias"] = norm.bias
        if block.shortcut is not None:
            state[f"backbone.{b}.shortcut.0.weight"] = block.shortcut.weight[:, :, None]
            state[f"backbone.{b}.shortcut.0.bias"] = block.shortcut.bias
    state["finallyr.weight"], state["finallyr.bias"] = model.output.weight, model.output.bias
    return {key: value.detach().clone() for key, value in state.items()}


@pytest.fixture
def small():
    return CKCNN(2, 3, (9,), channels=4, kernel_channels=5, omega_0=8.0).eval()


@pytest.fixture
def write(tmp_path):
    def write(state):
        torch.save(state, tmp_path / "net.pt")
        return tmp_path / "net.pt"

    return write


def test_a_network_written_as_theirs_comes_back(small, write):
    path = write(published_like(small))
    again = load_ckconv(path, omega_0=8.0, size=(9,))
    x = torch.randn(2, 2, 9)
    torch.testing.assert_close(again(x), small(x))
    assert {**again.arguments, "init": 0, "size": 0} == {**small.arguments, "init": 0, "size": 0}


def test_the_length_in_the_file_is_the_size(small, write):
    state = published_like(small)
    for b in (0, 1):
        for i in (1, 2):
            state[f"backbone.{b}.cconv{i}.train_length"] = torch.tensor([9], dtype=torch.int32)
    path = write(state)
    assert load_ckconv(path, omega_0=8.0).size == (9,)
    with pytest.raises(ValueError, match=r"size is \(10,\), but .*net\.pt was trained on length 9"):
        load_ckconv(path, omega_0=8.0, size=(10,))
    state["backbone.0.cconv1.train_length"] += 1
    with pytest.raises(ValueError, match=r"names the lengths \[9, 10\]"):
        load_ckconv(write(state), omega_0=8.0)


def test_reading_leaves_the_random_numbers_alone(small, write):
    path, before = write(published_like(small)), torch.get_rng_state()
    load_ckconv(path, omega_0=8.0, size=(9,))
    assert torch.equal(torch.get_rng_state(), before)


def test_without_omega_0_it_says_where_to_find_it(small, write):
    path = write(published_like(small))
    with pytest.raises(ValueError, match=r"omega_0 is not stored .* value of their command"):
        load_ckconv(path)
    for wrong in (0.0, -3.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="omega_0 must be a positive number"):
            load_ckconv(path, omega_0=wrong)


def test_an_omega_0_of_another_network_is_refused(trajectories_file):
    with pytest.raises(ValueError, match=r"omega_0=12\.0 does not give the kernels"):
        load_ckconv(trajectories_file, omega_0=12.0)


def test_a_length_that_nobody_says_is_asked_for(small, write):
    with pytest.raises(ValueError, match=r"does not say on which length .* give size="):
        load_ckconv(write(published_like(small)), omega_0=8.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s.pop("finallyr.bias"), r"has no finallyr\.bias"),
        (lambda s: s.pop("backbone.1.norm2.layer_norm.bias"), r"lacks backbone\.1\.norm2"),
        (lambda s: s.update(extra=torch.zeros(1)), "has unknown extra"),
        (lambda s: s.update({"x.conv_kernel": torch.zeros(1)}), r"has unknown x\.conv_kernel"),
        (
            lambda s: s.update({"finallyr.weight": torch.zeros(3, 5)}),
            r"finallyr\.weight is torch\.float32 \(3, 5\), expected float \(3, 4\)",
        ),
        (
            lambda s: s.update({"backbone.0.shortcut.0.weight": torch.zeros(4, 2)}),
            r"shortcut\.0\.weight is .* \(4, 2\), expected float \(4, 2, 1\)",
        ),
        (lambda s: s["backbone.0.cconv1.bias"].fill_(math.nan), "not finite"),
        (
            lambda s: s.update({"finallyr.bias": torch.zeros(3, dtype=torch.int64)}),
            r"finallyr\.bias is torch\.int64",
        ),
        (lambda s: s.update({"backbone.0.cconv1.bias": torch.zeros(3)}), "make no network"),
        (
            lambda s: s.update({"backbone.0.cconv1.conv_kernel": torch.zeros(4, 2, 9)}),
            r"omega_0=8\.0 does not give the kernels",
        ),
        (
            lambda s: s.update({"backbone.0.cconv1.conv_kernel": torch.zeros(4, 1, 9)}),
            r"conv_kernel has shape \(4, 1, 9\), expected \(4, 2, 9\)",
        ),
    ],
)
def test_a_state_dict_that_is_not_theirs_is_refused_by_name(small, write, change, says):
    state = published_like(small)
    change(state)
    path = write(state)
    with pytest.raises(ValueError, match=says) as refusal:
        load_ckconv(path, omega_0=8.0, size=(9,))
    assert "\n" not in str(refusal.value)
    assert "net.pt" in str(refusal.value)


class Harmful:
    """A pickle that would run code when it is loaded."""

    def __reduce__(self):
        return print, ("executed",)


def saved(content) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def empty_zip() -> bytes:
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"not weights at all\n" * 50, id="text"),
        pytest.param(empty_zip(), id="a zip of nothing"),
        pytest.param(saved({"weight": torch.zeros(100)})[:500], id="truncated"),
        pytest.param(saved({"weight": Harmful()}), id="code"),
        pytest.param(saved([torch.zeros(2)]), id="a list"),
        pytest.param(saved({"state_dict": {"weight": torch.zeros(2)}}), id="a nested dict"),
    ],
)
def test_a_file_that_is_no_state_dict_is_refused(tmp_path, content, capsys):
    path = tmp_path / "net.pt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"net\.pt (cannot be read|holds a)") as refusal:
        load_ckconv(path, omega_0=8.0)
    assert "\n" not in str(refusal.value)
    assert capsys.readouterr().out == ""  # nothing was executed


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no"):
        load_ckconv(tmp_path / "net.pt", omega_0=8.0)
    with pytest.raises(ValueError, match="is a folder"):
        load_ckconv(tmp_path, omega_0=8.0)


def test_the_published_network_goes_on_at_half_the_rate(smnist_file, smnist_test):
    """Its kernels are functions: with every second pixel and the spacing it still knows most."""
    model = load_ckconv(smnist_file, omega_0=SMNIST_OMEGA)
    some = smnist_test.take(slice(0, 10_000, 50))
    with torch.inference_mode(), ccnn.cached(model):
        told = model(some.x[..., ::2], Grid(spacing=2.0)).argmax(dim=1)
        untold = model(some.x[..., ::2]).argmax(dim=1)
    assert (told == some.y).sum() > (untold == some.y).sum()
