#!/usr/bin/env python3
"""Removes each wait of AsyncEP in turn, and shows which tests notice.

  tools/remove_waits.py [--only NAME ...] [--markdown FILE]

Works on a copy of the committed tree under build/waits. Exits with 1 if the removal of some wait goes unnoticed, or if a
wait is not found where this list has it. A test may notice by failing, by crashing or by never ending.
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "waits"
TIMEOUT_S = 120
TESTS = ("tests/zp_expert_test", "tests/zp_model_test")

# name, what is lost, file, text, replacement
WAITS = [
    ("slot free", "a gather into a slot waits until compute has read what lay there", "src/zp/expert/slot_ring.cpp",
     "    if (slot.free) stream->wait(*slot.free);\n", "    (void)stream;\n"),
    ("slot ready", "compute waits until a layer's experts have arrived", "src/zp/expert/slot_ring.cpp",
     "compute.wait(ready);", "(void)ready;"),
    ("room in the ring", "the gatherer waits until a slot has been released", "src/zp/expert/hybrid.cpp",
     "if (ring_.has_room()) break;", "break;"),
    ("fetch issued", "a rank waits until its gatherer has issued the layer's pulls", "src/zp/expert/hybrid.cpp",
     "  changed_.wait(lock, [&] { return failure_ != nullptr || ring_.fetch_turn() > turn; });\n", ""),
    ("lists read", "the gatherer rewrites a slot's lists of copies when they have been read", "src/zp/expert/hybrid.cpp",
     "ready.wait();  // its", "(void)ready;  // its"),
    ("share there", "a share is pulled when it is in the window", "src/zp/expert/window.cpp",
     "return {.is_there = share.turn == turn && share.ready, .has_waited = has_waited};",
     "return {.is_there = true, .has_waited = has_waited};"),
    ("share arrived", "a share is published when its copies are done", "src/zp/expert/host_streamer.cpp",
     "  oldest.ready.wait();\n  const int64_t own_ns = *oldest.own_pulls_done.reached_ns();\n"
     "  const int64_t peers_ns = *oldest.peer_pulls_done.reached_ns();\n",
     "  const int64_t own_ns = 0;\n  const int64_t peers_ns = 0;\n"),
    ("own pulls", "a share overwrites a place when its rank has pulled from there", "src/zp/expert/host_streamer.cpp",
     "for (const Event& pulled : room.own_pulls) stream_->wait(pulled);", ""),
    ("peer pulls", "a share overwrites a place when all peers have pulled from there", "src/zp/expert/host_streamer.cpp",
     "for (const Event& pulled : room.peer_pulls) stream_->wait(pulled);", ""),
    ("pulls told", "the window knows of the pulls of every rank", "src/zp/expert/hybrid.cpp",
     "channel_.window().pulled(rank_, std::move(pulled));", "pulled.clear();\n  channel_.window().pulled(rank_, {});"),
    ("window", "a streamer stays within the window of what ranks still need", "src/zp/expert/window.cpp",
     "if (turn >= *lowest + spec_.depth) return std::nullopt;", ""),
    ("skew", "a rank waits that is a window ahead of another", "src/zp/expert/window.cpp",
     "if (!in_window()) {", "if (false && !in_window()) {"),
    ("result", "the host reads logits when the step has run", "src/zp/model/forward.cpp",
     "    begin += count;\n  }\n  stream.synchronize();\n", "    begin += count;\n  }\n"),
]


def run(command, **kwargs):
    return subprocess.run(command, cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)


def build():
    targets = [pathlib.Path(test).name for test in TESTS]
    done = run(["cmake", "--build", "build", "--target", *targets])
    if done.returncode != 0:
        sys.exit(f"the copy does not build:\n{done.stdout[-3000:]}")


def failures():
    """Names of the tests that fail; a program that crashes or hangs counts as its own."""
    found = []
    for test in TESTS:
        try:
            done = run([f"build/{test}", "--gtest_brief=1"], timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            found.append(f"{pathlib.Path(test).name} never ends")
            continue
        names = [line.split()[3].rstrip(",") for line in done.stdout.splitlines() if line.startswith("[  FAILED  ] ")
                 and "(" in line]
        if done.returncode != 0 and not names:
            last = [line for line in done.stdout.splitlines() if line.strip()][-1:]
            names = [f"{pathlib.Path(test).name} ends with {done.returncode}: {''.join(last)[:120]}"]
        found += names
    return found


def summary(tests, form):
    more = f" and {len(tests) - 3} more" if len(tests) > 3 else ""
    return ", ".join(form.format(test) for test in tests[:3]) + more


def prepare():
    COPY.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x"], cwd=COPY, input=archive, check=True)
    done = run(["cmake", "--preset", "release", "--log-level=WARNING", "--compile-no-warning-as-error"])
    if done.returncode != 0:
        sys.exit(done.stdout)
    build()
    if found := failures():
        sys.exit(f"these tests fail with every wait in place: {found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="names of waits")
    parser.add_argument("--markdown", type=pathlib.Path, help="also write the table to this file")
    options = parser.parse_args()
    prepare()
    rows = []
    unnoticed = 0
    for name, what, path, text, replacement in WAITS:
        if options.only and name not in options.only:
            continue
        file = COPY / path
        before = file.read_text()
        if before.count(text) != 1:
            sys.exit(f"{name}: {path} has this {before.count(text)} times:\n{text}")
        file.write_text(before.replace(text, replacement))
        try:
            build()
            found = failures()
        finally:
            file.write_text(before)
        unnoticed += not found
        rows.append((name, what, found))
        print(f"{name}: {summary(found, '{}') or 'NOT NOTICED'}", flush=True)
    if options.markdown:
        lines = ["| wait | what it is for | noticed by |", "|---|---|---|"]
        for name, what, found in rows:
            lines.append(f"| {name} | {what} | {summary(found, '`{}`') or 'nothing'} |")
        options.markdown.write_text("\n".join(lines) + "\n")
    sys.exit(1 if unnoticed else 0)


if __name__ == "__main__":
    main()
