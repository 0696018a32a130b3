"""Share a model on the Hugging Face Hub: the folder of `ccnn.save`, pushed and pulled.

Needs `pip install "ccnn[hub]"`. What is pulled is data, never code.
"""

import tempfile
from types import ModuleType

import torch
from torch import nn

from ccnn.saving import CONFIG, load, save

_WEIGHTS = "weights-*.safetensors"


def push_to_hub(
    model: nn.Module,
    repo_id: str,
    *,
    private: bool | None = None,
    token: str | bool | None = None,
    commit_message: str = "Upload a ccnn model",
) -> str:
    """Save a model into a repository of the Hub, which is made if it does not exist.

    Parameters
    ----------
    model
        What `ccnn.save` accepts.
    repo_id
        "name" or "owner/name".
    private
        Whether a new repository is private; None leaves it to the owner's settings.
    token
        An access token; None takes the one of `hf auth login`.
    commit_message
        What the repository's history will say.

    Returns
    -------
    The address of the repository.
    """
    hub = _huggingface_hub()
    with tempfile.TemporaryDirectory() as folder:
        save(
            model, folder
        )  # first, so that a model that cannot be saved leaves no empty repository
        repo = hub.create_repo(repo_id, private=private, token=token, exist_ok=True)
        hub.upload_folder(
            repo_id=repo.repo_id,
            folder_path=folder,
            token=token,
            commit_message=commit_message,
            delete_patterns=[_WEIGHTS],  # of earlier models, in the same commit
        )
    return str(repo)


def load_from_hub(
    repo_id: str,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    device: str | torch.device = "cpu",
) -> nn.Module:
    """Load a model that `push_to_hub` wrote, in eval mode; the second call finds it in the cache.

    Parameters
    ----------
    repo_id
        "owner/name".
    revision
        A branch, tag or commit; a commit always gives the same model.
    token
        An access token; None takes the one of `hf auth login`.
    device
        Where the model shall live.
    """
    hub = _huggingface_hub()
    folder = hub.snapshot_download(
        repo_id, revision=revision, token=token, allow_patterns=[CONFIG, _WEIGHTS]
    )
    try:
        return load(folder, device=device)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{repo_id} on the Hub holds no whole model of ccnn: {error}"
        ) from error


def _huggingface_hub() -> ModuleType:
    try:
        import huggingface_hub  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError(
            'the Hub needs the library huggingface_hub: pip install "ccnn[hub]"'
        ) from error
    module: ModuleType = huggingface_hub
    return module
