"""What every line of bench/results says of its run, for the scripts that write them (bench/result_lines.h is that of the
programs): command, commit, device, seed and a hash of the outputs."""

import hashlib
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent


def add_commit_option(parser):
    parser.add_argument("--commit", help="noted in the lines; default: that of the checkout")


def commit_of(options):
    """The commit that is measured: as given, that of the checkout, or the one that pack_gpu_check.sh wrote down."""
    if options.commit:
        return options.commit
    noted = FOLDER / "commit"
    if noted.exists():
        return noted.read_text(encoding="utf-8").strip()
    git = ["git", "-C", str(FOLDER), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        finished = subprocess.run(git, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("lines are to be written, and neither --commit nor a checkout says of which commit")
    return finished.stdout.strip()


def require_writable(parser, option, path):
    """An error of the command line if lines cannot be appended to `path`: before anything is measured."""
    try:
        pathlib.Path(path).open("a", encoding="utf-8").close()
    except OSError as error:
        parser.error(f"{option} {path}: {error.strerror}")


def hash_of(output):
    """Of bytes; None where a run has no outputs."""
    return None if output is None else hashlib.sha256(output).hexdigest()[:16]


def result_line(figures, *, command, commit, device, seed, output):
    """`figures` with what must be said of them; the device as `gpu` where it is one. `output`: bytes, or None where
    there are none."""
    key = "gpu" if "NVIDIA" in device else "device"
    return figures | {key: device, "command": command, "commit": commit, "seed": seed, "output_hash": hash_of(output)}
