/* mesh_rows */
#include "transform/mesh/mesh.h"
#include "passes.h"
void mesh_rows(Program *program) { (void)program; }
