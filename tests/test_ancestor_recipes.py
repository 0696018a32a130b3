"""`ccnn train model=ckcnn`, `flextcn_6`, `flexnet`: every task that fits them has a recipe."""

import pytest
import torch

from ccnn.conf import compose, options, plain
from ccnn.domain import Grid
from ccnn.models import ANCESTORS
from ccnn.run import build_model, evaluate, train
from ccnn.tasks import TASKS
from ccnn.training.losses import pick_loss
from ccnn.training.optimizer import make_optimizer
from ccnn.training.penalties import authors_norms
from ccnn.training.settings import Optim

# Facts 10.1: ω₀, dropout, dropout of the input, weight decay, batch, epochs of the CKConv commands.
COMMANDS = {
    "smnist": (31.09195739463897, 0.1, 0.1, 0, 64, 200),
    "pmnist": (43.45667389601194, 0, 0.1, 0, 64, 200),
    "scifar10": (25.696, 0.2, 0, 0, 64, 200),
    "speech_raw": (39.450608806633795, 0, 0, 1e-4, 32, 300),
    "speech_mfcc": (30.90257553169801, 0.2, 0, 0, 64, 200),
    "chartrajectories": (21.44961185481323, 0.1, 0, 0, 32, 200),
}
PUBLISHED = [
    ("smnist", "ckcnn", 98_286),
    ("scifar10", "ckcnn", 100_386),
    ("speech_mfcc", "ckcnn", 118_236),
    ("smnist", "flextcn_6", 373_324),
    ("scifar10", "flextcn_6", 375_364),
    ("cifar10", "flexnet", 671_650),
]
# The networks of sequences read every task of one axis, the FlexNet any task. Tasks of one kind are
# much alike, so one of each is run by default and the others are slow.
USUAL = {
    "ckcnn": {"smnist", "speech_raw", "speech_mfcc", "text", "digits", "chartrajectories"},
    "flextcn_6": {"scifar10", "listops", "pathx", "physionet2012"},
    "flexnet": {"smnist", "cifar10", "pathfinder2d", "modelnet10"},
}
FITTING = [
    pytest.param(
        task.name,
        model,
        id=f"{task.name}-{model}",
        marks=() if task.name in USUAL[model] else pytest.mark.slow,
    )
    for task in TASKS.values()
    for model in ANCESTORS
    if not task.pair and (len(task.size) == 1 or model == "flexnet")
]


@pytest.mark.parametrize("task", COMMANDS)
def test_the_ckcnn_has_the_numbers_of_its_authors_commands(task):
    config = compose([f"task={task}", "model=ckcnn"])
    m, o = config.model, config.optim
    found = (m.omega_0, m.dropout, m.dropout_in, o.weight_decay, config.data.batch_size, o.epochs)
    assert found == COMMANDS[task]
    assert o.lr == 0.001
    assert config.trainer.max_epochs == o.epochs


def test_the_flexnet_has_the_numbers_of_its_authors_command():
    config = compose(["task=cifar10", "model=flexnet", "recipe=authors"])
    m, o = config.model, config.optim
    assert (o.lr, o.epochs, o.warmup_epochs, o.mask_lr_ratio) == (0.01, 350, 5, 0.1)
    assert (m.dropout, m.mask_sigma, config.data.batch_size) == (0.2, 0.075, 64)
    assert m.omega_0 == pytest.approx(12.8 / (2 * torch.pi))
    assert build_model(config, TASKS["cifar10"]).stem.kernel_size == (33, 33)


@pytest.mark.parametrize(("task", "model", "count"), PUBLISHED)
def test_recipes_build_the_published_sizes(task, model, count):
    network = build_model(compose([f"task={task}", f"model={model}"]), TASKS[task])
    assert sum(p.numel() for p in network.parameters()) == count


@pytest.mark.parametrize(("task", "model"), FITTING)
def test_every_task_that_fits_composes_builds_and_takes_a_step(task, model):
    facts = TASKS[task]
    small = ["model.channels=8", "model.blocks=1", "model.kernel_channels=2"]
    config = compose([f"task={task}", f"model={model}", *small])
    network = build_model(config, facts).train()
    if facts.vocabulary:
        x = torch.randint(facts.vocabulary, (2, *facts.size))
        grid = Grid(lengths=[facts.size[0], facts.size[0] // 2])
    else:
        x, grid = torch.randn(2, facts.in_channels, *facts.size), None
    y = torch.tensor([0, 1])
    optim = Optim(**plain(config.optim))
    loss = pick_loss(optim.loss, y, positions=False)
    optimizer = make_optimizer(network, optim)
    before = [p.detach().clone() for p in network.parameters()]
    total, _, count = loss.compare(network(x, grid), y, None, 0.0)
    (total / count).backward()
    optimizer.step()
    assert total.isfinite()
    moved = [not torch.equal(p, q) for p, q in zip(network.parameters(), before, strict=True)]
    assert sum(moved) > 0.6 * len(moved)  # the output starts near zero, biases before norms stay


def test_every_named_network_has_a_configuration():
    assert set(ANCESTORS) < set(options("model"))


def test_the_authors_recipe_starts_as_their_code_and_can_be_penalised():
    config = compose(["task=smnist", "model=ckcnn", "recipe=authors", "model.channels=4"])
    assert (config.model.init, config.optim.decay) == ("authors", "authors")
    network = build_model(config, TASKS["smnist"])
    assert network.arguments["init"] == "authors"
    assert authors_norms(network).isfinite()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["task=cifar10", "model=ckcnn"], r"CKCNN reads sequences .* FlexNet and CCNN read them"),
        (["task=retrieval", "model=flextcn_6"], "task=retrieval compares two signals"),
        (["task=smnist", "model=ckcnn", "model.mask_sigma=0.1"], "model=ckcnn has no mask_sigma"),
        (["task=smnist", "model=flextcn_6", "model.kernel=SIREN"], "model=flextcn_6 has no kernel"),
        (["task=cifar10", "model=flexnet", "model.causal=true"], "model=flexnet has no causal"),
    ],
)
def test_what_a_network_cannot_is_refused_by_name(words, says):
    config = compose(words)
    with pytest.raises(ValueError, match=says):
        build_model(config, TASKS[config.task.name])


def test_a_run_of_a_ckcnn_is_kept_and_evaluated_like_any_other(tmp_path):
    words = ["task=digits", "model=ckcnn", "model.channels=6", "model.kernel_channels=8"]
    words += ["data.limit=100", "data.batch_size=20", "trainer.max_epochs=1", "optim.lr=0.01"]
    words += ["trainer.progress=false", "trainer.accelerator=cpu", "logger.tensorboard=false"]
    result = train(compose([*words, f"run={tmp_path / 'run'}"]))
    assert (result.model, result.steps) == ("ckcnn", 5)
    assert evaluate(tmp_path / "run").score == result.test["accuracy"]
