# The two commands: `make quickstart` and `make test`. Everything else serves developers; `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
BUILD ?= build
JOBS ?= $(shell nproc)
CTEST := ctest --output-on-failure --no-tests=error --parallel $(JOBS)

.PHONY: help setup configure build quickstart test deep asan tsan tidy format format-check fuzz bench clean

help:
	@echo "make quickstart   install what is missing, build, train a small ViT on real digits, resume it, classify pictures"
	@echo "make test         build and run the fast and full tests, and the sanitizer lane"
	@echo "make deep         also tidy, thread sanitizer, fuzzing, kill sweeps"
	@echo "make build | asan | tsan | tidy | format | fuzz | bench | clean"

setup:
	@tools/setup build

$(BUILD)/build.ninja: setup
	@cmake --preset release >/dev/null

build: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS)

quickstart: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS) --target parascale parascale_worker
	@tools/quickstart

test:
	@tools/setup test
	@cmake --preset release >/dev/null
	@cmake --build build -j $(JOBS)
	@cmake --preset asan >/dev/null
	@cmake --build build/asan -j $(JOBS) --target sanitized_tests
	@cd build/asan && $(CTEST) -L sanitized
	@cd build && $(CTEST) -LE deep

deep: test format-check tidy asan tsan fuzz
	@cd build && $(CTEST) -L deep

asan:
	@cmake --preset asan >/dev/null && cmake --build build/asan -j $(JOBS) --target unit_tests fuzz_replay
	@cd build/asan && $(CTEST) -R '^(unit|fuzz)'

tsan:
	@cmake --preset tsan >/dev/null && cmake --build build/tsan -j $(JOBS) --target threaded_tests
	@cd build/tsan && $(CTEST) -L threaded

tidy:
	@tools/setup deep
	@tools/tidy

format:
	@git ls-files '*.cpp' '*.h' | xargs clang-format-19 -i

format-check:
	@tools/setup deep
	@git ls-files '*.cpp' '*.h' | xargs clang-format-19 --dry-run -Werror

fuzz:
	@tools/setup deep
	@tools/fuzz

bench: build
	@cmake --build build -j $(JOBS) --target benchmarks
	@for benchmark in build/bin/*_benchmark; do $$benchmark || exit 1; done

clean:
	@rm -rf build
