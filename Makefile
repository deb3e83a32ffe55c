# SPDX-License-Identifier: Apache-2.0
# Sets up, builds, runs and tests SwiftKV. Each target stands alone on a fresh machine.
#
# Every step is skipped when its result is there: nothing is fetched, configured or compiled twice.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PROMPT ?= In one short paragraph: what does a key-value cache do for a language model?
PREFIX ?= /usr/local

.PHONY: help run build test bench peers soak check asan tsan fuzz install clean

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10
	@echo
	@echo 'Variables: PROMPT=... (run)  PREFIX=... (install)  CC, CXX, CFLAGS, CXXFLAGS'
	@echo '  SWIFTKV_CACHE_DIR      where fetched and built things are kept (~/.cache/swiftkv)'
	@echo '  SWIFTKV_LLAMA_SOURCE   a llama.cpp source tree to use instead of the pinned one'
	@echo '  SWIFTKV_LLAMA_ARCHIVE  the pinned source archive as a local file'
	@echo '  SWIFTKV_MODEL          a GGUF file to run instead of the fetched one'

run: build  ## Set everything up and answer PROMPT with a real model
	@build/swiftkv run -p '$(subst ','\'',$(PROMPT))'

build:  ## Fetch what is missing, build build/swiftkv and fetch its model
	@scripts/build.sh program

test:  ## Build everything and run all tests; the last line counts them
	@scripts/build.sh all
	@scripts/run_tests.py build

bench:  ## Build and run a short form of all benches, below 10 minutes
	@scripts/build.sh program
	@scripts/build.sh benches
	@scripts/run_benches.sh build

peers:  ## Build llama.cpp's own programs (llama-bench ...), same compiler and flags
	@scripts/install_packages.sh
	@prefix=$$(scripts/build_llama.py --peers) && ls "$$prefix"/bin/*

soak: build  ## Hold the server under traffic (SOAK_PHASE) for SOAK_SECONDS (default 600)
	@scripts/soak_server.py --seconds $${SOAK_SECONDS:-600} --clients $${SOAK_CLIENTS:-16} \
	  --phase $${SOAK_PHASE:-mixed}

check:  ## Run all checks of the source: layers, sizes, format, documents, clang-tidy
	@scripts/check.sh

asan:  ## Run the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/build.sh asan
	@scripts/run_tests.py build-asan

# ThreadSanitizer does not see how the threads of OpenMP wait for one another: teams of one.
tsan: export OMP_THREAD_LIMIT := 1
tsan: export TSAN_OPTIONS := suppressions=$(CURDIR)/scripts/tsan_suppressions.txt:second_deadlock_stack=1
tsan:  ## Run engine, server and a short soak under ThreadSanitizer
	@scripts/build.sh tsan
	@scripts/run_tests.py build-tsan --tests-regex '^(base|engine|server)_tests$$'
	@scripts/soak_server.py --tiny --program build-tsan/swiftkv --seconds 60 --most-growth 1000

fuzz:  ## Run each fuzz target for FUZZ_SECONDS (default 60)
	@scripts/run_fuzzers.sh

install: build  ## Install the program, the library, headers and CMake package under PREFIX
	@cmake --build build --target swiftkv_shared
	@cmake --install build --prefix '$(PREFIX)'

clean:  ## Remove the build directories; the cache stays
	@rm -rf build build-asan build-tsan build-fuzz
