/* mesh: declarations shared by the files of the pass. placement.c decides, mesh.c rewrites,
 * mesh_rows.c divides parameters that rows select. */
#ifndef TRANSFORM_MESH_H
#define TRANSFORM_MESH_H

#include "ir/ir.h"

/* An axis and its part in one process. */
typedef struct LocalAxis {
    Axis *whole, *part;
} LocalAxis;

/* Facts about a tensor while the program is divided. */
typedef struct TensorFacts {
    bool refused;   /* never in terms: its sum is stored */
    bool summed;    /* some statement needs the sum of its terms */
    Block *block;   /* of its definitions */
    Expr *access;   /* its last definition */
    bool scattered; /* the definitions are in several blocks or at several steps */
    int last;       /* number of its last definition */
    Statement *end; /* this definition, or the scan around it */
    int definitions, in_terms;
    Tensor *sum, *gathered; /* copies in every process, once they are made */
} TensorFacts;

typedef struct Division {
    Program *program;
    long size;          /* processes along `data` */
    List axes;          /* LocalAxis * */
    TensorFacts *facts; /* by id of the tensors before the pass */
    int fact_count;
    bool failed; /* an error was reported */
} Division;

/* How a loop statement is divided. */
typedef struct LoopForm {
    Index *local; /* each process runs its part of this loop; NULL: none */
    bool terms;   /* the processes compute terms of the result */
    bool linear;  /* it keeps operands in terms as they are, without a sum */
} LoopForm;

bool over_processes(const Tensor *tensor);
bool is_in_terms(const Tensor *tensor);
/* The subscript of the divided dimension of an access. */
Expr *divided_sub(const Expr *access);
TensorFacts *mesh_facts(const Division *division, const Tensor *tensor);
LoopForm loop_form(const Division *division, const Statement *statement);
/* The index of the divided dimension of the operands of a call, or NULL. */
Index *call_local(const Statement *call);
/* Sets the placement of every tensor, and TensorFacts. */
void place_tensors(Division *division);

/* ---- mesh.c, for mesh_rows.c ---- */

/* The help line where `number` things cannot be divided over an axis of that size: the nearest
 * sizes that divide it, each `times` processes. other: the second proposal. */
void help_with_size(Reports *reports, MeshAxis axis, long number, long size, long times,
                    const char *other);

/* The input with the index of the process along that axis of the mesh. */
Statement *collective_new(Program *program, List *made, CollectiveKind kind, MeshAxis over,
                          Span span, Span asked);

#endif
