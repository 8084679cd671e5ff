"""The command line. Commands import what they need when they run: `--help` stays cheap."""


def main() -> None:
    """Entry point of the command `nanobee`."""
    from nanobee.cli.app import app

    app()
