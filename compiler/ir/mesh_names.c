/* mesh_names: names of mesh axes and of collectives. */
#include "base/must.h"
#include "ir/ir.h"

const char *mesh_axis_name(MeshAxis axis) {
    static const char *const names[] = {[MESH_DATA] = "data", [MESH_EXPERT] = "expert"};
    MUST(axis < MESH_AXES);
    return names[axis];
}

const char *collective_name(CollectiveKind kind) {
    static const char *const names[] = {
        [COLLECTIVE_SUM] = "all-reduce",       [COLLECTIVE_MAX] = "all-reduce (max)",
        [COLLECTIVE_MIN] = "all-reduce (min)", [COLLECTIVE_GATHER] = "all-gather",
        [COLLECTIVE_COUNTS] = "counts",        [COLLECTIVE_DISPATCH] = "dispatch",
        [COLLECTIVE_COMBINE] = "combine"};
    return names[kind];
}
