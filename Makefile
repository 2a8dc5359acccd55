# A thin front to CMake's presets (CMakePresets.json). Everything that users run is built in build/.
JOBS ?= $(shell nproc)
CMAKE_BUILD = cmake --build build --parallel $(JOBS)

.PHONY: help build demo test bench format tidy clean
.DEFAULT_GOAL := help
# The targets share build/; CMake and Ninja do the work in parallel themselves.
.NOTPARALLEL:

help:
	@echo 'make demo    install what is missing, build, and run every example task on the small model that is shipped'
	@echo 'make test    install what is missing, build, and run all tests'
	@echo 'make build   build the program: build/zeroprefill'
	@echo 'make bench   build and run the benchmarks'
	@echo 'make format  lay out all C++ sources with clang-format'
	@echo 'make tidy    check the sources with clang-tidy, recently changed ones first'
	@echo 'make clean   remove every build folder'
	@echo 'JOBS=<n> sets how many compilers run at once. Other builds (sanitizers, CUDA, fuzzing): see CONTRIBUTING.md.'

# A first build leaves the tests out, which need one more library; later ones keep what build/ is set to.
build:
	@tools/install_dependencies.sh build
	@cmake --preset release --log-level=WARNING $(if $(wildcard build/CMakeCache.txt),,-DZP_BUILD_TESTS=OFF)
	@$(CMAKE_BUILD) --target zeroprefill

demo: build
	@tools/demo.sh

test:
	@tools/install_dependencies.sh build test
	@cmake --preset release --log-level=WARNING -DZP_BUILD_TESTS=ON
	@$(CMAKE_BUILD)
	@ctest --preset release --parallel $(JOBS)

bench:
	@tools/install_dependencies.sh build bench
	@cmake --preset release --log-level=WARNING -DZP_BUILD_BENCH=ON $(if $(wildcard build/CMakeCache.txt),,-DZP_BUILD_TESTS=OFF)
	@$(CMAKE_BUILD)
	@set -e; for program in build/bench/*_bench; do \
	  if [ -x "$$program" ]; then "$$program"; else echo 'There are no benchmarks yet.'; fi; done

format:
	@tools/install_dependencies.sh lint
	@tools/check_format.sh --fix

tidy:
	@tools/install_dependencies.sh build test lint
	@cmake --preset release --log-level=WARNING -DZP_BUILD_TESTS=ON
	@tools/run_tidy.sh

clean:
	rm -rf build build-*
