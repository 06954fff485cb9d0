#!/usr/bin/env python3
"""The include-graph gate: who includes whom, as cmake/layers.cmake allows, and nothing else.

    include_graph.py [REPOSITORY]     checks src/ and fails with file:line, the edge, and what is allowed
    include_graph.py --self-test      checks small bad trees that must fail, and a good one that must pass

Rules: a module includes itself, base, and the headers its row of the table names; the graph has no cycle; torch headers stand only in
src/parascale_torch and src/apps/parascale_worker; each third-party library is included by its one owner; nothing includes from tests/ but tests.
"""
import fnmatch
import pathlib
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = ("torch/", "ATen/", "c10/", "caffe2/")
# Third-party headers and the module that owns each; fmt/core.h is open to all.
OWNERS = {"nlohmann/": "base", "spdlog/": "base", "openssl/": "base", "xxhash.h": "base", "yaml-cpp/": "config", "png.h": "data", "CLI/": "cli"}


def read_table(repository):
    rows = {}
    for line in (repository / "cmake/layers.cmake").read_text().splitlines():
        cells = line.strip().strip('"').split()
        if line.strip().startswith('"') and len(cells) >= 2:
            allowed = [cell.partition(":")[::2] for cell in cells[2:]]
            rows[cells[0]] = (int(cells[1]), [(module, header or "*") for module, header in allowed])
    return rows


def module_of(path, source):
    parts = path.relative_to(source).parts
    if parts[0] == "parascale":
        return parts[1]
    if parts[0] == "parascale_torch":
        return "torch"
    return "apps"


def target_of(include):
    if include.startswith("parascale/"):
        return include.split("/")[1], "/".join(include.split("/")[2:])
    if include.startswith("parascale_torch/"):
        return "torch", include.partition("/")[2]
    return None, None


def check(repository):
    source = repository / "src"
    table = read_table(repository)
    problems, edges = [], {}
    for path in sorted(source.rglob("*")):
        if path.suffix not in (".h", ".cpp", ".def"):
            continue
        module = module_of(path, source)
        is_test = "tests" in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            include, place = found.group(2), f"{path.relative_to(repository)}:{number}"
            if include.startswith(TORCH) and module != "torch" and "parascale_worker" not in path.parts:
                problems.append(f"{place}: `{include}` is a torch header; only src/parascale_torch may include torch")
            for prefix, owner in OWNERS.items():
                if include.startswith(prefix) and module != owner and not is_test:
                    problems.append(f"{place}: `{include}` belongs to module `{owner}` alone")
            if include.startswith("tests/") and not is_test:
                problems.append(f"{place}: product code includes a test header")
            target, header = target_of(include)
            if target is None or target == module or target == "base" or is_test or module == "apps":
                continue
            if module not in table:
                problems.append(f"{place}: module `{module}` is not in cmake/layers.cmake")
                continue
            allowed = table[module][1]
            if not any(name == target and fnmatch.fnmatch(header, pattern) for name, pattern in allowed):
                shown = ", ".join(name if pattern == "*" else f"{name}/{pattern}" for name, pattern in allowed) or "base only"
                problems.append(f"{place}: `{module}` -> `{include}` is not allowed (allowed: {shown})")
            edges.setdefault(module, set()).add(target)
    for module, (layer, allowed) in table.items():
        for target, _ in allowed:
            if target not in table or table[target][0] >= layer:
                problems.append(f"cmake/layers.cmake: `{module}` (layer {layer}) names `{target}`, which is not below it")
    problems += cycles(edges)
    return problems


def cycles(edges):
    found, done = [], set()

    def visit(node, trail):
        if node in trail:
            found.append("cycle: " + " -> ".join(trail[trail.index(node):] + [node]))
        elif node not in done:
            for target in sorted(edges.get(node, ())):
                visit(target, trail + [node])
            done.add(node)

    for node in sorted(edges):
        visit(node, [])
    return found


LAYERS = 'set(PARASCALE_LAYERS\n  "base 0"\n  "config 1"\n  "plan 3 config:resolved_config.h"\n  "torch 6 config"\n)\n'
TREES = [
    ("good", {"parascale/plan/a.cpp": '#include "parascale/config/resolved_config.h"\n#include "parascale/base/x.h"\n'}, None),
    ("upward edge", {"parascale/config/a.cpp": '#include "parascale/plan/plan.h"\n'}, "is not allowed"),
    ("wrong header", {"parascale/plan/a.cpp": '#include "parascale/config/load_config.h"\n'}, "is not allowed"),
    ("base upwards", {"parascale/base/a.h": '#include "parascale/config/resolved_config.h"\n'}, "is not allowed"),
    ("torch outside", {"parascale/plan/a.cpp": "#include <torch/torch.h>\n"}, "torch header"),
    ("foreign owner", {"parascale/plan/a.cpp": "#include <nlohmann/json.hpp>\n"}, "belongs to module `base`"),
    ("test header", {"parascale/plan/a.cpp": '#include "tests/support/matchers.h"\n'}, "test header"),
    ("unknown module", {"parascale/other/a.cpp": '#include "parascale/config/resolved_config.h"\n'}, "not in cmake/layers.cmake"),
    ("cycle", {"parascale/config/a.cpp": '#include "parascale/plan/b.h"\n', "parascale/plan/b.h": '#include "parascale/config/resolved_config.h"\n'}, "cycle"),
]


def self_test():
    failures = 0
    for name, files, expected in TREES:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "cmake").mkdir()
            (root / "cmake/layers.cmake").write_text(LAYERS)
            for path, text in files.items():
                target = root / "src" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
            problems = check(root)
            good = not problems if expected is None else any(expected in problem for problem in problems)
            if not good:
                failures += 1
                print(f"self-test `{name}`: expected {expected!r}, got {problems}")
    print(f"{len(TREES) - failures} of {len(TREES)} small trees judged rightly")
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    repository = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    problems = check(repository)
    print("\n".join(problems) or "the include graph is as cmake/layers.cmake says")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
