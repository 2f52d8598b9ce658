"""The command line: ``deploysteps``."""

from __future__ import annotations


def main() -> None:
    """Run the command line of this process and exit."""
    from deploysteps.cli.app import cli

    cli()


__all__ = ["main"]
