# Builds `generate` (decode graph), `train` (train graph) or `draw` (draw graph) for a CUDA device; needs the CUDA toolkit.
#   make ARCH=sm_90a     for one architecture (default: that of the device in this machine)

NVCC ?= nvcc
ARCH ?= native
PROGRAM := $(basename $(wildcard generate.c train.c draw.c))
OBJECTS := $(patsubst %.c,%.o,$(wildcard *.c)) $(patsubst %.cu,%.o,$(wildcard *.cu))

$(PROGRAM): $(OBJECTS)
	$(NVCC) -arch=$(ARCH) -o $@ $(OBJECTS) -lcublasLt -lm

$(OBJECTS): $(wildcard *.h *.cuh)
%.o: %.c
	$(CC) -std=c11 -O2 -I. -c -o $@ $<
%.o: %.cu
	$(NVCC) -std=c++17 -O3 -arch=$(ARCH) -I. -c -o $@ $<

clean:
	rm -f $(PROGRAM) $(OBJECTS)
.PHONY: clean
