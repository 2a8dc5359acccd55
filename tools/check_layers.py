#!/usr/bin/env python3
"""Fails on an #include that goes against the arrows between the modules (docs/architecture.md).

    tools/check_layers.py [root]      root: the repository, by default the one this script lies in

Three rules:
  1. A module of src/zp includes only itself and the modules that ALLOWED gives it.
  2. A concrete backend is named only inside backend folders of the same kind, and by the factories of `device`,
     `ops` and `parallel`. The reference operations run on the CPU device, so they may name that.
  3. Includes of our own files are written from src/ or include/, or no rule could be checked.
Tests, benchmarks and fuzz targets may include anything: they look inside on purpose.
"""

import pathlib
import re
import sys

DEVICE = {"base", "device"}
OPS = DEVICE | {"tensor", "ops"}
MODEL = OPS | {"shape", "model"}
EXPERT = MODEL | {"expert"}
SCHEDULE = {"base", "shape", "cache", "schedule"}

# The modules that a module may include besides itself, with all that they stand on.
ALLOWED = {
    "base": set(),
    "device": {"base"},
    "tensor": DEVICE,
    "ops": DEVICE | {"tensor"},
    "shape": {"base"},
    "model": OPS | {"shape"},
    "expert": MODEL,
    "parallel": MODEL,
    "cache": {"base"},
    "schedule": {"base", "cache", "shape"},
    "plan": SCHEDULE,
    "simulate": SCHEDULE,
    "engine": EXPERT | SCHEDULE | {"parallel", "tokenizer"},
    "tokenizer": {"base"},
    "task": {"base", "tokenizer"},
    "server": {"base", "tokenizer", "task"},
}
# Programs see the public headers, and of the library only what turns a user's files into requests, and what plans and
# simulates without an engine.
APPS_ALLOWED = {"base", "tokenizer", "task", "cache", "shape", "schedule", "plan", "simulate"}
# The public headers stand on nothing but the words for errors.
PUBLIC_ALLOWED = {"base"}
# Who may include zeroprefill/...: the library behind it and its users. Nothing below the engine knows of it.
PUBLIC_USERS = {"engine", "server", "apps", "include"}

BACKENDS = {"cpu", "cuda", "no_cuda"}
REFERENCE = "src/zp/ops/reference/"
FACTORIES = {"src/zp/device/factory.cpp", "src/zp/ops/factory.cpp", "src/zp/parallel/factory.cpp"}

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def backend_of(path):
    """The backend folder that a path of the form zp/<module>/<backend>/... lies in, or None."""
    parts = path.split("/")
    return parts[2] if len(parts) > 3 and parts[2] in BACKENDS else None


def problem(file, owner, quote, target):
    """What is wrong with `owner`, in `file`, including `target`; None if nothing is."""
    parts = target.split("/")
    if parts[0] == "zeroprefill":
        return None if owner in PUBLIC_USERS else f"{owner} may not include the public interface, which lies above it"
    if parts[0] != "zp":
        # Programs and the public headers may have private files of their own beside them.
        if quote == '"' and owner not in ("apps", "include"):
            return "write our own includes from src/ (\"zp/...\"), and others' in <>"
        return None
    module = parts[1]
    if module not in ALLOWED:
        return f"there is no module {module}"
    allowed = {"apps": APPS_ALLOWED, "include": PUBLIC_ALLOWED}.get(owner, ALLOWED.get(owner))
    if module != owner and module not in allowed:
        return f"{owner} may not include {module}; it may include: {', '.join(sorted(allowed)) or 'nothing'}"
    backend = backend_of(target)
    if not backend or file in FACTORIES or backend == backend_of(file.removeprefix("src/")):
        return None
    if not (file.startswith(REFERENCE) and module == "device" and backend == "cpu"):
        return f"only the factories and {backend}/ folders may name the {backend} backend"
    return None


def check(root):
    """All violations below `root`, as lines of text, and how many files were looked at."""
    found = []
    count = 0
    for top in ("src", "apps", "include"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            count += 1
            file = path.relative_to(root).as_posix()
            owner = file.split("/")[2] if top == "src" else top
            if top == "src" and (owner not in ALLOWED or not file.startswith("src/zp/")):
                found.append(f"{file}: {owner} is no module; add it to ALLOWED in tools/check_layers.py")
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                match = INCLUDE.match(line)
                wrong = match and problem(file, owner, match.group(1), match.group(2))
                if wrong:
                    found.append(f"{file}:{number}: {match.group(2)}: {wrong}")
    return found, count


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    found, count = check(root)
    for line in found:
        print(line, file=sys.stderr)
    if count == 0:
        print(f"no sources below {root}", file=sys.stderr)
        return 1
    print(f"layers: {count} files, {len(found)} includes against the arrows")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
