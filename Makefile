# The front door. Every target sets up what it needs: packages, configuration, build.
PREFIX ?= /usr/local
BUILD ?= build/release
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=

.PHONY: help demo test test-release test-asan test-tsan test-bindings test-page test-onnx bench lint format install package setup configure build clean

help:
	@echo "make demo | test | bench | lint | format | install PREFIX=... | package | clean"

setup:
	@tools/setup.sh

configure: setup
	@cmake --preset release $(CMAKE_FLAGS) > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }

build: configure
	@cmake --build $(BUILD) -j $(JOBS)

demo: build
	@$(BUILD)/src/gluino demo --folder $(BUILD)/demo

test: test-release

test-release: build lint-includes
	@cd $(BUILD) && ctest --output-on-failure

# The second step: the tests once more under the address and undefined-behaviour sanitizers.
test-asan: setup
	@cmake --preset asan > build/configure-asan.log 2>&1 || { cat build/configure-asan.log; exit 1; }
	@cmake --build build/asan -j $(JOBS)
	@cd build/asan && ctest --output-on-failure -LE slow

test-tsan: setup
	@cmake --preset tsan > build/configure-tsan.log 2>&1 || { cat build/configure-tsan.log; exit 1; }
	@cmake --build build/tsan -j $(JOBS)
	@cd build/tsan && ctest --output-on-failure -L threads

# The packages of other languages; what cannot be installed here is skipped, and said so.
test-bindings: build
	@tools/setup.sh bindings
	@bindings/test.sh $(BUILD)

# The command line and its page, and the server's, with a browser to see it in.
test-page: build
	@tools/setup.sh page
	@cd $(BUILD) && ctest --output-on-failure -R '^(cli|serve)$$'

# ONNX Runtime as the judge of what is read and written; peers and models are fetched, and kept in build/. PYTEST_FLAGS="-k silero"
test-onnx: build
	@tools/setup.sh onnx || echo "PyTorch could not be installed; its tests are skipped"
	@PYTHONPATH=$(abspath $(BUILD))/python /usr/bin/python3 -m pytest tests/onnx -v $(PYTEST_FLAGS)

# Tables beside the peers, in build/bench; docs/performance.md says how to read them. BENCH_FLAGS="--only mlp_b1 --rounds 3"
bench: setup
	@tools/setup.sh bench || echo "some peers could not be installed; the tables say which"
	@cmake --preset release -DGLUINO_BENCH=ON > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS)
	@tools/bench.sh $(BUILD)
	@/usr/bin/python3 tools/bench.py --build $(BUILD) $(BENCH_FLAGS)
	@PYTHONPATH=$(abspath $(BUILD))/python /usr/bin/python3 bench/python_bench.py

# What to put on PYTHONPATH: the package, and the folder in which `import mxnet` finds it.
.PHONY: pythonpath
pythonpath:
	@echo "$(abspath $(BUILD))/python:$(abspath python/compat)"

.PHONY: lint-includes
lint-includes:
	@/usr/bin/python3 tools/check_includes.py

lint: configure lint-includes
	@tools/setup.sh lint
	@git ls-files '*.cc' '*.h' | xargs clang-format --dry-run --Werror
	@git ls-files 'src/*.cc' | xargs -P $(JOBS) -n 4 clang-tidy -quiet -p $(BUILD)

format:
	@tools/setup.sh
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

# Debian packages (runtime, -dev) and the wheel, in $(BUILD)/packages.
package: build
	@cd $(BUILD) && cpack -G DEB > cpack.log || { cat cpack.log; exit 1; }
	@/usr/bin/python3 -m pip wheel -q --no-build-isolation --no-deps -w $(BUILD)/packages .
	@ls -l $(BUILD)/packages/*.deb $(BUILD)/packages/*.whl

clean:
	rm -rf build
