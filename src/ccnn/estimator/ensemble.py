"""One network or several, trained one after the other, and what came of it."""

import signal
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ccnn.estimator.budget import train_within
from ccnn.estimator.defaults import Facts, Settings
from ccnn.estimator.training import Outcome, build, train
from ccnn.models import CCNN
from ccnn.tasks.task import Samples
from ccnn.training.metrics import Row
from ccnn.training.progress import make_progress


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How networks are built and trained.

    Parameters
    ----------
    settings, facts
        What was chosen, and for what.
    outputs, causal
        Of the networks.
    seeds
        One for each network.
    seconds
        For all of them together; None is as long as it takes.
    device, verbose
        As for `ccnn.CCNNClassifier`.
    """

    settings: Settings
    facts: Facts
    outputs: int
    causal: bool
    seeds: Sequence[int]
    seconds: float | None
    device: str
    verbose: int


@dataclass(frozen=True)
class Trained:
    """Networks and what became of their trainings."""

    models: list[CCNN]
    outcomes: list[Outcome]

    def history(self) -> list[Row]:
        """Return the rows of all trainings; ``member`` says of which network."""
        return [
            {"member": i, **row} for i, each in enumerate(self.outcomes) for row in each.history
        ]

    def result(self) -> dict[str, Any]:
        """Return how long training took and how far it came, in plain values."""
        members = []
        for outcome in self.outcomes:
            members.append({k: v for k, v in asdict(outcome).items() if k not in _LEFT_OUT})
        return {
            "steps": sum(o.steps for o in self.outcomes),
            "planned": sum(o.planned for o in self.outcomes),
            "seconds": sum(o.seconds for o in self.outcomes),
            "stopped": next((o.stopped for o in self.outcomes if o.stopped), None),
            "parameters": sum(p.numel() for m in self.models for p in m.parameters()),
            "members": members,
        }


_LEFT_OUT = ("history", "signum")


def train_all(plan: Plan, samples: Samples, old: Sequence[CCNN] = ()) -> Trained:
    """Train as many networks as there are seeds, of which the old ones go on.

    Ctrl-C ends it with what was reached. It is raised where nothing was.
    """
    begin = time.monotonic()
    trained = Trained([], [])
    for i, seed in enumerate(plan.seeds):
        share = None
        if plan.seconds is not None:
            share = (plan.seconds - (time.monotonic() - begin)) / (len(plan.seeds) - i)
        model = old[i] if i < len(old) else _build(plan, seed)
        outcome = _train(plan, model, samples, seed, share)
        if outcome.stopped == "interrupted" and not outcome.history:
            _give_up(outcome, trained)
            break
        trained.models.append(model)
        trained.outcomes.append(outcome)
        if outcome.stopped == "interrupted":
            _pass_on(outcome)
            break
    if plan.verbose and plan.seconds is not None:
        make_progress("plain").say(_budget_line(trained, plan))
    return trained


def _build(plan: Plan, seed: int) -> CCNN:
    return build(plan.settings, plan.facts, outputs=plan.outputs, causal=plan.causal, seed=seed)


def _train(plan: Plan, model: CCNN, samples: Samples, seed: int, seconds: float | None) -> Outcome:
    how: dict[str, Any] = {"seed": seed, "device": plan.device, "verbose": plan.verbose}
    if seconds is None:
        return train(model, samples, plan.settings, **how)
    return train_within(seconds, model, samples, plan.settings, **how)


def _give_up(outcome: Outcome, trained: Trained) -> None:
    """Leave out a network that was interrupted before there was anything to keep of it."""
    if not trained.models:
        raise KeyboardInterrupt
    _pass_on(outcome)


def _pass_on(outcome: Outcome) -> None:
    """Tell the user that training was interrupted; other signals are for the process."""
    if outcome.signum not in (None, signal.SIGINT):
        signal.raise_signal(signal.Signals(outcome.signum))
    warnings.warn(
        f"training was interrupted after step {outcome.steps} of {outcome.planned}; the best "
        "weights so far are kept",
        stacklevel=6,
    )


def _budget_line(trained: Trained, plan: Plan) -> str:
    result = trained.result()
    wanted = plan.settings.steps * len(plan.seeds)
    return (
        f"{result['steps']} of {wanted} steps in {result['seconds']:.1f} of {plan.seconds:g} "
        f"seconds, {len(trained.models)} network(s)"
    )
