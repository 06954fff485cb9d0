"""Golden files of the Pillow oracles: written by default, only compared with `--check`."""
import sys


def write_or_check(path, text, cases):
    """Writes `text` to `path`; with `--check` on the command line fails when the file holds something else."""
    if sys.argv[1:] != ["--check"]:
        path.write_text(text)
    elif path.read_text() != text:
        raise SystemExit(f"{path} differs from what this Pillow makes")
    else:
        print(f"{cases} cases are as Pillow makes them")
