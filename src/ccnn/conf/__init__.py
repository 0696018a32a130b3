"""Configuration: the paper's recipes as YAML, one file per task, under a strict schema."""

from ccnn.conf.checks import check
from ccnn.conf.command import command_of, default_folder, plain
from ccnn.conf.loading import CONFIG_PATH, ConfigError, compose, options, register, resolve
from ccnn.conf.schema import Config

__all__ = [
    "CONFIG_PATH",
    "Config",
    "ConfigError",
    "check",
    "command_of",
    "compose",
    "default_folder",
    "options",
    "plain",
    "register",
    "resolve",
]
