"""The command line: ``toolorchestra demo | train | evaluate | run | report | doctor``."""

from toolorchestra.cli.app import app, main

__all__ = ["app", "main"]
