"""The recipes are the paper's tables and the authors' commands, number by number.

The numbers are written out below once more, so that a changed recipe does not go unnoticed.
"""

import functools
import importlib.resources
import subprocess
import sys

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

import ccnn
from ccnn.conf import ConfigError, compose, options, register, resolve
from ccnn.models import PairCCNN
from ccnn.tasks import OWN, TASKS

# task, ω₀, dropout, learning rate, weight decay, batch size, epochs
TABLE_5 = """
smnist        2976.49  0.1   0.01    1e-6  100  210
pmnist        2985.63  0.2   0.02       0  100  210
scifar10      2386.49  0.0   0.02       0   50  210
speech_raw    1295.61  0.2   0.02    1e-6   20  160
speech_mfcc    750.18  0.2   0.02    1e-6  100  110
listops        784.66  0.1  0.001    1e-6   50   60
text          2966.60  0.2  0.001    1e-5   50   60
image         4005.15  0.2   0.01       0   50  210
pathfinder    2272.56  0.2   0.01       0  100  210
cifar10       1435.77  0.1   0.02  0.0001   50  210
cifar100      3521.55  0.1   0.02  0.0001   50  210
stl10          954.28  0.1   0.02       0   64  210
image2d       2085.43  0.2   0.02    1e-6   50  210
pathfinder2d  1239.14  0.1   0.01       0  100  210
"""
TABLE_6 = """
smnist        2976.49   0.1   0.01     0  100  210
pmnist        2985.63   0.2   0.02     0  100  210
scifar10      4005.15  0.25   0.01     0   50  210
speech_raw    1295.61   0.2   0.02  1e-6   20  160
speech_mfcc    750.18   0.2   0.02  1e-6  100  110
listops        784.66  0.25  0.001     0   50   60
text          2966.60   0.3   0.02     0   50   60
image         4005.15   0.1   0.01     0   50  210
pathfinder    2272.56   0.1   0.01  1e-6  100  210
cifar10       1435.77  0.15   0.02     0   50  210
cifar100       679.14   0.2   0.02     0   50  210
stl10          954.28   0.1   0.01  1e-6   64  210
image2d       2306.08   0.2   0.02     0   50  210
pathfinder2d  3908.32   0.2   0.01     0  100  210
"""
# task, model, causal, ω₀, kernel_channels, kernel_size, mask σ, mask lr ratio, dropout, its kind,
# dropout of the input, lr, weight decay, batch, accumulate, epochs, warm-up, augmentation
COMMANDS = """
smnist        4,140  yes  2976.4910261630357  32  same  0.075    1   0.1  channel    0   0.01    1e-6  100  1  210  10   no
smnist        6,380  yes  2976.4910261630357  64  same  0.075    1   0.1  channel    0   0.01    1e-6  100  1  210  10   no
pmnist        4,140  yes  2985.6332826938724  32  same  0.075    1     0  channel  0.2   0.02       0  100  1  210  10   no
pmnist        6,380  yes            2985.633  64  same  0.075    1     0  channel  0.2   0.02       0  100  1  210  10   no
scifar10      4,140  yes             2386.49  32  same  0.075    1     0  channel    0   0.02       0   50  1  210  10  yes
scifar10      6,380  yes            4005.146  64  same  0.075    1  0.25  channel    0   0.01       0   50  1  210  10   no
speech_mfcc   4,140  yes   750.1822972936538  32  same  0.075    1   0.2  channel    0   0.02    1e-6  100  1  110  10   no
speech_mfcc   6,380  yes             1295.61  64  same  0.075    1   0.2  channel    0   0.02    1e-6   10  1  160  10   no
speech_raw    4,140  yes   1295.612417154228  32  same  0.075    1   0.2  channel    0   0.02    1e-6   20  1  160  10   no
speech_raw    6,380  yes             1295.61  64  same  0.075    1   0.2  channel    0   0.02    1e-6   40  1  160  10   no
cifar10       4,140   no   4231.568793085858  32    33   0.75  0.1   0.1  channel    0   0.02  0.0001   64  1  350   5  yes
cifar10       6,380   no             976.781  64    33  0.075  0.1  0.15  channel    0   0.01       0   50  1  210  10  yes
cifar100      4,140   no  3521.5468260391735  32    33  0.075    1   0.1  channel    0   0.02  0.0001   50  1  210  10   no
cifar100      6,380   no             679.142  64    31  0.075    1   0.2  channel    0   0.02       0   50  1  210  10   no
stl10         4,140   no             954.281  32    33  0.075    1   0.1  element    0   0.02       0   64  4  210  10  yes
stl10         6,380   no             954.281  64    31  0.075    1   0.1  element    0   0.01       0   48  2  210  10  yes
listops       4,140  yes             784.655  32  same   0.03  0.1   0.1  element    0  0.001    1e-6   50  1   60  10   no
listops       6,380  yes             784.655  32  same   0.03  0.1  0.25  element    0  0.001       0   50  1   60  10   no
text          4,140  yes  2966.6045345584143  32  same  0.015  0.1   0.2  element    0  0.001    1e-5   50  1   60  10   no
text          6,380  yes            2966.605  64  same   0.03    1   0.3  element    0   0.02       0   25  1   60  10   no
image         4,140  yes            4005.146  32  same  0.075    1   0.1  channel    0   0.01       0   50  1  210  10   no
image         6,380  yes            4005.146  64  same  0.075    1   0.1  channel    0   0.01       0   50  1  210  10   no
pathfinder    4,140  yes            2272.557  32  same    0.4    1   0.2  channel    0   0.01       0  100  1  210  10   no
pathfinder    6,380  yes            2272.557  64  same    0.4    1   0.1  channel    0   0.01    1e-6  100  1  210  10   no
image2d       4,140   no   2085.433586112234  32    33  0.075    1   0.2  channel    0   0.02    1e-6   50  1  210  10   no
image2d       6,380   no            2306.081  64    33  0.075    1   0.2  channel    0   0.02       0   50  1  210  10   no
pathfinder2d  4,140   no   1239.138351528754  32    33  0.225    1   0.1  channel    0   0.01       0  100  1  210  10   no
pathfinder2d  6,380   no            3908.323  64    33  0.225    1   0.2  channel    0   0.01       0   50  1  210  10   no
"""  # noqa: E501 (a table is read by its columns)
# Parameters of the authors' networks: task; 4 × 110, 4 × 140, 6 × 380 with 32 and with 64 hidden
# units in the kernel networks
COUNTS = """
smnist        133729  198769  1851331  1993091
pmnist        133729  198769  1851331  1993091
scifar10      134017  199117  1852159  1993983
speech_raw    133729  198769  1851331  1993091
speech_mfcc   136465  202075  1859197  2001565
listops       133729  198769  1851331  1993091
text          132730  197500  1847902  1989662
image         133729  198769  1851331  1993091
pathfinder    132730  197500  1847902  1989662
cifar10       135942  201042  1854854  1999366
cifar100      145932  213732  1889144  2033656
stl10         135942  201042  1854854  1999366
image2d       135654  200694  1854026  1998474
pathfinder2d  134655  199425  1850597  1995045
"""
PAPERS_TASKS = {line.split()[0] for line in TABLE_5.split("\n") if line}
SIZES = {"4,140": "ccnn_4_140", "6,380": "ccnn_6_380"}


@functools.cache
def recipe(task: str, model: str, source: str):
    return compose([f"task={task}", f"model={model}", f"recipe={source}"])


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


PUBLISHED = [("ccnn_4_140", *row) for row in rows(TABLE_5)]
PUBLISHED += [("ccnn_6_380", *row) for row in rows(TABLE_6)]


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda r: f"{r[1]}-{r[0]}")
def test_the_paper_recipe_has_the_numbers_of_tables_5_and_6(published):
    model, task, *texts = published
    omega_0, dropout, lr, weight_decay, batch_size, epochs = map(float, texts)
    config = recipe(task, model, "paper")
    # What the tables call dropout is dropout of the input for pMNIST (docs/paper.md).
    kept = config.model.dropout_in if task == "pmnist" else config.model.dropout
    assert (config.model.omega_0, kept) == (omega_0, dropout)
    assert (config.optim.lr, config.optim.weight_decay) == (lr, weight_decay)
    assert (config.data.batch_size, config.optim.epochs) == (batch_size, epochs)
    assert config.optim.warmup_epochs == 10  # App. B.2
    assert config.trainer.max_epochs == epochs
    assert config.model.kernel_channels == (32 if model == "ccnn_4_140" else 64)  # App. B.1
    assert (config.model.kernel, config.model.kernel_layers) == ("MAGNet", 3)
    assert (config.model.init, config.optim.decay) == ("energy", "decoupled")


@pytest.mark.parametrize("command", rows(COMMANDS), ids=lambda r: f"{r[0]}-{r[1]}")
def test_the_authors_recipe_has_the_numbers_of_their_commands(command):
    task, model = command[0], SIZES[command[1]]
    config = recipe(task, model, "authors")
    assert list_numbers(config) == [as_number(text) for text in command[2:]]
    assert (config.model.init, config.optim.decay) == ("authors", "authors")
    assert config.model.embedding is None
    assert config.optim.loss == ("single_logit" if TASKS[task].classes == 2 else "auto")


@pytest.mark.parametrize("command", rows(COMMANDS), ids=lambda r: f"{r[0]}-{r[1]}")
def test_what_the_paper_leaves_out_is_as_in_the_commands(command):
    task, model = command[0], SIZES[command[1]]
    ours = list_numbers(recipe(task, model, "paper"))
    theirs = [as_number(text) for text in command[2:]]
    for place in (0, 3, 4, 5, 7, 8, 12, 15):  # causal, kernel_size, σ, its ratio, dropouts, …
        assert ours[place] == theirs[place], place


def list_numbers(config) -> list[object]:
    m, o, d = config.model, config.optim, config.data
    return [
        *(m.causal, m.omega_0, m.kernel_channels, m.kernel_size, m.mask_sigma, o.mask_lr_ratio),
        *(m.dropout, m.dropout_kind, m.dropout_in, o.lr, o.weight_decay),
        *(d.batch_size, d.accumulate, o.epochs, o.warmup_epochs, d.augment),
    ]


def as_number(text: str) -> object:
    words = {"yes": True, "no": False, "same": "same", "channel": "channel", "element": "element"}
    return words[text] if text in words else float(text)


def test_the_two_sources_differ_where_the_list_of_disagreements_says_so():
    """Beyond rounding of ω₀: what docs/paper.md decides."""
    keys = ["model.omega_0", "model.dropout", "model.kernel_channels", "optim.lr"]
    keys += ["optim.weight_decay", "optim.epochs", "optim.warmup_epochs", "data.batch_size"]
    found = set()
    for task in PAPERS_TASKS:
        for model in SIZES.values():
            pair = [recipe(task, model, source) for source in ("paper", "authors")]
            for key in keys:
                paper, authors = (OmegaConf.select(config, key) for config in pair)
                if paper != pytest.approx(authors, rel=1e-5):
                    found.add((task, model, key.split(".")[1]))
    small, large = SIZES.values()
    assert found == {
        ("image", small, "dropout"),
        *(("cifar10", small, key) for key in ("omega_0", "batch_size", "epochs", "warmup_epochs")),
        ("smnist", large, "weight_decay"),
        ("speech_raw", large, "batch_size"),
        *(("speech_mfcc", large, key) for key in ("omega_0", "batch_size", "epochs")),
        ("listops", large, "kernel_channels"),
        ("text", large, "batch_size"),
        *(("cifar10", large, key) for key in ("omega_0", "lr")),
        *(("stl10", large, key) for key in ("weight_decay", "batch_size")),
        ("pathfinder2d", large, "batch_size"),
    }


def build(config):
    """Build a recipe's network from its arguments, as a user of the library would."""
    task = TASKS[config.task.name]
    arguments = dict(config.model)
    del arguments["name"]
    arguments["in_channels"] = config.model.in_channels or task.in_channels
    arguments["size"] = task.size
    logits = 1 if config.optim.loss == "single_logit" else task.classes
    if task.pair:
        return PairCCNN(logits, arguments | {"out_channels": config.model.channels})
    return ccnn.CCNN(out_channels=logits, **arguments)


def parameters(model) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("counts", rows(COUNTS), ids=lambda r: r[0])
def test_the_authors_recipe_has_the_authors_number_of_parameters(counts):
    task, tiny, small, narrow, large = counts[0], *map(int, counts[1:])
    assert parameters(build(recipe(task, "ccnn_4_110", "authors"))) == tiny
    assert parameters(build(recipe(task, "ccnn_4_140", "authors"))) == small
    expected = narrow if task == "listops" else large
    assert parameters(build(recipe(task, "ccnn_6_380", "authors"))) == expected


def count(dim: int, channels_in: int, logits: int, blocks: int, width: int, hidden: int) -> int:
    """Count the parameters of a CCNN by hand, layer by layer."""

    def conv(before: int) -> int:
        filters = 4 * (3 * dim * hidden + hidden)
        linears = 3 * (hidden * hidden + hidden) + hidden * before + before
        return filters + linears + before + dim + before * width + width

    block = conv(width) + 2 * width + width * width + width
    return conv(channels_in) + 2 * width + blocks * block + 2 * width + width * logits + logits


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_paper_recipe_embeds_symbols_and_has_a_logit_per_class(task):
    facts = TASKS[task]
    for model, sizes in {"ccnn_4_140": (4, 140, 32), "ccnn_6_380": (6, 380, 64)}.items():
        network = build(recipe(task, model, "paper"))
        channels = 32 if facts.vocabulary else facts.in_channels
        outputs = sizes[1] if facts.pair else facts.classes
        expected = count(len(facts.size), channels, outputs, *sizes)
        expected += (facts.vocabulary or 0) * 32
        expected += (4 * outputs + 1) * facts.classes if facts.pair else 0
        assert parameters(network) == expected


def test_every_task_has_a_recipe_and_every_recipe_a_task():
    assert options("task") == sorted([*TASKS, *OWN])
    assert PAPERS_TASKS | {"retrieval", "pathx"} < set(TASKS)
    for task in (*TASKS, *OWN):
        for source in ("paper", "authors"):
            for model in SIZES.values():
                assert recipe(task, model, source).task.name == task


@pytest.mark.parametrize("task", [t for t in TASKS.values() if t.vocabulary], ids=lambda t: t.name)
def test_an_embedding_has_room_for_the_vocabulary(task):
    assert recipe(task.name, "ccnn_4_140", "paper").model.embedding == task.vocabulary


def test_augmentation_is_only_asked_where_the_task_has_one():
    for task in TASKS.values():
        for model in SIZES.values():
            assert task.augment or not recipe(task.name, model, "paper").data.augment


def test_the_width_of_the_papers_text_takes_the_numbers_of_the_tables_width():
    ours, tables = (recipe("smnist", m, "paper") for m in ("ccnn_4_110", "ccnn_4_140"))
    assert (ours.model.channels, tables.model.channels) == (110, 140)
    assert (ours.optim, ours.data) == (tables.optim, tables.data)


def test_models_have_the_sizes_that_create_model_knows():
    for name, sizes in ccnn.models.MODELS.items():
        model = recipe("smnist", name, "paper").model
        assert {key: model[key] for key in sizes} == sizes


def test_the_command_line_wins():
    words = "task=pmnist recipe=authors optim.lr=0.5 trainer.max_epochs=3 optim.decay=decoupled"
    words += " model.dropout=0.3 model.omega_0=auto model.kernel_channels=8 model.init=none"
    words += " model.mask_sigma=null data.root=elsewhere run=here"
    config = compose(words.split())
    assert (config.optim.lr, config.trainer.max_epochs, config.optim.epochs) == (0.5, 3, 210)
    assert (config.model.dropout, config.model.dropout_in) == (0.3, 0.2)
    assert (config.model.omega_0, config.model.kernel_channels) == ("auto", 8)
    assert (config.model.init, config.optim.decay) == ("none", "decoupled")
    assert (config.model.mask_sigma, config.data.root, config.run) == (None, "elsewhere", "here")


def test_without_any_word_it_is_the_digits_which_need_no_files():
    config = compose()
    assert (config.task.name, config.model.name) == ("digits", "ccnn_4_140")
    assert (config.recipe.name, config.seed, config.resume) == ("paper", 0, False)


def test_data_are_looked_for_where_the_environment_says(monkeypatch):
    monkeypatch.setenv("CCNN_DATA", "/far/away")
    assert compose().data.root == "/far/away"
    monkeypatch.delenv("CCNN_DATA")
    assert compose().data.root == "data"


def test_several_devices_are_one_word_away():
    config = compose(["trainer=ddp"])
    assert (config.trainer.strategy, config.trainer.devices) == ("ddp", "auto")
    assert config.trainer.max_epochs == compose().trainer.max_epochs


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("task=smnits", "unknown task 'smnits'; did you mean 'smnist'?"),
        ("task.name=smnits", "unknown task 'smnits'; did you mean 'smnist'?"),
        ("model=ccnn_4_14", "unknown model 'ccnn_4_14'; did you mean 'ccnn_4_140'?"),
        ("recipe=book", "unknown recipe 'book'; known are authors, paper"),
        ("optim.lrr=1", "unknown key 'optim.lrr'; did you mean 'optim.lr'?"),
        ("+optim.lrr=1", "unknown key 'optim.lrr'; did you mean 'optim.lr'?"),
        ("+model.channel=3", "unknown key 'model.channel'; did you mean 'model.channels'?"),
        ("modle=ccnn_4_140", "unknown key 'modle'; did you mean 'model'?"),
        ("+verbose=true", "unknown key 'verbose'; known are model, recipe, resume, run, seed"),
        ("optim.lr=fast", "optim.lr: Value 'fast' of type 'str' could not be converted to Float"),
        ("seed=null", "seed: field 'seed' is not Optional"),
        ("model.head=pol", "model.head is 'pol'; did you mean 'pool'?"),
        ("model.omega_0=high", "model.omega_0 is 'high'; expected a number or auto"),
        ("model.dropout=1.5", "model.dropout is 1.5; expected a number from 0 up to, but not, 1"),
        ("smnist", "cannot read 'smnist'; expected key=value, as in optim.lr=0.01"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(word, message):
    with pytest.raises(ConfigError) as refusal:
        compose([word])
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


def test_a_table_with_an_unknown_column_is_refused():
    schema = OmegaConf.structured(ccnn.conf.Config)
    with pytest.raises(OmegaConfBaseException, match="omega"):
        OmegaConf.merge(schema, {"task": {"paper": {"ccnn_4_140": {"omega": 3.0}}}})


def test_a_resolved_configuration_is_complete_and_stays_as_it_is(tmp_path):
    config = compose(["task=text", "recipe=authors"])
    OmegaConf.save(config, tmp_path / "config.yaml")
    text = (tmp_path / "config.yaml").read_text()
    assert "${" not in text
    assert "???" not in text
    assert resolve(OmegaConf.load(tmp_path / "config.yaml")) == config
    with pytest.raises(OmegaConfBaseException):
        config.optim.learning_rate = 1


PROGRAM = """
import hydra
from ccnn.conf import CONFIG_PATH, register, resolve
register()

@hydra.main(config_path=CONFIG_PATH, config_name="config", version_base="1.3")
def main(config):
    config = resolve(config)
    print(config.task.name, config.optim.lr, config.model.init)

main()
"""


def test_hydra_main_sweeps_without_folders_of_its_own(tmp_path):
    words = ["-m", "task=smnist,pmnist", "recipe=authors", "optim.lr=0.1,0.2"]
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"{task} {lr} authors" for task in ("smnist", "pmnist") for lr in (0.1, 0.2)
    ]
    # Hydra writes what it was asked; nothing else is made by the configuration itself.
    assert [p.name for p in tmp_path.glob("**/*")] == ["runs", "multirun.yaml"]


def test_registering_twice_does_no_harm():
    register()
    register()
    assert compose().task.name == "digits"
    assert importlib.resources.files("ccnn.conf").joinpath("config.yaml").is_file()
