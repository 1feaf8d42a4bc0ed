# moec: a compiler for sequence models. `make help` prints the targets.
#
## make              build build/moec; for other programs build/libmoec.so, build/libmoec.a and build/libmoec_compiler.a (only the compiler)
## make help         print this list
## make quickstart   install missing packages, build, train a small model, export it as C (examples/quickstart.sh)
## make test         install missing packages, build, run the default tests (tests/run)
## make test-all     make test, then the long tests (tests/long.sh; some hours)
## make test-oracle  compute the results of published systems in PyTorch again and compare
## make reproduce-quick   repeat one experiment of examples/reproduce in about two minutes and compare its table
## make english      train the small English model of models/english.moe: hybrid, gates, experts; about 25 minutes on two cores
## make bench        print training and decoding speed with the measured limits of the machine
## make gpu-kit      build/gpu-kit: a folder for a machine with a GPU, with tests/gpu.sh
## make install      install to PREFIX (default /usr/local); DESTDIR=DIR is put before it, for packages
## make wheel        build/moec-*.whl: a Python wheel with the command and the library (runtime/package)
## make deb          build/*.deb: Debian packages moec, libmoec-dev and the shared library
## make image       the container image moec, for CPUs; make image-cuda: moec-cuda, with the CUDA runtime
## make setup        install missing packages (Debian and Ubuntu)
## make check        layout, folder maps, dependencies, names; clang-tidy and cppcheck if they are installed
## make format       format the C files of compiler/ and runtime/ with clang-format
## make coverage     run the default tests with gcov; lines that ran, per folder (build/cov)
## make compile_commands.json   compiler flags per file, for clangd and clang-tidy
## make clean        remove the build folder; trained runs stay
##
## SAN=1             address and undefined-behavior sanitizers, in build/san
## WERROR=1          warnings are errors (not with SAN=1, where gcc has false warnings)
## CC=clang          another compiler (with a separate BUILD folder)
## BUILD_CC=cc       compiler of programs that run during the build, if CC compiles for another machine

, := ,
SAN ?=
WERROR ?=
BUILD ?= $(if $(SAN),build/san,build)
PREFIX ?= /usr/local
CC ?= cc
BUILD_CC ?= $(CC)
ifeq ($(origin CC),default)
CC := cc
endif
OBJCOPY ?= objcopy
FLEX ?= flex
BISON ?= bison

hash := \#
# works SOURCE FLAGS: "yes" if the compiler builds a program from it.
works = $(shell printf '$(1)' | $(CC) -x c - $(2) -o /dev/null 2>/dev/null && echo yes)

HAVE_DNNL := $(call works,$(hash)include <oneapi/dnnl/dnnl.h>\nint main(void){return dnnl_version()==0;},-ldnnl)
# Instruction set levels for which the product kernel is compiled ahead, if the compiler supports them.
LEVEL_v3 := -march=x86-64-v3
LEVEL_v4 := -march=x86-64-v4 -mprefer-vector-width=512 -mavx512bf16 -mamx-tile -mamx-bf16
LEVELS := $(if $(call works,int main(void){return !__x86_64__;},$(LEVEL_v4)),v3 v4)
HAVE_OPENMP := $(call works,$(hash)include <omp.h>\nint main(void){return omp_get_max_threads()==0;},-fopenmp)

# HTTP library of `moec serve`; without it that command reports an error.
HAVE_MICROHTTPD := $(shell pkg-config --exists libmicrohttpd 2>/dev/null && echo yes)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes $(if $(WERROR),$(if $(SAN),,-Werror))
CFLAGS ?= -O2 -g
# Every object may become part of libmoec.so.
PIC := -fPIC -fno-semantic-interposition
# No object contains the path of the sources: builds in different folders are equal.
PATHS := -ffile-prefix-map=$(CURDIR)=.
OURS := $(PATHS) -std=c11 -D_GNU_SOURCE $(PIC) -fno-math-errno $(WARNINGS) $(if $(HAVE_OPENMP),-fopenmp)
$(BUILD)/runtime/device/products.o: OURS += $(if $(HAVE_DNNL),-DHAVE_DNNL)
$(BUILD)/runtime/device/own_product.o: OURS += $(if $(LEVELS),-DOWN_LEVELS)
$(BUILD)/runtime/tools/server/http.o: OURS += $(if $(HAVE_MICROHTTPD),-DHAVE_MICROHTTPD $(shell pkg-config --cflags libmicrohttpd))
# Include paths per side: the compiler only itself, the runtime also the public header of the compiler.
INCLUDES_compiler := -Icompiler -Iruntime -Iruntime/abi -I$(BUILD)
INCLUDES_runtime := -Iruntime -Iruntime/abi -Iruntime/kernels -Icompiler
INCLUDES_tests := -Icompiler -Iruntime -Iruntime/abi -Iruntime/kernels -Iruntime/model
GENERATED = $(PATHS) -std=c11 -D_GNU_SOURCE $(PIC) -w -I$(BUILD) -Icompiler -Iruntime
SANITIZE := $(if $(SAN),-fsanitize=address$(,)undefined -fno-omit-frame-pointer)
# LeakSanitizer reports memory of threads for a library that is loaded later: oneDNN is linked from the start.
LIBS := -ljansson -lpcre2-8 -lutf8proc -ldl -lm -lpthread $(if $(SAN),$(if $(HAVE_DNNL),-Wl$(,)--no-as-needed -ldnnl))

# The compiler is a library without dependencies on the runtime; the command is the runtime with that library.
# all FOLDER LEFT_OUT...: the C files of a folder and its sub-folders.
all = $(filter-out $(2),$(sort $(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c $(1)/*/*/*/*.c)))
COMPILER := $(call all,compiler,compiler/base/embed.c)
RUNTIME := $(call all,runtime,runtime/kernels/% runtime/device/sim/% runtime/standalone/% runtime/mesh/mpi_shim.c)
STDLIB := $(sort $(wildcard stdlib/*.moe stdlib/layouts/*.moe))
# Files inside the binary: those of a standalone folder, some of which the runtime uses as well.
CARRIED := runtime/abi/abi.h runtime/abi/count.h runtime/abi/refined_inputs.h runtime/abi/shapes.h \
           $(addprefix runtime/,$(foreach name,data/order data/random model/pick model/streams model/weights,$(name).c $(name).h)) \
           $(sort $(wildcard runtime/kernels/*.h runtime/kernels/cuda/*.*h) $(filter-out %/README.md,$(wildcard runtime/standalone/*.* runtime/standalone/Makefile runtime/standalone/freestanding/*)))
TORCH := $(sort $(wildcard compiler/torch/text/*.py))
PAGE := $(patsubst %,runtime/tools/report/page/%,page.html page.css page.js layers.js chart.min.js)
SIMULATED := $(sort $(wildcard runtime/device/sim/*.c))
UNIT := $(sort $(wildcard tests/unit/test_*.c))
MUTATORS := $(sort $(wildcard tests/fuzz/mutate_*.c))

COMPILER_OBJECTS := $(COMPILER:%.c=$(BUILD)/%.o) $(BUILD)/parser.o $(BUILD)/lexer.o $(BUILD)/stdlib_text.o $(BUILD)/errors_text.o $(BUILD)/torch_text.o
RUNTIME_OBJECTS := $(RUNTIME:%.c=$(BUILD)/%.o) $(LEVELS:%=$(BUILD)/runtime/device/own_product_%.o) $(BUILD)/runtime_text.o $(BUILD)/report_text.o $(BUILD)/against_text.o $(BUILD)/mpi_text.o
VERSION := $(shell sed -n 's/^.define MOEC_VERSION "\(.*\)"/\1/p' runtime/base/build.h)
# Before version 1.0, each minor release can change the binary interface of the library.
SONAME := libmoec.so.$(basename $(VERSION))
# A copy of the sources without git gets the commit from the environment.
ifndef COMMIT
COMMIT := $(shell git describe --always --dirty --exclude='*' --abbrev=10 2>/dev/null || echo unknown)
endif
# `make test` and `make quickstart` use every processor unless -j is given.
JOBS := $(if $(findstring j,$(firstword -$(MAKEFLAGS))),,-j$(shell nproc 2>/dev/null || echo 2))
UNIT_PROGRAMS := $(UNIT:%.c=$(BUILD)/%) $(MUTATORS:%.c=$(BUILD)/%)

.DELETE_ON_ERROR:

.PHONY: all
all: $(BUILD)/moec $(BUILD)/libmoec_compiler.a $(if $(SAN),,$(BUILD)/libmoec.so) $(BUILD)/libmoec_sim.so $(BUILD)/kernels.ready

$(BUILD)/moec: $(RUNTIME_OBJECTS) $(BUILD)/commit.o $(BUILD)/libmoec_compiler.a
	$(CC) $(CFLAGS) $(if $(HAVE_OPENMP),-fopenmp) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(LIBS)

# The engine for other programs: it exports only the functions of runtime/library/moec.h. libmoec.a is one object with local
# names otherwise: it can be linked with any program.
$(BUILD)/libmoec.a: $(BUILD)/libruntime.a $(BUILD)/libmoec_compiler.a $(BUILD)/commit.o runtime/library/exported.map
	grep -o 'moec_[a-z_]*' runtime/library/exported.map > $(BUILD)/exported.names
	$(LD) -r -o $(BUILD)/libmoec.o $(filter $(BUILD)/runtime/library/%,$(RUNTIME_OBJECTS)) $(BUILD)/commit.o \
	    --start-group $(filter %.a,$^) --end-group
	$(OBJCOPY) --keep-global-symbols=$(BUILD)/exported.names $(BUILD)/libmoec.o
	@rm -f $@
	$(AR) rcs $@ $(BUILD)/libmoec.o
	@rm $(BUILD)/libmoec.o

$(BUILD)/libmoec.so: $(BUILD)/libmoec.a runtime/library/exported.map runtime/base/build.h
	$(CC) $(CFLAGS) $(if $(HAVE_OPENMP),-fopenmp) $(LDFLAGS) -shared -Wl,--version-script=runtime/library/exported.map -Wl,-soname,$(SONAME) \
	    -Wl,-z,defs -o $@ -Wl,--whole-archive $(BUILD)/libmoec.a -Wl,--no-whole-archive $(LIBS)
	ln -sf libmoec.so $(BUILD)/$(SONAME)

# Common part of all programs, compiled for this machine before the first start; a start works without it.
$(BUILD)/kernels.ready: $(BUILD)/runtime_text.o $(BUILD)/runtime/model/toolchain.o $(BUILD)/runtime/base/cache.o | $(BUILD)/moec
	@rm -rf $(BUILD)/kernels
	-$(if $(SAN),,$(BUILD)/moec precompile $(BUILD)/kernels)
	@touch $@

$(BUILD)/libmoec_compiler.a: $(COMPILER_OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/%.o: %.c $(BUILD)/flags.list | $(BUILD)/parser.h
	@mkdir -p $(@D)
	$(CC) $(OURS) $(INCLUDES_$(firstword $(subst /, ,$<))) $(CFLAGS) $(SANITIZE) -MMD -MP -c -o $@ $<

$(LEVELS:%=$(BUILD)/runtime/device/own_product_%.o): $(BUILD)/runtime/device/own_product_%.o: runtime/device/own_product.c $(BUILD)/flags.list
	@mkdir -p $(@D)
	$(CC) $(OURS) -ffp-contract=fast $(INCLUDES_runtime) $(CFLAGS) $(SANITIZE) $(LEVEL_$*) -DOWN_LEVEL=own_product_$* -MMD -MP -c -o $@ $<

# The simulated CUDA driver: a library for MOEC_CUDA. Kernels are compiled with the header that it contains.
$(BUILD)/sim_text.c: $(BUILD)/embed runtime/device/sim/sim.h runtime/device/sim/cuda_sim.h
	$(BUILD)/embed sim_file runtime/device sim/sim.h sim/cuda_sim.h > $@

$(BUILD)/libmoec_sim.so: $(SIMULATED) $(BUILD)/sim_text.c $(wildcard runtime/device/sim/*.h)
	$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) -O2 -g -fPIC -shared -fvisibility=hidden -Iruntime -o $@ \
	    $(SIMULATED) $(BUILD)/sim_text.c -ldl -lm

# Output of flex, bison and the embedder.
$(BUILD)/%.o: $(BUILD)/%.c $(BUILD)/flags.list | $(BUILD)/parser.h
	$(CC) $(GENERATED) $(CFLAGS) $(SANITIZE) -MMD -MP -c -o $@ $<

$(BUILD)/parser.c $(BUILD)/parser.h &: compiler/syntax/parser.y
	@mkdir -p $(BUILD)
	$(BISON) -Wall -Werror --header=$(BUILD)/parser.h -o $(BUILD)/parser.c $<

$(BUILD)/lexer.c: compiler/syntax/lexer.l $(BUILD)/parser.h
	$(FLEX) -o $@ $<

$(BUILD)/embed: compiler/base/embed.c
	@mkdir -p $(BUILD)
	$(BUILD_CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) -O1 -o $@ $<

# The standard library and the headers of generated programs are inside the binary. A file that was moved here may be older than
# the last build, and a removed file has no date: the lists of names are dependencies, too.
$(BUILD)/stdlib.list: NAMES = $(STDLIB)
$(BUILD)/carried.list: NAMES = $(CARRIED)
# Objects with other flags are rebuilt.
$(BUILD)/flags.list: NAMES = $(PATHS) $(PIC)
$(BUILD)/%.list: FORCE
	@mkdir -p $(@D)
	@echo $(NAMES) | cmp -s - $@ || echo $(NAMES) > $@

# The commit of this build, for run.json; unit tests do not use it, so a commit does not link them again.
$(BUILD)/commit.c: FORCE
	@mkdir -p $(@D)
	@echo 'const char build_commit[] = "$(COMMIT)";' | cmp -s - $@ || echo 'const char build_commit[] = "$(COMMIT)";' > $@

.PHONY: FORCE
FORCE:

$(BUILD)/stdlib_text.c: $(BUILD)/embed $(STDLIB) $(BUILD)/stdlib.list
	$(BUILD)/embed stdlib_file stdlib $(STDLIB:stdlib/%=%) > $@

$(BUILD)/errors_text.c: $(BUILD)/embed compiler/ERRORS.md
	$(BUILD)/embed error_page compiler ERRORS.md > $@

$(BUILD)/torch_text.c: $(BUILD)/embed $(TORCH)
	$(BUILD)/embed torch_file compiler/torch/text $(notdir $(TORCH)) > $@

$(BUILD)/runtime_text.c: $(BUILD)/embed $(CARRIED) $(BUILD)/carried.list
	$(BUILD)/embed embedded_file runtime $(CARRIED:runtime/%=%) > $@

$(BUILD)/report_text.c: $(BUILD)/embed $(PAGE)
	$(BUILD)/embed report_file runtime/tools/report/page $(notdir $(PAGE)) > $@

$(BUILD)/against_text.c: $(BUILD)/embed runtime/tools/against/client.py
	$(BUILD)/embed against_file runtime/tools/against client.py > $@

# Compiled by the mpicc of the cluster at the first use.
MPI := runtime/mesh/mpi_shim.c runtime/mesh/mesh_library.h
$(BUILD)/mpi_text.c: $(BUILD)/embed $(MPI)
	$(BUILD)/embed mpi_file runtime/mesh $(notdir $(MPI)) > $@

# Unit tests are linked with everything except the main function of the command.
$(BUILD)/libruntime.a: $(filter-out $(BUILD)/runtime/tools/command/main.o,$(RUNTIME_OBJECTS))
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/tests/%: tests/%.c $(BUILD)/libruntime.a $(BUILD)/libmoec_compiler.a
	@mkdir -p $(@D)
	$(CC) $(OURS) $(INCLUDES_tests) $(CFLAGS) $(SANITIZE) -MMD -MP -o $@ $< $(filter %.a,$^) -lcmocka $(LIBS)

# With the bf16 instructions of this CPU, at any speed.
$(BUILD)/tests/unit/test_rounded $(BUILD)/tests/unit/test_panels: CFLAGS += -march=native -DMOEC_FAST_PAIRS=1
$(BUILD)/tests/unit/test_packed $(BUILD)/tests/unit/test_kernels: CFLAGS += -march=native

.PHONY: help
help:
	@sed -n 's/^## \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

.PHONY: units
units: $(UNIT_PROGRAMS)

.PHONY: reproduce-quick
reproduce-quick: all
	MOEC=$(BUILD)/moec OUT=$(BUILD)/reproduce sh examples/reproduce/quick.sh

.PHONY: english
english: all
	MOEC=$(BUILD)/moec OUT=$(BUILD)/english sh examples/english.sh

.PHONY: test
test:
	@.ci/setup test
	@$(MAKE) --no-print-directory $(JOBS) all units
	@BUILD=$(BUILD) CC="$(CC)" tests/run

.PHONY: test-all
test-all: test
	@BUILD=$(BUILD) CC="$(CC)" tests/long.sh

# Published systems in PyTorch, computed again and compared with the committed numbers, then every row as compiled. The setup
# installs Debian's python3-torch unless a Python of PYTHON has torch (`pip install torch`).
PYTHON ?= python3 /usr/bin/python3
.PHONY: test-oracle
test-oracle:
	@PYTHON="$(PYTHON)" .ci/setup oracle
	@$(MAKE) --no-print-directory $(JOBS) all units
	@for python in $(PYTHON); do ! $$python -c 'import torch' 2>/dev/null || break; done; \
	    echo "$$python tests/oracle/oracle.py"; $$python tests/oracle/oracle.py
	$(BUILD)/tests/unit/test_oracle meaning
	$(BUILD)/tests/unit/test_oracle compiled

# Files that are formatted and analyzed; kernels are compiled by other compilers, too, and are formatted by hand.
OWN_SOURCES = $(COMPILER) $(RUNTIME)
.PHONY: compile_commands.json
compile_commands.json: $(BUILD)/parser.h
	@{ start='['; for file in $(OWN_SOURCES); do \
	    case $$file in compiler/*) includes='$(INCLUDES_compiler)' ;; *) includes='$(INCLUDES_runtime)' ;; esac; \
	    printf '%s\n{"directory": "%s", "file": "%s", "command": "%s"}' "$$start" "$(CURDIR)" "$$file" \
	        "$(CC) $(OURS) $$includes $(CFLAGS) -c $$file"; start=,; \
	done; echo; echo ']'; } > $@.part
	@mv $@.part $@

.PHONY: check
check: compile_commands.json
	@for name in layout maps arrows prose json; do echo "$$name"; sh tests/checks/$$name.sh || exit 1; done
	@tests/analyze.sh

.PHONY: format
format:
	clang-format-14 -i $$(git ls-files 'compiler/*.[ch]' 'runtime/*.[ch]' | grep -vE '^runtime/(kernels|standalone)/|cuda_sim.h')

# Line coverage of the default tests. Emitted programs and the child processes of commands count as well.
.PHONY: coverage
coverage:
	@$(MAKE) --no-print-directory $(JOBS) BUILD=build/cov CFLAGS="-O1 -g --coverage" LDFLAGS=--coverage all units
	-@BUILD=build/cov CC="$(CC)" tests/run
	@tests/coverage.sh build/cov

.PHONY: quickstart
quickstart:
	@+JOBS=$(JOBS) BUILD=$(BUILD) sh examples/quickstart.sh

.PHONY: bench
bench: all
	$(BUILD)/moec bench models/gpt2.moe:gpt2_small
	$(BUILD)/moec bench models/gpt2.moe:gpt2_small --mode decode

# A folder with the requirements of tests/gpu.sh on a GPU machine: the command with its libraries inside, specs, scripts. It
# needs a C compiler, the driver and NVRTC, but no flex, bison, jansson, oneDNN or network.
KIT := $(BUILD)/gpu-kit
KIT_LIBS = -Wl,-Bstatic $(filter-out -Wl$(,)--no-as-needed -ldnnl -ldl -lm -lpthread,$(LIBS)) -Wl,-Bdynamic -ldl -lm -lpthread
# Objects that depend on optional libraries are rebuilt without them; all others are those of the command.
KIT_OWN := runtime/device/products.o runtime/tools/server/http.o
KIT_OBJECTS := $(KIT_OWN:%=$(BUILD)/kit-objects/%) \
               $(filter-out $(KIT_OWN:%=$(BUILD)/%),$(RUNTIME_OBJECTS))
$(BUILD)/kit-objects/%.o: %.c $(BUILD)/flags.list
	@mkdir -p $(@D)
	$(CC) $(OURS) $(INCLUDES_runtime) $(CFLAGS) $(SANITIZE) -MMD -MP -c -o $@ $<
$(BUILD)/kit-objects/moec: $(KIT_OBJECTS) $(BUILD)/commit.o $(BUILD)/libmoec_compiler.a
	$(CC) $(CFLAGS) $(if $(HAVE_OPENMP),-fopenmp) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(KIT_LIBS)
.PHONY: gpu-kit
KIT_UNITS := $(BUILD)/tests/unit/test_products $(BUILD)/tests/unit/test_emit_cuda
gpu-kit: $(BUILD)/kit-objects/moec $(KIT_UNITS)
	rm -rf $(KIT)
	install -d $(KIT)/build/tests/unit $(KIT)/build/lib $(KIT)/tests $(KIT)/models $(KIT)/runtime/kernels/cuda $(KIT)/runtime/abi
	install -s $(KIT_UNITS) $(KIT)/build/tests/unit
	ldd $(KIT_UNITS) | sed -n 's,.*=> \(/[^ ]*lib\(cmocka\|jansson\)[^ ]*\) .*,\1,p' | sort -u | xargs -I '{}' install -m 644 '{}' $(KIT)/build/lib
	install -m 644 runtime/kernels/*.h $(KIT)/runtime/kernels
	install -m 644 runtime/kernels/cuda/*.*h $(KIT)/runtime/kernels/cuda
	install -m 644 runtime/abi/*.h $(KIT)/runtime/abi
	install $(BUILD)/kit-objects/moec $(KIT)/build/moec
	strip $(KIT)/build/moec
	install tests/gpu.sh tests/small_models.sh $(KIT)/tests
	install -m 644 tests/gpu_report.py tests/gpu_torch.py tests/*.moe $(KIT)/tests
	install -m 644 models/*.moe $(KIT)/models
	install -m 644 tests/gpu-results/README.md $(KIT)/GPU.md
	install -m 644 README.md $(KIT)
	git rev-parse --short HEAD > $(KIT)/commit || echo unknown > $(KIT)/commit
	@du -sh $(KIT)

.PHONY: setup
setup:
	@.ci/setup build

include runtime/package/package.mk

.PHONY: clean
clean:
	rm -rf build

-include $(COMPILER_OBJECTS:.o=.d) $(RUNTIME_OBJECTS:.o=.d) $(KIT_OWN:%.o=$(BUILD)/kit-objects/%.d) $(UNIT_PROGRAMS:=.d)
