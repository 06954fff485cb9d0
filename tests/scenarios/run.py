#!/usr/bin/env python3
"""Runs scenarios: text files that say which files exist, which command is run, and what it must answer.

    run.py --bin build/bin [--update] [FILE.scn | FOLDER]...

A scenario is a list of blocks, each begun by a line `--- word argument`:

    --- env NAME=VALUE        for the commands that follow
    --- file PATH             content up to the next block
    --- run COMMAND           run by the shell in a fresh folder; `parascale` is on the PATH, `examples/` and `configs/` are there
    --- exit N                of the last command (0 when absent)
    --- stdout                exactly this text, filtered; absent = not looked at
    --- stderr                the same

Filters replace what changes from run to run: [ROOT] the folder, [TIME] durations and dates, [HASH] hex digits, [RATE] rates, [PID].
`--update` rewrites the expected blocks that are present. A scenario whose last command fails must be named fail_*.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FILTERS = [
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "[TIME]"),
    (re.compile(r"\b\d+(\.\d+)? (ms|us|s)\b"), "[TIME]"),
    (re.compile(r"\b\d+m\d\ds\b"), "[TIME]"),
    (re.compile(r"\b\d+(\.\d+)?( images/s|/s)\b"), "[RATE]"),
    (re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{6,64}\b"), "[HASH]"),
    (re.compile(r"(?<=process )\d+"), "[PID]"),
    (re.compile(r"\b\d+ cores\b"), "[N] cores"),
]


def parse(path):
    blocks = []
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith("--- "):
            word, _, argument = line[4:].rstrip("\n").partition(" ")
            blocks.append([word, argument, ""])
        elif blocks:
            blocks[-1][2] += line
        elif line.strip() and not line.startswith("#"):
            raise SystemExit(f"{path}: text before the first block")
    return blocks


def header(path):
    lines = []
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith("--- "):
            break
        lines.append(line)
    return "".join(lines)


def filtered(text, root):
    text = text.replace(str(root), "[ROOT]")
    for pattern, name in FILTERS:
        text = pattern.sub(name, text)
    return text


def run_scenario(path, bin_directory, update):
    blocks = parse(path)
    problems = []
    root = pathlib.Path(tempfile.mkdtemp(prefix="parascale-scn-"))
    environment = {"PATH": f"{bin_directory}:{os.environ['PATH']}", "HOME": str(root), "LANG": "C.UTF-8", "NO_COLOR": "1"}
    result = None
    try:
        for name in ("examples", "configs"):
            (root / name).symlink_to(REPOSITORY / name)
        for block in blocks:
            word, argument, text = block
            if word == "env":
                key, _, value = argument.partition("=")
                environment[key] = value
            elif word == "file":
                target = root / argument
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
            elif word == "run":
                result = subprocess.run(["bash", "-c", argument], cwd=root, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=300)
            elif word == "exit":
                if result.returncode != int(argument):
                    if update:
                        block[1] = str(result.returncode)
                    else:
                        problems.append(f"exit code {result.returncode}, expected {argument}\n{result.stderr}")
            elif word in ("stdout", "stderr"):
                actual = filtered(getattr(result, word), root)
                if actual != text:
                    if update:
                        block[2] = actual if actual.endswith("\n") or not actual else actual + "\n"
                    else:
                        problems.append(f"{word} differs\n--- expected\n{text}--- actual\n{actual}")
            else:
                problems.append(f"unknown block `{word}`")
        if result is None:
            problems.append("the scenario runs no command")
        elif (result.returncode != 0) != path.name.startswith("fail_"):
            problems.append(f"a scenario is named fail_* exactly when its last command fails (exit code {result.returncode})")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if update:
        path.write_text(header(path) + "".join(f"--- {w}{' ' + a if a else ''}\n{t}" for w, a, t in blocks))
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("paths", nargs="*", default=[str(pathlib.Path(__file__).parent)])
    arguments = parser.parse_args()
    scenarios = []
    for path in map(pathlib.Path, arguments.paths):
        scenarios += sorted(path.rglob("*.scn")) if path.is_dir() else [path]
    if not scenarios:
        raise SystemExit("no scenario was found")
    failed = 0
    for scenario in scenarios:
        problems = run_scenario(scenario, pathlib.Path(arguments.bin).resolve(), arguments.update)
        failed += bool(problems)
        for problem in problems:
            print(f"{scenario}: {problem}")
    print(f"{len(scenarios) - failed} of {len(scenarios)} scenarios passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
