"""The README's outputs are what its commands print."""

import sys
from pathlib import Path

import pytest

from collectives import cli as collectives_cli
from zero_emulator import cli as zero_cli

README = (Path(__file__).parents[1] / "README.md").read_text()


def shown(command: str) -> str:
    """What the README shows after a command, up to the next one."""
    block = README.partition(f"$ {command}\n")[2].partition("```")[0]
    return block.partition("\n$ ")[0].strip()


@pytest.mark.parametrize(
    "command",
    [
        "collectives verify ring",
        "collectives show ring all_gather --ranks 4",
        "zero-emulator ledger --params 8e9 --ranks 4",
        "zero-emulator rounding",
    ],
)
def test_the_output_is_the_one_in_the_readme(command: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", command.split())
    main = collectives_cli.main if command.startswith("collectives") else zero_cli.main
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.strip() == shown(command)


def test_the_explained_run_is_the_one_in_the_readme(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    train = "zero-emulator train --strategy zero1 --precision bf16 --reduce-dtype float32 --clip 1.0"
    train += " --iterations 10 --record run.json --quiet"
    for command, more in ((train, "--ranks 4 --transport threads"), ("zero-emulator explain run.json", "")):
        monkeypatch.setattr(sys, "argv", [*command.split(), *more.split()])
        with pytest.raises(SystemExit) as ended:
            zero_cli.main()
        assert ended.value.code == 0
        assert capsys.readouterr().out.strip() == shown(command)


def test_the_demo_shows_the_bytes_in_the_readme(monkeypatch, capsys) -> None:
    """Bytes do not depend on the number of iterations; digests and roundings do, and on the BLAS as well."""
    command = "zero-emulator compare --ranks 4 --transport threads --iterations 1"
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(SystemExit):
        zero_cli.main()

    def bytes_of(text: str) -> list[list[str]]:
        return [row.split()[:8] for row in text.splitlines() if row.startswith(("ddp ", "zero"))][:4]

    assert bytes_of(capsys.readouterr().out) == bytes_of(shown("bash run/demo.sh"))
    assert len(bytes_of(shown("bash run/demo.sh"))) == 4
