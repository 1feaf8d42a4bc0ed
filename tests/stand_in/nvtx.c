/* A library with the functions of NVTX: writes the ranges to the file NVTX_LOG, indented by their depth. */
#include <stdio.h>
#include <stdlib.h>

static int depth;

int nvtxRangePushA(const char *name)
{
    FILE *file = fopen(getenv("NVTX_LOG"), "a");
    if (file) fprintf(file, "%*s%s\n", 2 * depth, "", name);
    if (file) fclose(file);
    return depth++;
}

int nvtxRangePop(void)
{
    return --depth;
}
