"""python -m gluino: the command line, the same as that of the program gluino."""
import sys

from gluino import _core


def main():
    """Runs one command."""
    sys.exit(_core.run_command_line(f'"{sys.executable}" -m gluino', sys.argv[1:]))


if __name__ == "__main__":
    main()
