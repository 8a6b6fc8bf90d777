"""Completion and the manual are written from the same definitions as the command line."""
import subprocess

import pytest


def test_bash_completes_commands_and_options(gluino, tmp_path):
    (tmp_path / "gluino").write_text(gluino("completion", "bash").out)
    script = f"""source {tmp_path / 'gluino'}
        COMP_WORDS=(gluino ins) COMP_CWORD=1; _gluino; echo "${{COMPREPLY[*]}}"
        COMP_WORDS=(gluino run net --to) COMP_CWORD=3; _gluino; echo "${{COMPREPLY[*]}}"
        COMP_WORDS=(gluino run net --layout N) COMP_CWORD=4; _gluino; echo "${{COMPREPLY[*]}}" """
    lines = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == ["inspect", "--top", "NCHW NHWC"]


def test_zsh_and_man_know_every_command(gluino):
    commands = [line.split()[0] for line in gluino("--help").out.split("Subcommands:")[1].splitlines() if line.strip()]
    zsh, man = gluino("completion", "zsh").out, gluino("completion", "man").out
    assert "completion" not in commands and len(commands) > 8
    for command in commands:
        assert f"'{command}:" in zsh and f".SS gluino {command}" in man
    with pytest.raises(AssertionError):
        gluino("completion", "fish")
