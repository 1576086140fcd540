/* Operators of ONNX Runtime in the domain "rmreader". "BiLSTM": gates [T, 8H], weights, scales and starts in, states
   [T, 2H] out; each direction in a thread of its own where the session has two. "Highway": both and x in, o out.

   ONNX Runtime hands its functions over as a table that is only ever added to, so that a place in it is a promise. The
   few that are needed are taken from there by number, and nothing of ONNX Runtime is needed to compile this. */

#include "lstm.h"

#include <stdlib.h>

enum { /* places in the table, API version 17 (ONNX Runtime 1.17) and all later ones */
    FAIL = 0,
    CREATE_DOMAIN = 26,
    ADD_TO_DOMAIN = 27,
    ADD_DOMAIN = 28,
    DATA = 51,
    DIMENSIONS = 62,
    SHAPE = 65,
    INPUT = 90,
    OUTPUT = 91,
    RELEASE_SHAPE = 99,
    PARALLEL = 274,
    VERSION = 17
};

typedef void *Status; /* NULL: all is well */
typedef void (*const *Table)(void);

typedef Status (*Fail)(int code, const char *message);
typedef Status (*CreateDomain)(const char *, void **);
typedef Status (*AddTo)(void *, const void *);
typedef Status (*Data)(const void *value, void **);
typedef Status (*Shape)(const void *value, void **);
typedef Status (*Dimensions)(const void *shape, int64_t *, size_t);
typedef void (*Release)(void *);
typedef Status (*Input)(const void *context, size_t, const void **);
typedef Status (*Output)(void *context, size_t, const int64_t *, size_t, void **);
typedef Status (*Parallel)(const void *context, void (*)(void *, size_t), size_t, size_t, void *);

/* An operator as API version 16 describes it; those who say that they know no more are asked for no more. */
typedef struct Operator {
    uint32_t version;
    void *(*create_v1)(const struct Operator *, Table, const void *);
    const char *(*name)(const struct Operator *);
    const char *(*provider)(const struct Operator *);
    int (*input_type)(const struct Operator *, size_t);
    size_t (*inputs)(const struct Operator *);
    int (*output_type)(const struct Operator *, size_t);
    size_t (*outputs)(const struct Operator *);
    void (*compute_v1)(void *kernel, void *context);
    void (*destroy)(void *kernel);
    int (*input_character)(const struct Operator *, size_t);
    int (*output_character)(const struct Operator *, size_t);
    int (*input_memory)(const struct Operator *, size_t);
    void (*variadic[4])(void);
    Status (*create)(const struct Operator *, Table, const void *, void **kernel);
    Status (*compute)(void *kernel, void *context);
} Operator;

typedef struct {
    Table api;
    int kind;
} Kernel;

typedef struct {
    Job job;
    int kind;
} Task;

static void walk(void *given, size_t direction) {
    const Task *task = given;
    lstm_walk(&task->job, (int)direction, task->kind);
}

/* The data of the first n inputs, and the rows and columns of the first. */
static Status open_inputs(Table api, const void *context, size_t n, void **data, int64_t size[2]) {
    const void *value;
    void *shape;
    Status status;
    for (size_t k = n; k-- > 0;) {
        if ((status = ((Input)api[INPUT])(context, k, &value))) return status;
        if ((status = ((Data)api[DATA])(value, &data[k]))) return status;
    }
    if ((status = ((Shape)api[SHAPE])(value, &shape))) return status;
    status = ((Dimensions)api[DIMENSIONS])(shape, size, 2);
    ((Release)api[RELEASE_SHAPE])(shape);
    return status;
}

static Status open_output(Table api, void *context, int64_t rows, int64_t columns, void **data) {
    const int64_t size[2] = {rows, columns};
    void *value;
    Status status = ((Output)api[OUTPUT])(context, 0, size, 2, &value);
    return status ? status : ((Data)api[DATA])(value, data);
}

static Status compute_bilstm(void *given, void *context) {
    const Kernel *kernel = given;
    void *data[4], *states;
    int64_t size[2];
    Status status = open_inputs(kernel->api, context, 4, data, size);
    if (status || (status = open_output(kernel->api, context, size[0], size[1] / 4, &states))) return status;
    Task task = {{data[0], data[1], data[2], data[3], states, (size_t)size[0], (size_t)size[1] / 8}, kernel->kind};
    return ((Parallel)kernel->api[PARALLEL])(context, walk, 2, 0, &task);
}

static Status compute_highway(void *given, void *context) {
    const Kernel *kernel = given;
    void *data[2], *o;
    int64_t size[2];
    Status status = open_inputs(kernel->api, context, 2, data, size);
    if (status || (status = open_output(kernel->api, context, size[0], size[1] / 2, &o))) return status;
    lstm_highway(data[0], data[1], o, (size_t)size[0], (size_t)size[1] / 2, kernel->kind);
    return NULL;
}

static Status create(const Operator *op, Table api, const void *info, void **made) {
    (void)op, (void)info;
    Kernel *kernel = malloc(sizeof *kernel);
    if (!kernel) return ((Fail)api[FAIL])(1, "out of memory");
    *kernel = (Kernel){api, lstm_best()};
    *made = kernel;
    return NULL;
}

static void destroy(void *kernel) { free(kernel); }
static const char *provider(const Operator *op) { return (void)op, NULL; }               /* the CPU's */
static int usual(const Operator *op, size_t k) { return (void)op, (void)k, 0; }          /* required, in its memory */
static int floats(const Operator *op, size_t k) { return (void)op, (void)k, 1; }         /* as ONNX numbers types */
static int packed(const Operator *op, size_t k) { return (void)op, (int[]){1, 3, 1, 6}[k]; } /* float, int8, int32 */
static const char *bilstm(const Operator *op) { return (void)op, "BiLSTM"; }
static const char *highway(const Operator *op) { return (void)op, "Highway"; }
static size_t one(const Operator *op) { return (void)op, 1; }
static size_t two(const Operator *op) { return (void)op, 2; }
static size_t four(const Operator *op) { return (void)op, 4; }

#define USUAL                                                                                                     \
    .version = 16, .provider = provider, .output_type = floats, .outputs = one, .destroy = destroy, .create = create, \
    .input_character = usual, .output_character = usual, .input_memory = usual

static const Operator operators[] = {
    {USUAL, .name = bilstm, .inputs = four, .input_type = packed, .compute = compute_bilstm},
    {USUAL, .name = highway, .inputs = two, .input_type = floats, .compute = compute_highway},
};

/* ONNX Runtime calls this for every session; a domain lives as long as the process, being a few bytes. */
Status RegisterCustomOps(void *options, const void *const *base) {
    const Table api = (const Table)((const void *(*)(uint32_t))base[0])(VERSION);
    void *domain;
    Status status;
    if (!api) return NULL; /* the session will say that it does not know the operator */
    if ((status = ((CreateDomain)api[CREATE_DOMAIN])("rmreader", &domain))) return status;
    for (size_t k = 0; k < sizeof operators / sizeof *operators; k++)
        if ((status = ((AddTo)api[ADD_TO_DOMAIN])(domain, &operators[k]))) return status;
    return ((AddTo)api[ADD_DOMAIN])(options, domain);
}
