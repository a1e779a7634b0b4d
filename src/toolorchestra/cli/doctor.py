"""``toolorchestra doctor``: is everything that a configuration names in order?"""

from __future__ import annotations

from typing import Annotated

import typer

from toolorchestra.cli.options import Config, Json


def doctor(
    config: Config,
    json_output: Json = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that an endpoint has to answer.")] = 5.0,
) -> None:
    """Check keys, endpoints, prices, folders, the sandbox, the model and task files. Nothing is paid for.

    It ends with 0 if all is well, 2 if something must be set right and 3 if something does not answer.

    **Examples**

    `toolorchestra doctor orchestra.yaml`

    `toolorchestra doctor orchestra.yaml --json`
    """
    import asyncio
    import json

    from toolorchestra.assembly import examine
    from toolorchestra.cli.tables import print_checks
    from toolorchestra.config import load_settings

    checks = asyncio.run(examine(load_settings(config, check_files=False), timeout_s=timeout, thorough=True))
    if json_output:
        typer.echo(json.dumps([check.to_json() for check in checks], indent=2))
    else:
        print_checks(checks)
    failed = [check for check in checks if not check.ok]
    if failed:
        raise typer.Exit(3 if all(check.unreachable for check in failed) else 2)
