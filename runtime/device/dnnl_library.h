/* The oneDNN functions that matrix products use. The library is loaded at the first product: it
 * depends on the C++ and OpenCL libraries, which would add 5 ms to the start of every other
 * command. */
#ifndef DNNL_LIBRARY_H
#define DNNL_LIBRARY_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#if DNNL_VERSION_MAJOR >= 3
#define DNNL_OWN_FUNCTIONS(F)                                                                      \
    F(matmul_primitive_desc_create)                                                                \
    F(memory_desc_create_with_strides)                                                             \
    F(memory_desc_destroy)
#else
#define DNNL_OWN_FUNCTIONS(F)                                                                      \
    F(matmul_desc_init)                                                                            \
    F(memory_desc_init_by_strides)                                                                 \
    F(primitive_desc_create)
#endif

#define DNNL_FUNCTIONS(F)                                                                          \
    DNNL_OWN_FUNCTIONS(F)                                                                          \
    F(engine_create)                                                                               \
    F(engine_destroy)                                                                              \
    F(get_effective_cpu_isa)                                                                       \
    F(memory_create)                                                                               \
    F(memory_desc_get_size)                                                                        \
    F(memory_destroy)                                                                              \
    F(memory_set_data_handle)                                                                      \
    F(post_ops_append_sum)                                                                         \
    F(post_ops_create)                                                                             \
    F(post_ops_destroy)                                                                            \
    F(primitive_attr_create)                                                                       \
    F(primitive_attr_destroy)                                                                      \
    F(primitive_attr_set_post_ops)                                                                 \
    F(primitive_attr_set_scratchpad_mode)                                                          \
    F(primitive_create)                                                                            \
    F(primitive_desc_destroy)                                                                      \
    F(primitive_desc_query)                                                                        \
    F(primitive_desc_query_md)                                                                     \
    F(primitive_destroy)                                                                           \
    F(primitive_execute)                                                                           \
    F(stream_create)                                                                               \
    F(stream_destroy)                                                                              \
    F(stream_wait)

typedef struct DnnlLibrary {
#define DNNL_MEMBER(name) __typeof__(dnnl_##name) *name;
    DNNL_FUNCTIONS(DNNL_MEMBER)
#undef DNNL_MEMBER
} DnnlLibrary;

extern DnnlLibrary dnnl;

/* Fills `dnnl` once. Returns false if the version of the build is not installed; the first failure
 * prints a note. */
bool dnnl_library_open(void);
#endif
