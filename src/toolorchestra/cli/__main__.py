"""``python -m toolorchestra.cli``: the same program."""

from toolorchestra.cli import main

main()
