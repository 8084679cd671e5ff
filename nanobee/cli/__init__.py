"""The command line. Commands import what they need when they run: `--help` stays cheap."""


def main() -> None:
    """Entry point of the command `nanobee`."""
    import sys

    from nanobee.cli.app import app
    from nanobee.cli.faults import show_crash

    sys.excepthook = show_crash
    try:
        app()
    except SystemExit as end:
        from nanobee.cli.leaving import leave

        leave(end.code)
        raise
