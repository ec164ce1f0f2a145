"""`collectives account`: what it is told is checked before any rank starts."""

from pathlib import Path

import click

FILE = click.Path(path_type=Path)


@click.command("account", context_settings={"allow_interspersed_args": False})
@click.option("--ranks", type=int, help="World size.  [default: 4, or mpiexec's]")
@click.option("--json", "json_file", type=FILE, help="Write all figures as JSON.")
@click.argument("script", type=FILE)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def account_command(
    ranks: int | None, json_file: Path | None, script: Path, arguments: tuple[str, ...]
) -> None:
    """Run SCRIPT, which uses mpi4py, and print every byte that its ranks have sent each other.

    Its COMM_WORLD and COMM_SELF are replaced: the collectives are ours, and what they send is counted, as are
    its point-to-point messages. Options stand before SCRIPT; what comes after it is the script's own.
    """
    from collectives.files import check_writable
    from collectives.ranks import run_on_ranks, world_size

    try:
        num_ranks = world_size(ranks, "mpi")
        if not script.is_file():
            raise ValueError(f"no file {script}: name a Python script that uses mpi4py")
        if json_file is not None:
            check_writable(json_file)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error

    def run(transport: object) -> int:
        from collectives.account.run_script import run_script  # it loads MPI

        return run_script(script, arguments, json_file)

    run_on_ranks(num_ranks, "mpi", run, "collectives")
