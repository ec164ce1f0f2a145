"""The README's outputs are what its commands print."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collectives import cli as collectives_cli
from collectives.launching.environment import job_environment
from zero_emulator import cli as zero_cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


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
        "zero-emulator show-pipeline --pipeline 2 --micro-batches 3",
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


def test_a_run_near_a_frozen_model_moves_the_bytes_in_the_readme(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    save = "zero-emulator train --iterations 50 --save frozen.npz --quiet"
    near = "zero-emulator train --iterations 50 --reference frozen.npz --kl 0.1"
    for command in (save, near):
        # Bytes do not depend on the number of iterations.
        monkeypatch.setattr(sys, "argv", [*command.split(), "--iterations", "2", "--transport", "threads"])
        with pytest.raises(SystemExit) as ended:
            zero_cli.main()
        assert ended.value.code == 0
        lines = capsys.readouterr().out.splitlines()
        assert [
            line
            for line in shown(command).splitlines()
            if line.strip() not in ("...", *map(str.strip, lines))
        ] == []


@pytest.mark.parametrize("strategy", ["zero2", "pipeline_zero2"])
def test_a_run_on_a_grid_has_the_lines_in_the_readme(strategy: str, monkeypatch, capsys) -> None:
    (command,) = re.findall(rf"\$ (zero-emulator train --strategy {strategy} --ranks 8 .*)", README)
    monkeypatch.setattr(sys, "argv", [*command.split(), "--transport", "threads", "--iterations", "1"])
    with pytest.raises(SystemExit):
        zero_cli.main()
    lines = capsys.readouterr().out.splitlines()  # the others depend on the machine's BLAS
    assert [line for line in shown(command).splitlines() if line not in ("...", *lines)] == []


def sample(name: str) -> str:
    """The program that the README calls by this name."""
    return README.partition(f"`{name}`")[2].partition("```python\n")[2].partition("```")[0]


def test_an_algorithm_of_ones_own_runs_and_is_proved_as_the_readme_shows(
    monkeypatch, capsys, tmp_path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("star.py").write_text(sample("star.py"))
    ran = subprocess.run(
        [sys.executable, "star.py"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=job_environment(),
    )
    assert ran.stdout.strip() == shown("python star.py")
    command = "collectives verify star.py:star --collective all_gather --ranks 1-8"
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(SystemExit):
        collectives_cli.main()
    assert capsys.readouterr().out.strip() == shown(command)


def test_the_same_algorithm_is_tested_measured_and_trained_on_as_the_readme_shows(
    monkeypatch, capsys, tmp_path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("star.py", "test_star.py"):
        Path(name).write_text(sample(name))
    command = "python -m pytest -q test_star.py"
    words = [sys.executable, *command.split()[1:], "-p", "no:cacheprovider"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=job_environment())
    assert without_time(ran.stdout) == without_time(shown(command))
    command = "collectives bench --collective all_gather --algorithm star.py:star,ring,mpi --ranks 3"
    assert shown(command) == "..."
    words = [sys.executable, "-m", *command.split(), "--sizes", "3K", "--rounds", "1", "--warmup", "0"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=job_environment())
    assert [line.split()[4] for line in ran.stdout.splitlines()[-3:]] == ["star.py:star", "ring", "mpi"]
    command = "zero-emulator train --algorithm all_gather=star.py:star --ranks 3"
    command += " --transport threads --iterations 20"
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(SystemExit):
        zero_cli.main()
    lines = capsys.readouterr().out.splitlines()  # the others depend on the machine's BLAS
    assert [line for line in shown(command).splitlines() if line not in ("...", *lines)] == []


def test_what_the_readme_links_to_is_there() -> None:
    heads = {
        re.sub(r"[^\w -]", "", line[3:]).lower().replace(" ", "-")
        for line in README.splitlines()
        if line.startswith("## ")
    }
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert [
        link
        for link in links
        if not link.startswith("http") and link[0] != "#" and not (ROOT / link).is_file()
    ] == []
    assert [link for link in links if link[0] == "#" and link[1:] not in heads] == []


def without_time(said: str) -> str:
    return re.sub(r"in [0-9.]+s", "in no time", said).strip()


def test_a_program_of_ones_own_counts_on_real_ranks_as_the_readme_shows(tmp_path) -> None:
    (tmp_path / "reduce.py").write_text(sample("reduce.py"))
    mpiexec = Path(sys.executable).with_name("mpiexec")
    command = [mpiexec, "-n", "2", sys.executable, "-m", "mpi4py", "reduce.py"]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path, env=job_environment()
    )
    expected = shown(".venv/bin/mpiexec -n 2 .venv/bin/python -m mpi4py reduce.py")
    lines = re.findall(r"rank .*? checks", ran.stdout)  # two ranks may print into each other's line ends
    assert sorted(lines) == expected.splitlines()


def test_the_ring_in_the_readme_is_the_ring() -> None:
    ring = (ROOT / "collectives" / "algorithms" / "ring.py").read_text()
    body = README.partition("def all_gather(rank, world_size):\n")[2].partition("```")[0]
    assert body.strip()
    assert body in ring


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


def test_collectives_are_measured_beside_mpis_own_as_the_readme_shows(tmp_path) -> None:
    """Times differ: names, sizes, bytes and that nothing is wrong do not."""
    command = "collectives bench --ranks 2 --collective all_reduce --sizes 4K-4M --factor 32"
    more = ["--rounds", "2", "--warmup", "1", "--json", str(tmp_path / "bench.json")]
    ran = subprocess.run(
        [sys.executable, "-m", *command.split(), *more],
        capture_output=True, text=True, timeout=100, env=job_environment(),
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")

    def structure(text: str) -> list[list[str]]:
        """Words of the head; of a row all but the times, bandwidths and ratios."""
        lines = [line.split() for line in text.partition("all_reduce\n")[2].replace(": ", ":").splitlines()]
        return lines[:3] + [[*row[:5], row[11], row[18], row[19]] for row in lines[3:]]

    assert structure(ran.stdout) == structure(shown(command))
    assert len(structure(ran.stdout)) == 3 + 6
    figures = json.loads((tmp_path / "bench.json").read_text())["figures"]
    assert [one["algorithm"] for one in figures] == ["auto", "auto", "mpi", "mpi"] * 3
    assert all(one["over_mpi"] > 0 for one in figures)
    assert all(one["over_mpi"] == 1 and one["sent"] is None for one in figures if one["algorithm"] == "mpi")


def test_a_program_is_accounted_for_as_the_readme_shows(tmp_path) -> None:
    (tmp_path / "train.py").write_text(sample("train.py"))
    ran = subprocess.run(
        [sys.executable, "-m", "collectives", "account", "--ranks", "3", "train.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True, env=job_environment(),
    )  # fmt: skip
    assert ran.stdout.strip() == shown("collectives account --ranks 3 train.py")
