# The front door. Every target sets up what it needs: packages (deps), configuration, build.
PREFIX ?= /usr/local
BUILD ?= build/release
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=

.PHONY: help
help:
	@echo "make deps | demo | test | bench | docs | lint | format | install PREFIX=... | package | clean"
	@echo "tests beside make test: test-asan | test-tsan | test-clang | test-arm64 | test-bindings | test-page | test-package | test-onnx"

# Debian's packages for building and testing everything; tools/setup.sh lists them. The other targets call it and go on without root.
.PHONY: deps
deps:
	@tools/setup.sh test

.PHONY: configure build
configure: deps
	@cmake --preset release -DGLUINO_TESTS=ON -DGLUINO_PYTHON=ON $(CMAKE_FLAGS) > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }

build: configure
	@cmake --build $(BUILD) -j $(JOBS)

# The library and the demonstration alone, with the packages that these need; a folder that is configured already stays as it is.
.PHONY: demo
demo:
	@tools/setup.sh build
	@[ -f $(BUILD)/build.ninja ] || cmake --preset release -DGLUINO_TESTS=OFF -DGLUINO_PYTHON=OFF $(CMAKE_FLAGS) > build/configure.log 2>&1 \
	  || { cat build/configure.log; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS) --target gluino_demo
	@$(BUILD)/src/gluino_demo $(BUILD)/demo

.PHONY: test test-release
test: test-release

test-release: build lint-includes
	@cd $(BUILD) && ctest -j $(JOBS) --output-on-failure || { $(call say_what_failed) >&2; exit 1; }

# The last lines of a long log should be the ones that matter.
say_what_failed = echo "failed:" $$(cut -d: -f2 Testing/Temporary/LastTestsFailed.log); \
  grep -E '^(FAILED|ERROR|E  |\[  FAILED|.*(Failure|Error:))' Testing/Temporary/LastTest.log | tail -n 60

# The second step: the tests once more under the address and undefined-behaviour sanitizers.
.PHONY: test-asan test-tsan
test-asan: deps
	@cmake --preset asan > build/configure-asan.log 2>&1 || { cat build/configure-asan.log; exit 1; }
	@cmake --build build/asan -j $(JOBS)
	@cd build/asan && ctest --output-on-failure -LE slow

test-tsan: deps
	@cmake --preset tsan > build/configure-tsan.log 2>&1 || { cat build/configure-tsan.log; exit 1; }
	@cmake --build build/tsan -j $(JOBS)
	@cd build/tsan && ctest --output-on-failure -L threads

# All tests of a build with the other compiler.
.PHONY: test-clang
test-clang:
	@tools/setup.sh clang
	@cmake --preset clang > build/configure-clang.log 2>&1 || { cat build/configure-clang.log; exit 1; }
	@cmake --build build/clang -j $(JOBS)
	@cd build/clang && ctest --output-on-failure

# Unit and operator tests of a build for another processor, run by an emulator.
.PHONY: test-arm64
test-arm64:
	@tools/setup.sh arm64
	@cmake --preset arm64 > build/configure-arm64.log 2>&1 || { cat build/configure-arm64.log; exit 1; }
	@cmake --build build/arm64 -j $(JOBS) --target test_unit test_ops
	@cd build/arm64 && ctest --output-on-failure -R '^(unit|ops)$$'

# The packages of other languages; what cannot be installed here is skipped, and said so.
.PHONY: test-bindings
test-bindings: build
	@tools/setup.sh bindings
	@bindings/test.sh $(BUILD)

# The command line and its page, and the server's, with a browser to see it in.
.PHONY: test-page
test-page: build
	@tools/setup.sh page
	@cd $(BUILD) && ctest --output-on-failure -R '^(cli|serve)$$'

# The packages on a machine that has nothing else: a fresh Debian in a folder.
.PHONY: test-package
test-package: build package
	@PYTHONPATH=$(abspath $(BUILD))/python /usr/bin/python3 -m pytest tests/package -v $(PYTEST_FLAGS)

# ONNX Runtime as the judge of what is read and written; peers and models are fetched, and kept in build/. PYTEST_FLAGS="-k silero"
.PHONY: test-onnx
test-onnx: build
	@tools/setup.sh onnx || echo "PyTorch could not be installed; its tests are skipped"
	@PYTHONPATH=$(abspath $(BUILD))/python /usr/bin/python3 -m pytest tests/onnx -v $(PYTEST_FLAGS)

# Tables beside the peers, in build/bench; docs/performance.md says how to read them. BENCH_FLAGS="--only mlp_b1 --rounds 3"
.PHONY: bench
bench: deps
	@tools/setup.sh bench || echo "some peers could not be installed; the tables say which"
	@cmake --preset release -DGLUINO_TESTS=ON -DGLUINO_PYTHON=ON -DGLUINO_BENCH=ON > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS)
	@tools/bench.sh $(BUILD)
	@/usr/bin/python3 tools/bench.py --build $(BUILD) $(BENCH_FLAGS)
	@PYTHONPATH=$(abspath $(BUILD))/python /usr/bin/python3 bench/python_bench.py

# What to put on PYTHONPATH: the package, and the folder in which `import mxnet` finds it.
.PHONY: pythonpath
pythonpath:
	@echo "$(abspath $(BUILD))/python:$(abspath python/compat)"

# The reference as static pages with search, build/docs/index.html: operators, layers, C++ headers, Python, and the documents.
.PHONY: docs
docs: configure
	@cmake --build $(BUILD) -j $(JOBS) --target gluino_ops_header gluino_python
	@PYTHONPATH=$(abspath $(BUILD))/python:$(abspath python/compat) /usr/bin/python3 tools/reference build/docs $(BUILD)/generated

# Format, includes, versions, Python; clang-tidy on the units that changed. lint-all: clang-tidy on every unit, which takes an hour.
.PHONY: lint lint-all lint-includes format
lint-includes:
	@/usr/bin/python3 tools/check_includes.py

lint lint-all: configure lint-includes
	@tools/setup.sh lint
	@/usr/bin/python3 tools/lint.py --build $(BUILD) --jobs $(JOBS) $(if $(filter lint-all,$@),--all) $(LINT_FLAGS)

format:
	@tools/setup.sh lint
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

.PHONY: install package deb wheel clean
install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

# Debian packages and wheels, in build/packages; docs/deploy.md says what each holds. Built apart, without tests.
package: deb wheel
	@ls -l build/packages/*.deb build/packages/*.whl

deb: deps
	@tools/setup.sh package
	@cmake --preset release -B build/package -DGLUINO_TESTS=OFF -DGLUINO_PYTHON=OFF -DGLUINO_EXAMPLES=OFF $(CMAKE_FLAGS) > build/configure-package.log 2>&1 \
	  || { cat build/configure-package.log; exit 1; }
	@cmake --build build/package -j $(JOBS)
	@mkdir -p build/packages && rm -f build/packages/*.deb
	@cd build/package && cpack -G DEB -B ../packages > cpack.log || { cat cpack.log; exit 1; }
	@rm -rf build/packages/_CPack_Packages

wheel: deps
	@tools/setup.sh package
	@mkdir -p build/packages && rm -rf build/packages/*.whl build/unbundled
	@/usr/bin/python3 -m pip wheel -q --no-build-isolation --no-deps -w build/unbundled .
	@/usr/bin/python3 tools/bundle_wheel.py build/unbundled/*.whl build/packages
	@/usr/bin/python3 -m pip wheel -q --no-build-isolation --no-deps -w build/packages ./python/compat

clean:
	rm -rf build
