/* domains: the precisions and the domains of inputs of a command line. */
#include "tools/against/against.h"

#include "base/memory.h"
#include "base/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const against_type_names[AGAINST_TYPES] = {"f32", "bf16", "f64"};

static bool read_types(AgainstPlan *plan, const char *text) {
    for (const char *at = text; at && *at;) {
        const size_t length = strcspn(at, ",");
        int type = 0;
        while (type < AGAINST_TYPES && (strlen(against_type_names[type]) != length ||
                                        strncmp(at, against_type_names[type], length) != 0))
            type++;
        if (type == AGAINST_TYPES)
            return error_message("example: --dtypes f32,bf16",
                                 "--dtypes expects f32, bf16 or f64, got '%.*s'", (int)length, at);
        plan->types[type] = true;
        at += length + (at[length] == ',');
    }
    return true;
}

/* Reads "NAME=N", "NAME=documents" or "NAME=LOW..HIGH". */
static bool read_domain(AgainstDomain *domain, const char *text, size_t length) {
    *domain = (AgainstDomain){0};
    char *copy = memory_format("%.*s", (int)length, text), *equals = strchr(copy, '='), *end = NULL;
    bool good = equals && equals != copy && (size_t)(equals - copy) < sizeof domain->name;
    if (good) {
        snprintf(domain->name, sizeof domain->name, "%.*s", (int)(equals - copy), copy);
        const char *value = equals + 1, *dots = strstr(value, "..");
        domain->documents = !strcmp(value, "documents");
        if (dots) {
            domain->low = strtod(value, NULL);
            domain->high = strtod(dots + 2, &end);
            good = !*end && domain->low < domain->high;
        } else if (!domain->documents) {
            domain->integers = strtol(value, &end, 10);
            good = !*end && domain->integers > 0;
        }
    }
    free(copy);
    return good;
}

bool plan_read(AgainstPlan *plan, const AgainstOptions *options) {
    for (const char *at = options->inputs; at && *at;) {
        const size_t length = strcspn(at, ",");
        if (plan->domain_count == DOMAIN_LIMIT ||
            !read_domain(&plan->domains[plan->domain_count++], at, length))
            return error_message("examples: ids=4 (integers below 4), ids=documents, beta=0..1",
                                 "--inputs expects NAME=DOMAIN, got '%.*s'", (int)length, at);
        at += length + (at[length] == ',');
    }
    return read_types(plan, options->dtypes);
}

const AgainstDomain *plan_domain(const AgainstPlan *plan, const char *name) {
    for (int i = 0; i < plan->domain_count; i++)
        if (!strcmp(plan->domains[i].name, name)) return &plan->domains[i];
    return NULL;
}
