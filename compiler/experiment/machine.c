/* machine: the declaration of a machine.
 *
 *     machine h100 { gflops = 989400, gbytes = 3350, memory = 80, ... }
 */
#include "experiment/experiment.h"

static const char *const machine_fields[MACHINE_FIELDS] = {
    [MACHINE_GFLOPS] = "gflops",
    [MACHINE_GBYTES] = "gbytes",
    [MACHINE_MEMORY] = "memory",
    [MACHINE_PROCESSES] = "node_processes",
    [MACHINE_NODE_GBYTES] = "node_gbytes",
    [MACHINE_NODE_LATENCY] = "node_latency",
    [MACHINE_NETWORK_GBYTES] = "network_gbytes",
    [MACHINE_NETWORK_LATENCY] = "network_latency",
    [MACHINE_REACHED_GFLOPS] = "reached_gflops",
    [MACHINE_REACHED_GBYTES] = "reached_gbytes",
    [MACHINE_REACHED_NODE] = "reached_node",
    [MACHINE_REACHED_NETWORK] = "reached_network",
    [MACHINE_SPREAD] = "spread",
};

static bool is_fraction(MachineField field) {
    return field >= MACHINE_REACHED_GFLOPS && field <= MACHINE_REACHED_NETWORK;
}

static bool missing_field(Unit *unit, const Node *node, MachineField field) {
    report_error(unit->reports, node->name_span, "machine '%s' has no '%s'", node->name,
                 machine_fields[field]);
    return report_help(unit->reports, "add %s = NUMBER", machine_fields[field]);
}

static bool machine_complete(Unit *unit, const Node *node, const MachineRecord *machine) {
    for (int i = 0; i < MACHINE_FIELDS; i++) {
        const MachineField field = (MachineField)i;
        if (field <= MACHINE_MEMORY && machine->value[i] == 0)
            return missing_field(unit, node, field);
        if (!is_fraction(field) || machine->value[i] <= 1) continue;
        report_error(unit->reports, node->name_span, "'%s' of machine '%s' is above 1",
                     machine_fields[i], node->name);
        return report_help(unit->reports, "write %s as a fraction of the peak", machine_fields[i]);
    }
    return true;
}

bool machine_connects(Unit *unit, const MachineRecord *machine, long processes) {
    const long node = (long)machine->value[MACHINE_PROCESSES];
    if (processes > 1 && node > 1 && machine->value[MACHINE_NODE_GBYTES] == 0)
        return missing_field(unit, machine->node, MACHINE_NODE_GBYTES);
    return processes <= node || machine->value[MACHINE_NETWORK_GBYTES] > 0 ||
           missing_field(unit, machine->node, MACHINE_NETWORK_GBYTES);
}

static const MachineRecord *machine_read(Unit *unit, const Node *node) {
    MachineRecord *machine = arena_alloc(unit->arena, sizeof *machine);
    machine->node = node;
    machine->name = node->name;
    machine->value[MACHINE_PROCESSES] = 1;
    for (int i = 0; i < MACHINE_FIELDS; i++)
        if (is_fraction((MachineField)i)) machine->value[i] = 1;
    Asking asking = {.e = constant_elaborator(unit, node->name)};
    const Node *record = node->kids[0];
    for (int i = 0; i < record->count; i++)
        if (!read_named_numbers(&asking, record->kids[i], machine_fields, MACHINE_FIELDS,
                                machine->value))
            return NULL;
    return machine_complete(unit, node, machine) ? machine : NULL;
}

const MachineRecord *machine_find(Unit *unit, const char *name, Span span, Reports *reports) {
    const List *own = &unit->machines, *standard = &standard_unit(unit)->machines;
    const Node *node = node_called(own, name);
    if (!node) node = node_called(standard, name);
    if (node) return machine_read(unit, node);
    List all = {0};
    list_append(unit->arena, &all, own);
    list_append(unit->arena, &all, standard);
    report_error(reports, span, "unknown machine '%s'", name);
    help_with_names(reports, &all, name, "machines");
    return NULL;
}
