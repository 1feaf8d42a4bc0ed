/* target: the supported machines. */
#include "ir/target.h"

const Target target_processor = {.name = "processor",
                                 .small_work = 20000,
                                 .part_bytes = 1 << 20,
                                 .row_room = 16384,
                                 .column_sums = true,
                                 .vector_loops = true,
                                 .joined_rows = 4,
                                 .products = true,
                                 .attention = true,
                                 .rounded_products = true,
                                 .small_as_f32 = true,
                                 .rounded_heads = 256,
                                 .mask_words = true};

const Target target_device = {.name = "device",
                              .launches = true,
                              .small_work = 1 << 16,
                              .threads = 1 << 16,
                              .part_bytes = 16 << 20,
                              .row_room = 8192,
                              .products = true,
                              .attention = true,
                              .rounded_products = true,
                              .row_products = true,
                              .epilogues = true,
                              .online_softmax = true,
                              .rounded_gradients = true};
