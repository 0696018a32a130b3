"""`ccnn.save` and `ccnn.load`: bit for bit, never half, never a pickle; and the same on the Hub."""

import errno
import fnmatch
import hashlib
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import ccnn
from ccnn.hub import load_from_hub, push_to_hub
from ccnn.models import CLASSES
from ccnn.saving import load, save

SIZES = [(16,), (6, 7)]


def tiny(size: tuple[int, ...] = (16,), *, channels: int = 8, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return ccnn.create_model(
        "ccnn_4_110",
        in_channels=1,
        out_channels=3,
        size=size,
        channels=channels,
        blocks=1,
        kernel_channels=4,
    )


def train_a_step(model: nn.Module, size: tuple[int, ...]) -> None:
    dtype = next(model.parameters()).dtype
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    model(3 + torch.randn(4, 1, *size, dtype=dtype)).square().sum().backward()
    optimizer.step()


def bits(model: nn.Module) -> dict[str, tuple[torch.dtype, tuple[int, ...], list[int]]]:
    """A state dict in a form whose equality is that of bits: -0.0 is not 0.0, NaN is NaN."""
    return {
        name: (
            value.dtype,
            tuple(value.shape),
            value.detach().reshape(-1).view(torch.uint8).tolist(),
        )
        for name, value in model.state_dict().items()
    }


def assert_same_model(one: nn.Module, other: nn.Module, size: tuple[int, ...] = (16,)) -> None:
    assert type(one) is type(other)
    assert json.dumps(one.arguments) == json.dumps(other.arguments)
    assert bits(one) == bits(other)
    x = torch.randn(2, 1, *size, dtype=next(one.parameters()).dtype)
    with torch.no_grad():
        assert torch.equal(one.eval()(x), other.eval()(x))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def weights_of(folder: Path) -> Path:
    (path,) = folder.glob("weights-*.safetensors")
    return path


def rewrite_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def rewrite_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change tensors as somebody would who also corrects name and checksum."""
    old = weights_of(folder)
    tensors = safetensors.torch.load(old.read_bytes())
    change(tensors)
    adopt_weights(folder, safetensors.torch.save(tensors))


def adopt_weights(folder: Path, content: bytes) -> None:
    weights_of(folder).unlink()
    digest = hashlib.sha256(content).hexdigest()
    name = f"weights-{digest[:12]}.safetensors"
    (folder / name).write_bytes(content)
    rewrite_config(folder, weights=name, sha256=digest)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(tiny(), tmp_path / "model")


# Bit for bit


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("trained", [False, True])
def test_a_loaded_model_is_the_saved_one_bit_for_bit(tmp_path, size, dtype, trained):
    model = tiny(size).to(dtype)
    if trained:
        before = bits(model)
        train_a_step(model, size)
        assert bits(model) != before
    assert_same_model(model, load(save(model, tmp_path)), size)


def test_running_statistics_are_saved(tmp_path):
    model = tiny()
    fresh = {name: value.clone() for name, value in model.named_buffers()}
    train_a_step(model, (16,))
    moved = [name for name, value in model.named_buffers() if not torch.equal(value, fresh[name])]
    assert moved
    loaded = load(save(model, tmp_path))
    for name in moved:
        assert torch.equal(loaded.get_buffer(name), model.get_buffer(name)), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_bits(tmp_path, dtype):
    model = tiny().to(dtype)
    assert bits(load(save(model, tmp_path))) == bits(model)


def test_a_model_of_two_dtypes_keeps_both(tmp_path):
    model = tiny()
    last = list(model.parameters())[-1]
    last.data = last.data.double()
    assert bits(load(save(model, tmp_path))) == bits(model)


def test_special_values_keep_their_bits(tmp_path):
    model = tiny()
    with torch.no_grad():
        parameter = max(model.parameters(), key=Tensor.numel).view(-1)
        parameter[:5] = torch.tensor([-0.0, float("nan"), float("inf"), 1e-45, -float("inf")])
    assert bits(load(save(model, tmp_path))) == bits(model)


def test_a_transposed_parameter_is_saved_by_value(tmp_path):
    model = tiny()
    parameter = next(p for p in model.parameters() if p.ndim == 2 and min(p.shape) > 1)
    parameter.data = parameter.data.T.contiguous().T
    assert not parameter.is_contiguous()
    assert bits(load(save(model, tmp_path))) == bits(model)


def test_parameters_on_shared_memory_are_saved(tmp_path):
    model = tiny()
    groups: dict[torch.Size, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.shape, []).append(parameter)
    first, second, *_ = max(groups.values(), key=len)
    second.data = first.data
    assert_same_model(model, load(save(model, tmp_path)))


class Tied(nn.Module):
    """A model with one parameter under two names, and a buffer that is not in the state dict."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.arguments = {"width": width}
        self.one = nn.Linear(width, width)
        self.two = nn.Linear(width, width)
        self.two.weight = self.one.weight
        self.register_buffer("ones", torch.ones(width), persistent=False)


def test_one_parameter_of_two_names_stays_one(tmp_path, monkeypatch):
    monkeypatch.setitem(CLASSES, "Tied", Tied)
    model = Tied(3).double()
    loaded = load(save(model, tmp_path))
    assert bits(loaded) == bits(model)
    assert loaded.two.weight is loaded.one.weight


def test_buffers_outside_the_state_dict_have_the_dtype_of_the_model(tmp_path, monkeypatch):
    monkeypatch.setitem(CLASSES, "Tied", Tied)
    assert load(save(Tied(3).double(), tmp_path)).ones.dtype == torch.float64


def test_the_loaded_model_predicts_and_can_go_on_training(saved):
    model = load(saved)
    assert not model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    train_a_step(model, (16,))


def test_the_device_is_the_one_asked_for(saved):
    # "meta" is the one device besides the CPU that every machine has.
    assert {parameter.device.type for parameter in load(saved, device="meta").parameters()} == {
        "meta"
    }


def test_saving_changes_neither_the_model_nor_the_random_state(tmp_path):
    model = tiny().train()
    before, state = bits(model), torch.get_rng_state()
    load(save(model, tmp_path))
    assert bits(model) == before
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)


def test_the_default_dtype_of_the_reader_does_not_matter(tmp_path):
    model = tiny()
    save(model, tmp_path)
    torch.set_default_dtype(torch.float64)
    try:
        loaded = load(tmp_path)
    finally:
        torch.set_default_dtype(torch.float32)
    assert_same_model(model, loaded)


# The folder


def test_the_folder_holds_json_and_safetensors_and_nothing_else(saved):
    config = json.loads((saved / "config.json").read_text())
    digest = hashlib.sha256(weights_of(saved).read_bytes()).hexdigest()
    assert names(saved) == ["config.json", f"weights-{digest[:12]}.safetensors"]
    assert list(config) == ["format", "ccnn", "model", "arguments", "weights", "sha256", "dtype"]
    assert config["format"] == 1
    assert config["model"] in CLASSES
    assert config["sha256"] == digest
    assert config["dtype"] == "float32"
    header = weights_of(saved).read_bytes()[8:9]
    assert header == b"{"  # a pickle starts with \x80, a zip with PK


def test_saving_gives_the_folder_and_makes_its_parents(tmp_path):
    folder = tmp_path / "runs" / "one"
    assert save(tiny(), str(folder)) == folder
    assert_same_model(tiny(), load(str(folder)))


def test_the_same_model_gives_the_same_files(tmp_path):
    one, two = save(tiny(), tmp_path / "one"), save(tiny(), tmp_path / "two")
    assert {p.name: p.read_bytes() for p in one.iterdir()} == {
        p.name: p.read_bytes() for p in two.iterdir()
    }


def test_a_second_save_replaces_the_first_and_leaves_other_files_alone(saved):
    (saved / "notes.txt").write_text("mine")
    first = weights_of(saved).name
    model = tiny((6, 7), seed=1)
    save(model, saved)
    assert weights_of(saved).name != first
    assert names(saved) == ["config.json", "notes.txt", weights_of(saved).name]
    assert_same_model(model, load(saved), (6, 7))


def test_saving_the_same_model_again_repairs_its_weights(saved):
    weights_of(saved).write_bytes(b"")
    save(tiny(), saved)
    assert_same_model(tiny(), load(saved))


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_others_may_read_what_the_umask_lets_them_read(tmp_path):
    old = os.umask(0o022)
    try:
        folder = save(tiny(), tmp_path / "model")
    finally:
        os.umask(old)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}


def test_leftovers_of_killed_processes_go_when_they_are_old(saved):
    old, young, foreign = (
        saved / ".config.json.0a.tmp",
        saved / ".weights-0.0b.tmp",
        saved / ".mine.tmp",
    )
    for path in (old, young, foreign):
        path.write_text("")
    for path in (old, foreign):
        os.utime(path, (time.time() - 1e5,) * 2)
    save(tiny(), saved)
    assert not old.exists()
    assert young.exists()
    assert foreign.exists()


# What cannot be saved


def test_a_foreign_model_is_refused_by_name(tmp_path):
    with pytest.raises(TypeError, match=r"cannot save a Linear: accepted are .*CCNN"):
        save(nn.Linear(1, 1), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_subclass_is_refused_since_it_would_come_back_as_its_parent(tmp_path):
    model = tiny()
    model.__class__ = type("Mine", (type(model),), {})
    with pytest.raises(TypeError, match="cannot save a Mine"):
        save(model, tmp_path)


def test_a_model_that_its_arguments_no_longer_describe_is_refused(saved):
    model = tiny()
    model.extra = nn.Linear(2, 2)
    with pytest.raises(
        ValueError, match=r"could not be loaded again \(unexpected: extra.weight, extra.bias\)"
    ):
        save(model, saved)
    assert_same_model(tiny(), load(saved))


def test_numbers_of_numpy_among_the_arguments_are_saved(tmp_path):
    model = tiny()
    model.arguments["mask_sigma"] = np.float32(0.25)
    assert load(save(model, tmp_path)).arguments["mask_sigma"] == 0.25


def test_arguments_that_are_not_json_are_refused(tmp_path):
    model = tiny()
    model.arguments["size"] = object()
    with pytest.raises(TypeError, match="as JSON"):
        save(model, tmp_path)


def test_state_that_is_no_tensor_is_refused(tmp_path):
    model = tiny()
    model.register_module(
        "extra", type("Extra", (nn.Module,), {"get_extra_state": lambda self: {"a": 1}})()
    )
    with pytest.raises(TypeError, match=r"extra\._extra_state"):
        save(model, tmp_path)


def test_a_dtype_that_is_not_known_is_refused(tmp_path):
    model = tiny()
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.float8_e5m2)
    with pytest.raises((TypeError, ValueError), match="float8_e5m2"):
        save(model, tmp_path)


# Crashes


class Failing:
    """Let the n-th call of the given functions of `os` fail, before or after it did its work."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, error: BaseException, *, after: bool, nth: int
    ) -> None:
        self.error, self.after, self.nth, self.calls = error, after, nth, 0
        for name in ("fsync", "replace"):
            monkeypatch.setattr(os, name, self.wrap(getattr(os, name)))

    def wrap(self, function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            self.calls += 1
            fails = self.calls == self.nth
            if fails and not self.after:
                raise self.error
            result = function(*args)
            if fails:
                raise self.error
            return result

        return call


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_whatever_fails_one_whole_model_is_there(tmp_path, error, after):
    old, new = tiny(), tiny(seed=1)
    outcomes = []
    for nth in range(1, 100):
        folder = save(old, tmp_path / str(nth))
        raised = False
        with pytest.MonkeyPatch.context() as patch:
            failing = Failing(patch, error, after=after, nth=nth)
            try:
                save(new, folder)
            except type(error):
                raised = True
        loaded = load(folder)
        is_new = bits(loaded) == bits(new)
        assert is_new or bits(loaded) == bits(old)
        assert raised or is_new
        assert names(folder) == ["config.json", weights_of(folder).name]
        outcomes.append((raised, is_new))
        if failing.calls < nth:
            break
    assert outcomes[-1] == (False, True)
    assert (True, False) in outcomes  # it did fail, and kept the old model
    if isinstance(error, OSError) and not after:
        assert (True, True) not in outcomes  # what is reported as failed did not happen


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_a_first_save_that_fails_leaves_nothing_or_a_model(tmp_path, nth):
    folder = tmp_path / "model"
    with pytest.MonkeyPatch.context() as patch:
        Failing(patch, OSError(errno.ENOSPC, "No space left on device"), after=False, nth=nth)
        try:
            save(tiny(), folder)
        except OSError:
            assert names(folder) == []
            with pytest.raises(FileNotFoundError, match=r"config\.json"):
                load(folder)
            return
    assert_same_model(tiny(), load(folder))


def test_a_file_that_cannot_be_written_to_its_end_costs_nothing(saved):
    """A real failure in the middle of a write: the system limits how long a file may grow."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    limit = weights_of(saved).stat().st_size // 2
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        with pytest.raises(OSError, match="too large"):
            save(tiny(seed=1), saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_old_weights_that_cannot_be_removed_are_no_failure(saved, monkeypatch):
    def refuse(path: Path) -> None:
        if not path.name.endswith(".tmp"):
            raise PermissionError(errno.EACCES, "in use", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        save(tiny(seed=1), saved)
    assert len(list(saved.glob("weights-*"))) == 2
    assert_same_model(tiny(seed=1), load(saved))
    save(tiny(seed=2), saved)
    assert names(saved) == ["config.json", weights_of(saved).name]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_failed_save_keeps_weights_whose_config_was_lost(saved, monkeypatch, seed):
    (saved / "config.json").unlink()
    left = names(saved)
    with monkeypatch.context() as patch:
        Failing(patch, OSError(errno.EIO, "Input/output error"), after=True, nth=2)
        with pytest.raises(OSError, match="Input/output"):
            save(tiny(seed=seed), saved)
    assert names(saved) == left


KILLED = """
import os, signal, sys
import torch
from ccnn.saving import load, save

model = load(sys.argv[1])
with torch.no_grad():
    for parameter in model.parameters():
        parameter.add_(1)
replace, calls = os.replace, 0

def kill_at_commit(*args):
    global calls
    calls += 1
    if calls == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*args)

os.replace = kill_at_commit
save(model, sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_process_killed_before_the_commit_leaves_the_old_model(saved):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(saved)], env=path_environment(), capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert (
        len(list(saved.glob("weights-*.safetensors"))) == 2
    )  # it was killed between the two files
    assert_same_model(tiny(), load(saved))
    save(tiny(seed=1), saved)
    assert len(list(saved.glob("weights-*.safetensors"))) == 1
    assert_same_model(tiny(seed=1), load(saved))


def path_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


# What cannot be loaded


def fails(folder: Path, *patterns: str, error: type[Exception] = ValueError) -> None:
    """Loading must fail, saying the place and each of the patterns."""
    with pytest.raises(error) as caught:
        load(folder)
    for pattern in (str(folder), *patterns):
        assert pattern in str(caught.value)


def test_no_folder(tmp_path):
    fails(tmp_path / "nowhere", "there is no ", "ccnn.save", error=FileNotFoundError)


def test_no_config(saved):
    (saved / "config.json").unlink()
    fails(saved, "config.json", "ccnn.save", error=FileNotFoundError)


def test_a_file_instead_of_a_folder(saved):
    fails(saved / "config.json", "is a file", "give the folder")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000])
def test_config_that_is_not_json(saved, content):
    (saved / "config.json").write_bytes(content)
    fails(saved, "config.json is not JSON", "copy it again")


def test_config_cut_at_any_byte_is_refused(saved):
    whole = (saved / "config.json").read_bytes().rstrip()
    for length in range(0, len(whole), 7):
        (saved / "config.json").write_bytes(whole[:length])
        fails(saved, "config.json is not JSON")


@pytest.mark.parametrize("content", ["[]", "1", "null", '"x"'])
def test_config_that_is_no_object(saved, content):
    (saved / "config.json").write_text(content)
    fails(saved, "config.json holds no JSON object", "copy it again")


@pytest.mark.parametrize(
    "key", ["format", "ccnn", "model", "arguments", "weights", "sha256", "dtype"]
)
def test_config_without_a_key_or_with_a_wrong_kind(saved, key):
    rewrite_config(saved, **{key: None})
    fails(saved, f"lacks {key}", "copy it again")
    config = json.loads((saved / "config.json").read_text())
    del config[key]
    (saved / "config.json").write_text(json.dumps(config))
    fails(saved, f"lacks {key}")


def test_a_newer_format(saved):
    (saved / "config.json").write_text(json.dumps({"format": 2, "ccnn": "9.1", "anything": "else"}))
    fails(saved, "written by ccnn 9.1 with format 2, this version reads up to 1: upgrade ccnn")


def test_a_format_that_never_existed(saved):
    rewrite_config(saved, format=0)
    fails(saved, "format 0")


def test_an_unknown_model(saved):
    rewrite_config(saved, model="CCN")
    fails(saved, "'CCN'", "nearest: 'CCNN'", "upgrade ccnn")


def test_an_unknown_dtype(saved):
    rewrite_config(saved, dtype="float33")
    fails(saved, "'float33'", "float32")


@pytest.mark.parametrize(
    "changes", [{"size": "long"}, {"no_hidden": 3}, {"channels": -1}, {"size": None}]
)
def test_arguments_the_constructor_rejects(saved, changes):
    arguments = json.loads((saved / "config.json").read_text())["arguments"]
    rewrite_config(saved, arguments=arguments | changes)
    fails(saved, "config.json", "cannot be built with the arguments", json.dumps(changes)[1:-1])


def test_missing_weights(saved):
    name = weights_of(saved).name
    weights_of(saved).unlink()
    fails(saved, name, "copy it again", error=FileNotFoundError)


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_truncated_weights(saved, keep):
    weights_of(saved).write_bytes(weights_of(saved).read_bytes()[:keep])
    fails(saved, weights_of(saved).name, "truncated or altered", "copy it again")


def test_one_altered_bit(saved):
    content = bytearray(weights_of(saved).read_bytes())
    content[-1] ^= 1
    weights_of(saved).write_bytes(content)
    fails(saved, weights_of(saved).name, "truncated or altered", "copy it again")


def test_weights_that_are_no_safetensors(saved):
    adopt_weights(saved, b"\x80\x02}q\x00.")  # a pickle
    fails(saved, "is no safetensors file")


@pytest.mark.parametrize(
    "where", ["../{}", "{folder}/{}", "sub/{}", "..\\{}", "C:{}", "", ".", "config.json", "{}\n"]
)
def test_weights_outside_the_folder(saved, where):
    name = weights_of(saved).name
    shutil.copy(weights_of(saved), saved.parent / name)
    rewrite_config(saved, weights=where.format(name, folder=saved.parent))
    fails(saved, "names the weights", "do not trust")


def test_missing_unexpected_and_reshaped_tensors_are_listed(saved):
    first, second, *_ = tiny().state_dict()

    def change(tensors: dict[str, Tensor]) -> None:
        tensors["stranger"] = tensors.pop(first)
        tensors[second] = torch.zeros(1, 2, 3, 4, 5)

    rewrite_weights(saved, change)
    fails(
        saved,
        f"missing: {first}",
        "unexpected: stranger",
        f"{second} (1, 2, 3, 4, 5) instead of",
        "restore both",
    )


def test_many_missing_tensors_are_counted(saved):
    rewrite_weights(saved, dict.clear)
    fails(saved, f"and {len(tiny().state_dict()) - 5} more")


def test_integers_where_floats_belong(saved):
    first = next(iter(tiny().state_dict()))
    rewrite_weights(saved, lambda tensors: tensors.update({first: tensors[first].int()}))
    fails(saved, f"of another kind: {first} torch.int32 instead of torch.float32")


def test_weights_of_another_model(saved, tmp_path):
    other = save(tiny(channels=12), tmp_path / "other")
    adopt_weights(saved, weights_of(other).read_bytes())
    fails(saved, "of another shape")


# The Hub


class Remote(types.ModuleType):
    """Stands in for huggingface_hub and its servers: a repository is a list of commits on disk."""

    def __init__(self, root: Path) -> None:
        super().__init__("huggingface_hub")
        self.root = root
        self.calls: list[tuple[str, dict[str, object]]] = []

    def create_repo(self, repo_id, *, token=None, private=None, exist_ok=False):
        self.calls.append(("create_repo", {"token": token, "private": private}))
        repo_id = repo_id if "/" in repo_id else f"me/{repo_id}"
        (self.root / repo_id).mkdir(parents=True, exist_ok=exist_ok)
        url = type("RepoUrl", (str,), {"repo_id": repo_id})
        return url(f"https://hub.example/{repo_id}")

    def upload_folder(
        self, *, repo_id, folder_path, commit_message=None, token=None, delete_patterns=()
    ):
        self.calls.append(("upload_folder", {"token": token, "commit_message": commit_message}))
        commits = sorted((self.root / repo_id).iterdir())
        commit = self.root / repo_id / str(len(commits))
        commit.mkdir()
        for path in commits[-1].iterdir() if commits else ():
            if not any(fnmatch.fnmatch(path.name, pattern) for pattern in delete_patterns):
                shutil.copy(path, commit)
        shutil.copytree(folder_path, commit, dirs_exist_ok=True)

    def snapshot_download(self, repo_id, *, revision=None, token=None, allow_patterns=None):
        self.calls.append(("snapshot_download", {"token": token, "allow_patterns": allow_patterns}))
        commit = (
            self.root / repo_id / revision if revision else max((self.root / repo_id).iterdir())
        )
        cache = self.root / "cache" / repo_id / commit.name
        for path in commit.iterdir():
            if any(fnmatch.fnmatch(path.name, pattern) for pattern in allow_patterns):
                cache.mkdir(parents=True, exist_ok=True)
                link = cache / path.name
                if not link.exists():
                    link.symlink_to(path)  # as the real cache does
        return str(cache)


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remote:
    remote = Remote(tmp_path / "remote")
    monkeypatch.setitem(sys.modules, "huggingface_hub", remote)
    return remote


def test_the_hub_gives_back_what_was_pushed(remote):
    model = tiny().double()
    train_a_step(model, (16,))
    url = push_to_hub(model, "digits", private=True, token="secret", commit_message="First")
    assert url == "https://hub.example/me/digits"
    assert type(url) is str
    assert_same_model(model, load_from_hub("me/digits", token="secret"))
    assert [call["token"] for _, call in remote.calls] == ["secret"] * 3
    assert remote.calls[0][1]["private"] is True
    assert remote.calls[1][1]["commit_message"] == "First"


def test_a_second_push_removes_old_weights_and_keeps_other_files(remote):
    push_to_hub(tiny(), "me/digits")
    (remote.root / "me/digits/0/README.md").write_text("A card.")
    push_to_hub(tiny(seed=1), "me/digits")
    newest = remote.root / "me/digits/1"
    assert names(newest) == ["README.md", "config.json", weights_of(newest).name]
    assert_same_model(tiny(seed=1), load_from_hub("me/digits"))
    assert_same_model(tiny(), load_from_hub("me/digits", revision="0"))


def test_only_the_two_files_are_fetched(remote):
    push_to_hub(tiny(), "me/digits")
    (remote.root / "me/digits/0/model.py").write_text("raise SystemExit")
    load_from_hub("me/digits")
    cache = remote.root / "cache/me/digits/0"
    assert names(cache) == ["config.json", weights_of(cache).name]


def test_a_repository_without_a_model_is_named(remote):
    (remote.root / "me/other/0").mkdir(parents=True)
    with pytest.raises(
        FileNotFoundError, match=r"me/other on the Hub holds no whole model of ccnn"
    ):
        load_from_hub("me/other")


def test_a_model_that_cannot_be_saved_makes_no_repository(remote):
    with pytest.raises(TypeError, match="cannot save a Linear"):
        push_to_hub(nn.Linear(1, 1), "me/linear")
    assert remote.calls == []


@pytest.mark.parametrize(
    "use", [lambda: push_to_hub(tiny(), "me/digits"), lambda: load_from_hub("me/digits")]
)
def test_without_the_library_the_message_says_what_to_install(monkeypatch, use):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r'pip install "ccnn\[hub\]"'):
        use()


@pytest.mark.parametrize("name", ["create_repo", "upload_folder", "snapshot_download"])
def test_the_stand_in_asks_no_more_than_the_library_offers(name):
    real = pytest.importorskip("huggingface_hub")
    ours = inspect.signature(getattr(Remote, name)).parameters
    assert set(ours) - {"self"} <= set(inspect.signature(getattr(real, name)).parameters)
