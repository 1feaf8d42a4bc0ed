/* The grammar. Each rule makes one node of tree.h. The parser looks up no names. */

%define api.pure full
%define api.prefix {moe_}
%define api.location.type {Span}
%define parse.error custom
%define parse.lac full
%param {Parser *parser}
%locations
%expect 0

%code requires {
#include "syntax/syntax.h"
}

%code {
#define YYLLOC_DEFAULT(current, parts, count) (current) = join_parts(parts, count)
static Span join_parts(const Span *parts, int count);
static int moe_lex(MOE_STYPE *value, Span *span, Parser *parser);
static void moe_error(const Span *span, Parser *parser, const char *message);

static Node *make(Parser *parser, NodeKind kind, Span span);
static Node *titled(Parser *parser, NodeKind kind, Span span, Word word);
static Node *named(Parser *parser, NodeKind kind, Span span, const Node *path);
static Node *with(Parser *parser, Node *node, Node *kid);
static Node *binary(Parser *parser, Span span, Word operation, Node *left, Node *right);
static void take_all(Parser *parser, Node *node, const Node *list);
}

%union {
    Word token;
    Node *node;
    int flag;
}

%token END "end of file" INVALID "invalid text" RESYNC "resynchronization" START_FILE "a file" START_ENTRY "an entry"
%token <token> NAME "a name" NUMBER "a number" STRING "a string"
%token <token> USE "use" LAYER "layer" OPTIMIZER "optimizer" SCHEDULE "schedule" MODEL "model" EXPERIMENT "experiment"
%token <token> LAYOUT "layout" MACHINE "machine" PARAMETRIZATION "parametrization" KIND "kind"
%token <token> TRANSFER "transfer" FROM "from" VARY "vary" TUNE "tune" BY "by" OPTION "option" AXIS "axis"
%token <token> SEQUENCE "sequence" PARAM "param"
%token <token> STATE "state" INPUT "input" UPDATE "update" LOSS "loss" AUX "aux" PROBE "probe" OUTPUT "output"
%token <token> CACHE "cache" REPEAT "repeat" SCAN "scan" OVER "over" REVERSED "reversed"
%token <token> REFINE "refine" PROVIDE "provide" REQUEST "request" SHARED "shared"
%token <token> IF "if" ELSE "else" MATCH "match" FOR "for" IN "in" REQUIRE "require"
%token <token> SUM "sum" MEAN "mean" MAX "max" MIN "min" LOGSUMEXP "logsumexp" AND "and" OR "or" NOT "not"
%token <token> WAS "was" SUGGEST "suggest" EXTERN "extern"
%token <token> NONE "none" TRUE "true" FALSE "false"
%token <token> EQUAL "==" NOT_EQUAL "!=" AT_MOST "<=" AT_LEAST ">=" '<' '>' '+' '-' '*' '/' '%' '^' ELLIPSIS "..."
%token ARROW "->" CASE_ARROW "=>" RANGE ".."

%type <token> word name target comparison reduction extreme constant
%type <node> plan plan_entries plan_entry paths
%type <node> rows row option_path rule_end otherwise_value rule_condition
%type <node> item formals formal_list formal result results path entry_path optional_record record entries entry
%type <node> value value_power value_exponent value_primary values value_list
%type <node> block statements statement type limits bound default description parameters parameter initial
%type <node> aliases alias alias_list old_name
%type <node> own attributes attribute scanned scanned_states scanned_state begin fallback
%type <flag> shared
%type <node> if_statement otherwise cases case patterns pattern range
%type <node> expr sum power exponent postfix primary binders names arguments expr_list options call_entries call_entry
%type <node> optional_subs subs sub elements element_list setting

/* From loose to tight. A reduction includes everything to its right in the product. */
%left OR
%left AND
%precedence NOT
%left '+' '-'
%precedence REDUCTION
%left '*' '/' '%'
%precedence NEGATION

%%

/* ---- files ---- */

start: START_FILE file END
     | START_ENTRY entry END                            { parser->result = $entry; };

file: %empty                                            { parser->result = make(parser, NODE_FILE, @$); }
    | file item                                         { if ($item) with(parser, parser->result, $item); };

item: USE name                                          { $$ = titled(parser, NODE_USE, @$, $2); }
    | LAYER name formals result aliases block
        { $$ = titled(parser, NODE_LAYER, @$, $2);
          with(parser, with(parser, with(parser, $$, $formals), $result), $block)->aliases = $aliases; }
    | OPTIMIZER name aliases block
        { $$ = with(parser, titled(parser, NODE_OPTIMIZER, @$, $2), $block);
          $$->aliases = $aliases; }
    | SCHEDULE name aliases block
        { $$ = with(parser, titled(parser, NODE_SCHEDULE, @$, $2), $block);
          $$->aliases = $aliases; }
    | PARAMETRIZATION name block
        { $$ = with(parser, titled(parser, NODE_PARAMETRIZATION, @$, $2), $block); }
    | MODEL name '=' name optional_record
        { $$ = titled(parser, NODE_MODEL, @$, $2);
          with(parser, with(parser, $$, titled(parser, NODE_NAME, @4, $4)), $5); }
    | MODEL name '=' name optional_record TRANSFER name optional_record FROM name
        { $$ = titled(parser, NODE_MODEL, @$, $2);
          with(parser, with(parser, $$, titled(parser, NODE_NAME, @4, $4)), $5);
          with(parser, $$, with(parser, titled(parser, NODE_MADE, span_join(@7, @8), $7), $8));
          with(parser, $$, titled(parser, NODE_NAME, @10, $10)); }
    | EXPERIMENT name plan
        { $$ = with(parser, titled(parser, NODE_EXPERIMENT, @$, $2), $plan); }
    | EXPERIMENT name '=' name plan
        { $$ = with(parser, titled(parser, NODE_EXPERIMENT, @$, $2), $plan);
          with(parser, $$, titled(parser, NODE_NAME, @4, $4)); }
    | MACHINE name record
        { $$ = with(parser, titled(parser, NODE_MACHINE, @$, $2), $record); }
    | LAYOUT name FOR name '{' rows '}'
        { $$ = with(parser, titled(parser, NODE_LAYOUT, @$, $2), titled(parser, NODE_NAME, @4, $4));
          $rows->span = span_join(@5, @7);
          with(parser, $$, $rows); }
    | LAYOUT name '=' name '{' rows '}'
        { $$ = with(parser, titled(parser, NODE_LAYOUT, @$, $2), titled(parser, NODE_NAME, @4, $4));
          $rows->span = span_join(@5, @7);
          with(parser, $$, $rows)->number = 1; }
    | error RESYNC                                      { $$ = NULL; yyerrok; };

formals: %empty                                         { $$ = make(parser, NODE_FORMALS, @$); }
       | '(' ')'                                        { $$ = make(parser, NODE_FORMALS, @$); }
       | '(' formal_list ')'                            { $$ = $2; $$->span = @$; };
formal_list: formal
        { $$ = with(parser, make(parser, NODE_FORMALS, @$), $1); }
           | formal_list ',' formal                     { $$ = with(parser, $1, $3); };
formal: name optional_subs
        { $$ = with(parser, titled(parser, NODE_FORMAL, @$, $1), $2); };
/* Further results follow the subscripts of the first. */
result: %empty                                          { $$ = NULL; }
      | results                                         { $$ = $1; };
results: ARROW formal                                   { $$ = $2; }
       | results ',' formal                             { $$ = with(parser, $1, $3); };

/* These keywords can also be names, depending on their position. */
name: NAME | TRANSFER | FROM | VARY | TUNE | BY | OPTION | AXIS | SEQUENCE | PARAM | STATE | INPUT | UPDATE | LOSS | AUX
    | PROBE | OUTPUT | CACHE | REPEAT | SCAN | OVER | REVERSED | USE | LAYER | OPTIMIZER | SCHEDULE | MODEL | EXPERIMENT
    | LAYOUT | MACHINE | PARAMETRIZATION | KIND | WAS | SUGGEST | REFINE | PROVIDE | REQUEST | SHARED | EXTERN;
/* In paths and records no keyword has a meaning. */
word: name | IF | ELSE | MATCH | FOR | IN | REQUIRE | reduction | AND | OR | NOT;
path: word                                              { $$ = titled(parser, NODE_NAME, @$, $1); }
    | path '.' word
        { $$ = with(parser, titled(parser, NODE_FIELD, @$, $3), $1); };
/* A number is the index of an element of a list. */
entry_path: word                                        { $$ = titled(parser, NODE_NAME, @$, $1); }
    | entry_path '.' word
        { $$ = with(parser, titled(parser, NODE_FIELD, @$, $3), $1); }
    | entry_path '.' NUMBER
        { $$ = with(parser, titled(parser, NODE_FIELD, @$, $3), $1); };

/* ---- records ---- */

optional_record: %empty { $$ = NULL; } | record;
record: '{' entries '}'                                 { $$ = $entries; $$->span = @$; };
entries: %empty                                         { $$ = make(parser, NODE_RECORD, @$); }
       | entries entry                                  { $$ = $2 ? with(parser, $1, $2) : $1; }
       | entries entry ','                              { $$ = $2 ? with(parser, $1, $2) : $1; };
entry: entry_path '=' value
        { $$ = with(parser, named(parser, NODE_ENTRY, @$, $entry_path), $value); }
     | error RESYNC                                     { $$ = NULL; yyerrok; };

/* The body of an experiment. */
plan: '{' plan_entries '}'                              { $$ = $2; $$->span = @$; };
plan_entries: %empty                                    { $$ = make(parser, NODE_RECORD, @$); }
            | plan_entries plan_entry                   { $$ = with(parser, $1, $2); }
            | plan_entries plan_entry ','               { $$ = with(parser, $1, $2); }
            | plan_entries entry                        { $$ = $2 ? with(parser, $1, $2) : $1; }
            | plan_entries entry ','                    { $$ = $2 ? with(parser, $1, $2) : $1; };
plan_entry: VARY entry_path '=' value
        { $$ = with(parser, named(parser, NODE_VARY, @$, $entry_path), $value); }
          | VARY record
        { $$ = with(parser, node_named(parser->arena, NODE_VARY, @$, "", @1), $record); }
          | TUNE entry_path '=' value
        { $$ = with(parser, named(parser, NODE_TUNE, @$, $entry_path), $value); }
          | MATCH word BY path
        { $$ = with(parser, titled(parser, NODE_EQUALISE, @$, $2), named(parser, NODE_NAME, @4, $path)); }
          | MATCH word BY '[' paths ']'
        { $$ = with(parser, titled(parser, NODE_EQUALISE, @$, $2), $paths);
          $paths->span = span_join(@4, @6); };
paths: path
        { $$ = with(parser, make(parser, NODE_LIST, @$), named(parser, NODE_NAME, @1, $1)); }
     | paths ',' path
        { $$ = with(parser, $1, named(parser, NODE_NAME, @3, $3)); };

/* The body of a layout. */
rows: %empty                                            { $$ = make(parser, NODE_BLOCK, @$); }
    | rows row                                          { $$ = $2 ? with(parser, $1, $2) : $1; };
row: FROM path '=' value rule_end otherwise_value rule_condition
        { $$ = with(parser, named(parser, NODE_RULE, @$, $path), $value);
          with(parser, with(parser, with(parser, $$, $rule_end), $otherwise_value), $rule_condition); }
   | FROM paths
        { $$ = $paths; $$->kind = NODE_UNREAD; $$->span = @$; }
   | AXIS name '=' expr
        { $$ = with(parser, titled(parser, NODE_AXIS, @$, $2), $4); }
   | USE name                                           { $$ = titled(parser, NODE_USE, @$, $2); }
   | STRING optional_subs '=' expr
        { $$ = with(parser, with(parser, titled(parser, NODE_TENSOR, @$, $1), $2), $4); }
   | option_path '=' value
        { $$ = with(parser, named(parser, NODE_ENTRY, @$, $option_path), $value); }
   | error RESYNC                                       { $$ = NULL; yyerrok; };
/* The path of an option. A row cannot begin with `else` or `in`. */
option_path: name                                       { $$ = titled(parser, NODE_NAME, @$, $1); }
     | option_path '.' word
        { $$ = with(parser, titled(parser, NODE_FIELD, @$, $3), $1); };
/* The pairs of an external and an own word are in a record. */
rule_end: limits
        | IN record
        { $$ = with(parser, make(parser, NODE_LIMITS, @$), $2); };
otherwise_value: %empty { $$ = NULL; } | ELSE value     { $$ = $2; };
rule_condition: %empty { $$ = NULL; }
              | IF path EQUAL name
        { $$ = binary(parser, @$, $3, $path, titled(parser, NODE_NAME, @4, $name)); };

value: value_power
     | value '+' value                                  { $$ = binary(parser, @$, $2, $1, $3); }
     | value '-' value                                  { $$ = binary(parser, @$, $2, $1, $3); }
     | value '*' value                                  { $$ = binary(parser, @$, $2, $1, $3); }
     | value '/' value                                  { $$ = binary(parser, @$, $2, $1, $3); }
     | value '%' value                                  { $$ = binary(parser, @$, $2, $1, $3); }
     | '-' value %prec NEGATION
        { $$ = with(parser, titled(parser, NODE_UNARY, @$, $1), $2); };
value_power: value_primary
           | value_primary '^' value_exponent           { $$ = binary(parser, @$, $2, $1, $3); };
value_exponent: value_power
              | '-' value_exponent
        { $$ = with(parser, titled(parser, NODE_UNARY, @$, $1), $2); };
value_primary:
      NUMBER
        { $$ = titled(parser, NODE_NUMBER, @$, $1); }
    | STRING
        { $$ = titled(parser, NODE_STRING, @$, $1); }
    | constant                                          { $$ = titled(parser, NODE_NAME, @$, $1); }
    | path                                              { $$ = $1; }
    | word record
        { $$ = with(parser, titled(parser, NODE_MADE, @$, $1), $2); }
    | word '(' arguments ')'
        { Node *callee = titled(parser, NODE_NAME, @1, $1);
          $$ = with(parser, with(parser, with(parser, make(parser, NODE_CALL, @$), callee), $3), NULL); }
    | record
    | '[' values ']'                                    { $$ = $2; $$->span = @$; }
    | '(' value ')'                                     { $$ = $2; };
values: %empty                                          { $$ = make(parser, NODE_LIST, @$); }
      | value_list | value_list ',';
value_list: value
        { $$ = with(parser, make(parser, NODE_LIST, @$), $1); }
          | value_list ',' value                        { $$ = with(parser, $1, $3); };
constant: NONE | TRUE | FALSE;

/* ---- statements ---- */

block: '{' statements '}'                               { $$ = $2; $$->span = @$; };
statements: %empty                                      { $$ = make(parser, NODE_BLOCK, @$); }
          | statements statement                        { $$ = $1; if ($2) with(parser, $$, $2); }
          | statements parameters                       { $$ = $1; take_all(parser, $$, $2); };

statement:
      OPTION path ':' type limits default description aliases
        { $$ = with(parser, with(parser, named(parser, NODE_OPTION, @$, $path), $type), $limits);
          with(parser, with(parser, $$, $default), $description)->aliases = $aliases; }
    | AXIS name '=' expr
        { $$ = with(parser, titled(parser, NODE_AXIS, @$, $2), $4); }
    | SEQUENCE name '=' expr
        { $$ = with(parser, titled(parser, NODE_SEQUENCE, @$, $2), $4); }
    | STATE name optional_subs '=' expr
        { $$ = with(parser, with(parser, titled(parser, NODE_STATE, @$, $2), $3), $5); }
    | INPUT name optional_subs ':' name fallback
        { $$ = with(parser, titled(parser, NODE_INPUT, @$, $2), $3);
          with(parser, with(parser, $$, titled(parser, NODE_NAME, @5, $5)), $fallback); }
    | target optional_subs '=' expr
        { $$ = with(parser, with(parser, titled(parser, NODE_EQUATION, @$, $1), $2), $4); }
    | UPDATE name optional_subs '=' expr
        { $$ = with(parser, with(parser, titled(parser, NODE_UPDATE, @$, $2), $3), $5); }
    | REFINE name optional_subs '=' expr
        { $$ = with(parser, with(parser, titled(parser, NODE_REFINE, @$, $2), $3), $5); }
    | LOSS '=' expr
        { $$ = with(parser, make(parser, NODE_LOSS, @$), $3); }
    | AUX name '=' expr
        { $$ = with(parser, titled(parser, NODE_AUX, @$, $2), $4); }
    | PROBE name optional_subs '=' expr aliases
        { $$ = with(parser, with(parser, titled(parser, NODE_PROBE, @$, $2), $3), $5);
          $$->aliases = $aliases; }
    | OUTPUT name
        { $$ = titled(parser, NODE_OUTPUT, @$, $2); }
    | CACHE name                                        { $$ = titled(parser, NODE_CACHE, @$, $2); }
    | PROVIDE name optional_subs '=' expr
        { $$ = with(parser, with(parser, titled(parser, NODE_PROVIDE, @$, $2), $3), $5); }
    | REQUEST name optional_subs fallback
        { $$ = with(parser, with(parser, titled(parser, NODE_REQUEST, @$, $2), $3), $4); }
    | REPEAT name '[' name '<' expr ']' shared block
        { $$ = with(parser, titled(parser, NODE_REPEAT, @$, $2), titled(parser, NODE_NAME, @4, $4));
          with(parser, with(parser, $$, $expr), $block)->number = $shared; }
    | SCAN scanned_states OVER name scanned block
        { $$ = with(parser, titled(parser, NODE_SCAN, @$, $4), $2);
          with(parser, with(parser, $$, $scanned), $block); }
    | KIND name block
        { $$ = with(parser, with(parser, titled(parser, NODE_KIND, @$, $2), NULL), $3); }
    | KIND name IF expr block
        { $$ = with(parser, with(parser, titled(parser, NODE_KIND, @$, $2), $4), $5); }
    | if_statement
    | MATCH expr '{' cases '}'
        { $$ = with(parser, make(parser, NODE_MATCH, @$), $expr); take_all(parser, $$, $cases); }
    | FOR name IN range block
        { $$ = with(parser, with(parser, titled(parser, NODE_FOR, @$, $2), $range), $block); }
    | REQUIRE expr STRING
        { $$ = with(parser, make(parser, NODE_REQUIRE, @$), $expr);
          with(parser, $$, titled(parser, NODE_STRING, @3, $3)); }
    | EXTERN name STRING own
        { $$ = with(parser, titled(parser, NODE_EXTERN, @$, $2), titled(parser, NODE_STRING, @3, $3));
          with(parser, $$, $own); }
    | error RESYNC                                      { $$ = NULL; yyerrok; };

/* Names that an equation can define. Keywords that begin an item are excluded, which locates a missing '}'. */
target: NAME | TRANSFER | FROM | VARY | TUNE | BY | OPTION | AXIS | SEQUENCE | PARAM | STATE | INPUT | UPDATE | AUX | PROBE
      | OUTPUT | CACHE | REPEAT | SCAN | OVER | REVERSED | KIND | REFINE | PROVIDE | REQUEST | SHARED | EXTERN;

type: word                                              { $$ = titled(parser, NODE_TYPE, @$, $1); };
limits: %empty                                          { $$ = NULL; }
      | IN '[' values ']'
        { $$ = with(parser, make(parser, NODE_LIMITS, @$), $3); }
      | IN bound RANGE bound
        { Node *both = with(parser, with(parser, make(parser, NODE_RANGE, span_join(@2, @4)), $2), $4);
          $$ = with(parser, make(parser, NODE_LIMITS, @$), both); };
/* A bound is a plain number or in parentheses: after '1..' a name begins the next statement. */
bound: %empty                                           { $$ = NULL; }
     | NUMBER
        { $$ = titled(parser, NODE_NUMBER, @$, $1); }
     | '-' NUMBER
        { $$ = with(parser, node_named(parser->arena, NODE_UNARY, @$, "-", @1),
                    titled(parser, NODE_NUMBER, @2, $2)); }
     | '(' value ')'                                    { $$ = $2; };
default: %empty { $$ = NULL; } | '=' value              { $$ = $2; };
description: %empty
        { $$ = NULL; } | STRING             { $$ = titled(parser, NODE_STRING, @$, $1); };
/* was [tied, halves => half]: old names and old values. suggest [d_model]: names that get a suggestion only. */
aliases: %empty { $$ = NULL; }
       | aliases alias
        { $$ = $1 ? $1 : make(parser, NODE_ALIASES, @$);
          take_all(parser, $$, $alias); };
alias: WAS '[' alias_list ']'                           { $$ = $3; }
     | SUGGEST '[' alias_list ']'
        { $$ = $3;
          for (int i = 0; i < $$->count; i++) $$->kids[i]->number = 1; };
alias_list: old_name
        { $$ = with(parser, make(parser, NODE_LIST, @$), $1); }
          | alias_list ',' old_name                     { $$ = with(parser, $1, $3); };
old_name: path                                          { $$ = named(parser, NODE_ALIAS, @$, $path); }
        | path CASE_ARROW value
        { $$ = with(parser, named(parser, NODE_ALIAS, @$, $path), $value); };

parameters: PARAM parameter
        { $$ = with(parser, make(parser, NODE_LIST, @$), $2); $2->span = @$; }
          | parameters ',' parameter                    { $$ = with(parser, $1, $3); };
parameter: name optional_subs initial own
        { $$ = with(parser, titled(parser, NODE_PARAM, @$, $1), $2 ? $2 : make(parser, NODE_SUBS, @2));
          with(parser, with(parser, $$, $initial), $own); };
initial: %empty { $$ = NULL; } | '~' expr               { $$ = $2; };
own: %empty { $$ = NULL; } | '{' attributes '}'         { $$ = $2; $$->span = @$; };
attributes: attribute
        { $$ = make(parser, NODE_RECORD, @$);
          if ($1) with(parser, $$, $1); }
          | attributes ',' attribute                    { $$ = $3 ? with(parser, $1, $3) : $1; };
attribute: error RESYNC                                 { $$ = NULL; yyerrok; }
         | word
        { $$ = with(parser, titled(parser, NODE_ENTRY, @$, $1), NULL); }
         | word '=' expr
        { $$ = with(parser, titled(parser, NODE_ENTRY, @$, $1), $3); };

/* The states of a scan with their initial values. */
scanned_states: scanned_state
        { $$ = with(parser, make(parser, NODE_LIST, @$), $1); }
              | scanned_states ',' scanned_state        { $$ = with(parser, $1, $3); };
scanned_state: name optional_subs begin
        { $$ = with(parser, with(parser, titled(parser, NODE_STATE, @$, $1), $2), $3); };
begin: %empty { $$ = NULL; } | FROM expr                { $$ = $2; };
scanned: %empty { $$ = NULL; } | REVERSED               { $$ = titled(parser, NODE_NAME, @$, $1); };

/* The value of a name that no layer provides, or of an input that is not given. */
fallback: %empty { $$ = NULL; } | '=' expr              { $$ = $2; };
shared: %empty { $$ = 0; } | SHARED                     { $$ = 1; };

if_statement: IF expr block
        { $$ = with(parser, with(parser, with(parser, make(parser, NODE_IF, @$), $2), $3), NULL); }
            | IF expr block ELSE otherwise
        { $$ = with(parser, with(parser, with(parser, make(parser, NODE_IF, @$), $2), $3), $5); };
otherwise: block | if_statement;

cases: %empty                                           { $$ = make(parser, NODE_LIST, @$); }
     | cases case                                       { $$ = $2 ? with(parser, $1, $2) : $1; };
case: patterns CASE_ARROW block
        { $$ = with(parser, with(parser, make(parser, NODE_CASE, @$), $1), $3); }
    | ELSE CASE_ARROW block
        { $$ = with(parser, with(parser, make(parser, NODE_CASE, @$), make(parser, NODE_LIST, @1)), $3); }
    | error RESYNC                                      { $$ = NULL; yyerrok; };
patterns: pattern
        { $$ = with(parser, make(parser, NODE_LIST, @$), $1); }
        | patterns ',' pattern                          { $$ = with(parser, $1, $3); };
pattern: name                                           { $$ = titled(parser, NODE_NAME, @$, $1); }
       | reduction                                      { $$ = titled(parser, NODE_NAME, @$, $1); }
       | constant                                       { $$ = titled(parser, NODE_NAME, @$, $1); }
       | NUMBER
        { $$ = titled(parser, NODE_NUMBER, @$, $1); };

range: expr
     | expr RANGE expr
        { $$ = with(parser, with(parser, make(parser, NODE_RANGE, @$), $1), $3); };

/* ---- expressions ---- */

expr: sum
    | sum comparison sum                                { $$ = binary(parser, @$, $2, $1, $3); }
    | NOT expr
        { $$ = with(parser, titled(parser, NODE_UNARY, @$, $1), $2); }
    | expr AND expr                                     { $$ = binary(parser, @$, $2, $1, $3); }
    | expr OR expr                                      { $$ = binary(parser, @$, $2, $1, $3); };
comparison: EQUAL | NOT_EQUAL | '<' | '>' | AT_MOST | AT_LEAST;
sum: power
   | sum '+' sum                                        { $$ = binary(parser, @$, $2, $1, $3); }
   | sum '-' sum                                        { $$ = binary(parser, @$, $2, $1, $3); }
   | sum '*' sum                                        { $$ = binary(parser, @$, $2, $1, $3); }
   | sum '/' sum                                        { $$ = binary(parser, @$, $2, $1, $3); }
   | sum '%' sum                                        { $$ = binary(parser, @$, $2, $1, $3); }
   | '-' sum %prec NEGATION
        { $$ = with(parser, titled(parser, NODE_UNARY, @$, $1), $2); }
   | reduction '[' binders ']' sum %prec REDUCTION
        { $$ = with(parser, with(parser, titled(parser, NODE_REDUCE, @$, $1), $binders), $5); };
power: postfix
     | postfix '^' exponent                             { $$ = binary(parser, @$, $2, $1, $3); };
exponent: power
        | '-' exponent
        { $$ = with(parser, titled(parser, NODE_UNARY, @$, $1), $2); };

postfix: primary
       | postfix '(' arguments options ')'
        { $$ = with(parser, with(parser, with(parser, make(parser, NODE_CALL, @$), $1), $3), $4); }
       | postfix '[' subs ']'
        { $subs->span = span_join(@2, @4);
          $$ = with(parser, with(parser, make(parser, NODE_INDEXED, @$), $1), $subs); }
       | postfix '.' word
        { $$ = with(parser, titled(parser, NODE_FIELD, @$, $3), $1); };

primary: NUMBER
        { $$ = titled(parser, NODE_NUMBER, @$, $1); }
       | STRING
        { $$ = titled(parser, NODE_STRING, @$, $1); }
       | constant                                       { $$ = titled(parser, NODE_NAME, @$, $1); }
       | name                                           { $$ = titled(parser, NODE_NAME, @$, $1); }
       | name '@' word
        { $$ = with(parser, titled(parser, NODE_LABELLED, @$, $1), titled(parser, NODE_NAME, @3, $3)); }
       | extreme '(' arguments options ')'
        { $$ = with(parser, make(parser, NODE_CALL, @$), titled(parser, NODE_NAME, @1, $1));
          with(parser, with(parser, $$, $3), $4); }
       | '(' expr ')'                                   { $$ = $2; }
       | '[' elements ']'                               { $$ = $2; $$->span = @$; };

reduction: SUM | MEAN | MAX | MIN | LOGSUMEXP;
extreme: MAX | MIN;

binders: names                                          { $$ = $1; }
       | names IN expr
        { $$ = with(parser, $1, $3); $$->span = @$; $$->number = 1; };
names: name
        { $$ = with(parser, make(parser, NODE_BINDERS, @$), titled(parser, NODE_NAME, @1, $1)); }
     | names ',' name
        { $$ = with(parser, $1, titled(parser, NODE_NAME, @3, $3)); };

arguments: %empty                                       { $$ = make(parser, NODE_LIST, @$); }
         | expr_list | expr_list ',';
expr_list: expr
        { $$ = with(parser, make(parser, NODE_LIST, @$), $1); }
         | expr_list ',' expr                           { $$ = with(parser, $1, $3); };

/* An option of a layer call, or an element of a list. Records and layers with options are accepted as in a record. */
elements: %empty                                        { $$ = make(parser, NODE_LIST, @$); }
        | element_list | element_list ',';
element_list: setting
        { $$ = with(parser, make(parser, NODE_LIST, @$), $1); }
            | element_list ',' setting                  { $$ = with(parser, $1, $3); };
setting: expr | record
       | name record
        { $$ = with(parser, titled(parser, NODE_MADE, @$, $1), $2); };

options: %empty { $$ = NULL; } | ';' call_entries       { $$ = $2; };
call_entries: call_entry
        { $$ = with(parser, make(parser, NODE_RECORD, @$), $1); }
            | call_entries ',' call_entry               { $$ = with(parser, $1, $3); };
call_entry: path '=' setting
        { $$ = with(parser, named(parser, NODE_ENTRY, @$, $1), $3); };

optional_subs: %empty                                   { $$ = NULL; }
             | '[' subs ']'                             { $$ = $2; $$->span = @$; };
subs: sub
        { $$ = with(parser, make(parser, NODE_SUBS, @$), $1); }
    | subs ',' sub                                      { $$ = with(parser, $1, $3); };
sub: expr
   | '(' name ',' names ')'
        { $$ = with(parser, make(parser, NODE_TUPLE, @$), titled(parser, NODE_NAME, @2, $2));
          take_all(parser, $$, $names); }
   | ELLIPSIS                                           { $$ = make(parser, NODE_ELLIPSIS, @$); };

%%

static Span join_parts(const Span *parts, int count)
{
    if (count > 0) {
        /* Empty parts are located at the end of the previous token; they must not extend the whole. */
        Span whole = parts[count];
        for (int i = count; i >= 1; i--)
            if (parts[i].end > parts[i].start) whole = span_join(parts[i], whole);
        return whole;
    }
    return (Span){parts[0].source, parts[0].end, parts[0].end};
}

static Node *make(Parser *parser, NodeKind kind, Span span)
{
    return node_new(parser->arena, kind, span);
}

/* A node with the text, number and location of a token. */
static Node *titled(Parser *parser, NodeKind kind, Span span, Word word)
{
    Span name_span = {parser->source, word.start, word.end};
    Node *node = node_named(parser->arena, kind, span, word.text, name_span);
    node->number = word.number;
    return node;
}

static void add_path(Text *text, const Node *path)
{
    if (path->kind == NODE_FIELD) {
        add_path(text, path->kids[0]);
        text_add(text, ".");
    }
    text_add(text, "%s", path->name);
}

/* A node named by a path, "attention.heads.q". */
static Node *named(Parser *parser, NodeKind kind, Span span, const Node *path)
{
    Text text = {.arena = parser->arena};
    if (path->depth <= MAX_DEPTH) add_path(&text, path);
    return node_named(parser->arena, kind, span, text.text, path->span);
}

static Node *with(Parser *parser, Node *node, Node *kid)
{
    node_add(parser->arena, node, kid);
    if (node->depth > MAX_DEPTH && !parser->stopped) {
        report_error(parser->reports, kid->span, "nesting is deeper than %d levels", MAX_DEPTH);
        report_help(parser->reports, "assign inner expressions to names in separate equations");
        parser->stopped = true;
    }
    return node;
}

static Node *binary(Parser *parser, Span span, Word operation, Node *left, Node *right)
{
    return with(parser, with(parser, titled(parser, NODE_BINARY, span, operation), left), right);
}

static void take_all(Parser *parser, Node *node, const Node *list)
{
    for (int i = 0; i < list->count; i++) with(parser, node, list->kids[i]);
}

static int moe_lex(MOE_STYPE *value, Span *span, Parser *parser)
{
    Token token = next_token(parser);
    *span = token.span;
    value->token = (Word){token.text, token.number, span->start, span->end};
    return token.kind;
}

static int yyreport_syntax_error(const yypcontext_t *context, Parser *parser)
{
    enum { MAX_TOKENS = YYNTOKENS };
    yysymbol_kind_t kinds[MAX_TOKENS];
    const char *names[MAX_TOKENS];
    int count = yypcontext_expected_tokens(context, kinds, MAX_TOKENS);
    for (int i = 0; i < count; i++) names[i] = yysymbol_name(kinds[i]);
    report_expected(parser, names, count > 0 ? count : 0, yysymbol_name(yypcontext_token(context)));
    return 0;
}

/* Called for errors other than syntax errors: the parser stack is full. */
static void moe_error(const Span *span, Parser *parser, const char *message)
{
    (void)message;
    if (!parser->stopped) {
        report_error(parser->reports, *span, "the nesting is too deep");
        report_help(parser->reports, "split it into several statements");
    }
    parser->stopped = true;
}
