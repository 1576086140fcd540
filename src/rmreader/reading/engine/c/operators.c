/* Operators of ONNX Runtime in the domain "rmreader", each with what native.h says of it:
     BiLSTM: gates, weights, scales, starts -> states; each direction in a thread of its own where the session has two.
     Highway: both, x -> o.
     Linear: x, weights, scales, bias, starts, [columns] -> y.
     Align: queries and more, keys, values, x, [columns where queries, keys and more begin, width, diagonal], gamma,
     weights, scales, bias, starts -> o, attention, next_down. Realign: S and down as well.
     Point: R, s, of_s, weight, weights, scales, bias, starts -> logits.
     Norm: x, scale, bias, epsilon -> y.
     EncoderLayer: x, mixed, share, four matrices (weights, scales, bias, starts each: queries, keys and values; what was attended to;
     inner; outer), two norms (scale, bias each), epsilon, [heads, columns of inner] -> y, mix.

   ONNX Runtime hands its functions over as a table that is only ever added to, so that a place in it is a promise. The
   few that are needed are taken from there by number, and nothing of ONNX Runtime is needed to compile this. */

#include "native.h"

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
    size_t inputs;
    int kind; /* of processor */
} Kernel;

typedef struct {
    const void *job;
    int kind;
} Task;

/* All inputs, and rows and columns of the first few. */
static Status open_inputs(const Kernel *kernel, const void *context, const void **data, size_t few, int64_t size[][2]) {
    const Table api = kernel->api;
    Status status = NULL;
    for (size_t k = 0; k < kernel->inputs && !status; k++) {
        const void *value;
        void *shape, *found;
        if ((status = ((Input)api[INPUT])(context, k, &value)) || (status = ((Data)api[DATA])(value, &found))) break;
        data[k] = found;
        if (k >= few || (status = ((Shape)api[SHAPE])(value, &shape))) continue;
        status = ((Dimensions)api[DIMENSIONS])(shape, size[k], 2);
        ((Release)api[RELEASE_SHAPE])(shape);
    }
    return status;
}

static Status open_output(Table api, void *context, size_t k, size_t rows, size_t columns, void **data) {
    const int64_t size[2] = {(int64_t)rows, (int64_t)columns};
    void *value;
    Status status = ((Output)api[OUTPUT])(context, k, size, 2, &value);
    return status ? status : ((Data)api[DATA])(value, data);
}

static Status side_by_side(Table api, void *context, void (*work)(void *, size_t), size_t count, Task *task) {
    return ((Parallel)api[PARALLEL])(context, work, count, 0, task);
}

static void walk(void *given, size_t direction) {
    const Task *task = given;
    lstm_walk(task->job, (int)direction, task->kind);
}

static void panel(void *given, size_t number) {
    const Task *task = given;
    linear_panel(task->job, number, task->kind);
}

static void rows(void *given, size_t block) {
    const Task *task = given;
    align_rows(task->job, block, task->kind);
}

static void columns(void *given, size_t group) {
    const Task *task = given;
    align_columns(task->job, group, task->kind);
}

static void point(void *given, size_t block) {
    const Task *task = given;
    point_rows(task->job, block, task->kind);
}

static void project(void *given, size_t part) {
    const Task *task = given;
    layer_project(task->job, part, task->kind);
}

static void head(void *given, size_t number) {
    const Task *task = given;
    layer_head(task->job, number, task->kind);
}

static void rest(void *given, size_t part) {
    const Task *task = given;
    layer_rest(task->job, part, task->kind);
}

static Status compute_bilstm(void *given, void *context) {
    const Kernel *kernel = given;
    const void *data[4];
    void *states;
    int64_t size[1][2];
    Status status = open_inputs(kernel, context, data, 1, size);
    if (status) return status;
    const size_t T = (size_t)size[0][0], H = (size_t)size[0][1] / 8;
    if ((status = open_output(kernel->api, context, 0, T, 2 * H, &states))) return status;
    const Lstm job = {data[0], data[1], data[2], data[3], states, T, H};
    return side_by_side(kernel->api, context, walk, 2, &(Task){&job, kernel->kind});
}

static Status compute_highway(void *given, void *context) {
    const Kernel *kernel = given;
    const void *data[2];
    void *o;
    int64_t size[2][2];
    Status status = open_inputs(kernel, context, data, 2, size);
    if (status) return status;
    const size_t m = (size_t)size[1][0], w = (size_t)size[1][1];
    if ((status = open_output(kernel->api, context, 0, m, w, &o))) return status;
    lstm_highway(data[0], data[1], o, m, w, kernel->kind);
    return NULL;
}

static Status compute_linear(void *given, void *context) {
    const Kernel *kernel = given;
    const void *data[6];
    void *y;
    int64_t size[1][2];
    Status status = open_inputs(kernel, context, data, 1, size);
    if (status) return status;
    const size_t m = (size_t)size[0][0], inner = (size_t)size[0][1], out = (size_t) * (const int32_t *)data[5];
    if ((status = open_output(kernel->api, context, 0, m, out, &y))) return status;
    Linear job = {.W = {data[1], data[2], data[3], data[4], inner, out}, .given = data[0], .y = y, .m = m};
    void *memory = native_memory(linear_size(&job));
    if (!memory) return ((Fail)kernel->api[FAIL])(1, "out of memory");
    linear_start(&job, memory, kernel->kind);
    status = side_by_side(kernel->api, context, panel, linear_panels(&job), &(Task){&job, kernel->kind});
    free(memory);
    return status;
}

static Status compute_align(void *given, void *context) {
    const Kernel *kernel = given;
    const void *data[12] = {0};
    void *made[3];
    int64_t size[4][2];
    Status status = open_inputs(kernel, context, data, 4, size);
    if (status) return status;
    const size_t m = (size_t)size[0][0], p = (size_t)size[1][0], w = (size_t)size[3][1];
    const float *first = data[0], *keys = data[1];
    const int32_t *at = data[4];
    if ((status = open_output(kernel->api, context, 0, m, w, &made[0])) ||
        (status = open_output(kernel->api, context, 1, up(m, ROWS), up(p, 2), &made[1])) ||
        (status = open_output(kernel->api, context, 2, (m + 1) / 2, 4 * up(p, LANES), &made[2])))
        return status;
    Align job = {
        .queries = first + at[0], .keys = keys + at[1], .more = first + at[2], .values = data[2], .x = data[3],
        .W = {data[6], data[7], data[8], data[9], 2 * w, 2 * w}, .S = data[10], .down = data[11], .o = made[0],
        .attention = made[1], .next_down = made[2], .gamma = *(const float *)data[5], .diagonal = at[4], .m = m, .p = p,
        .w = w, .width = (size_t)at[3], .queries_apart = (size_t)size[0][1], .keys_apart = (size_t)size[1][1]};
    void *memory = native_memory(align_size(&job));
    if (!memory) return ((Fail)kernel->api[FAIL])(1, "out of memory");
    align_start(&job, memory, kernel->kind);
    Task task = {&job, kernel->kind};
    status = side_by_side(kernel->api, context, rows, align_blocks(&job), &task);
    if (!status) status = side_by_side(kernel->api, context, columns, align_groups(&job), &task);
    free(memory);
    return status;
}

static Status compute_point(void *given, void *context) {
    const Kernel *kernel = given;
    const void *data[8];
    void *logits;
    int64_t size[3][2];
    Status status = open_inputs(kernel, context, data, 3, size);
    if (status) return status;
    const size_t m = (size_t)size[0][0], w = (size_t)size[0][1], out = (size_t)size[2][1];
    if ((status = open_output(kernel->api, context, 0, 1, m, &logits))) return status;
    const Point job = {.W = {data[4], data[5], data[6], data[7], 2 * w, out}, .R = data[0], .s = data[1],
                       .of_s = data[2], .weight = data[3], .logits = logits, .m = m, .w = w};
    return side_by_side(kernel->api, context, point, point_blocks(&job), &(Task){&job, kernel->kind});
}

static Status compute_norm(void *given, void *context) {
    const Kernel *kernel = given;
    const void *data[4];
    void *y;
    int64_t size[1][2];
    Status status = open_inputs(kernel, context, data, 1, size);
    if (status) return status;
    const size_t s = (size_t)size[0][0], n = (size_t)size[0][1];
    if ((status = open_output(kernel->api, context, 0, s, n, &y))) return status;
    norm_rows(data[0], s, n, (Norm){data[1], data[2]}, *(const float *)data[3], y, kernel->kind);
    return NULL;
}

static Matrix matrix(const void *const *data, size_t inner, size_t columns) {
    return (Matrix){data[0], data[1], data[2], data[3], inner, columns};
}

static Status compute_layer(void *given, void *context) {
    const Kernel *kernel = given;
    const void *data[25];
    void *made[2];
    int64_t size[1][2];
    Status status = open_inputs(kernel, context, data, 1, size);
    if (status) return status;
    const size_t s = (size_t)size[0][0], width = (size_t)size[0][1];
    const int32_t *sizes = data[24];
    const size_t heads = (size_t)sizes[0], inner = (size_t)sizes[1];
    for (size_t k = 0; k < 2; k++)
        if ((status = open_output(kernel->api, context, k, s, width, &made[k]))) return status;
    const void *const *weights = data + 3, *const *norms = data + 19;
    Layer job = {
        .x = data[0], .mixed = data[1], .share = *(const float *)data[2],
        .queries_keys_values = matrix(weights, width, 3 * width), .attended = matrix(weights + 4, width, width),
        .inner = matrix(weights + 8, width, inner), .outer = matrix(weights + 12, inner, width),
        .norms = {{norms[0], norms[1]}, {norms[2], norms[3]}}, .epsilon = *(const float *)data[23], .y = made[0],
        .mix = made[1], .s = s, .width = width, .heads = heads};
    void *memory = native_memory(layer_size(&job));
    if (!memory) return ((Fail)kernel->api[FAIL])(1, "out of memory");
    layer_start(&job, memory);
    Task task = {&job, kernel->kind};
    status = side_by_side(kernel->api, context, project, PARTS, &task);
    if (!status) status = side_by_side(kernel->api, context, head, heads, &task);
    if (!status) status = side_by_side(kernel->api, context, rest, PARTS, &task);
    free(memory);
    return status;
}

static Status create(const Operator *op, Table api, const void *info, void **made) {
    (void)info;
    Kernel *kernel = malloc(sizeof *kernel);
    if (!kernel) return ((Fail)api[FAIL])(1, "out of memory");
    *kernel = (Kernel){api, op->inputs(op), lstm_best()};
    *made = kernel;
    return NULL;
}

static void destroy(void *kernel) { free(kernel); }
static const char *provider(const Operator *op) { return (void)op, NULL; }      /* the CPU's */
static int usual(const Operator *op, size_t k) { return (void)op, (void)k, 0; } /* required, in its memory */

enum { F = 1, U8 = 2, I8 = 3, U16 = 4, I32 = 6 }; /* as ONNX numbers types */
#define TYPES(name, ...) \
    static int name(const Operator *op, size_t k) { return (void)op, (const int[]){__VA_ARGS__}[k]; }

TYPES(floats, F, F)
TYPES(bilstm_types, F, I8, F, I32)
TYPES(linear_types, F, I8, F, F, I32, I32)
TYPES(align_types, F, F, F, F, I32, F, I8, F, F, I32, U16, U8)
TYPES(aligned_types, F, U16, U8)
TYPES(point_types, F, F, F, F, I8, F, F, I32)

TYPES(norm_types, F, F, F, F)
TYPES(layer_types, F, F, F, I8, F, F, I32, I8, F, F, I32, I8, F, F, I32, I8, F, F, I32, F, F, F, F, F, I32)

#define OPERATOR(NAME, INPUTS, TYPES, OUTPUTS, MADE, COMPUTE)                                                        \
    static const char *NAME##_name(const Operator *op) { return (void)op, #NAME; }                                \
    static size_t NAME##_inputs(const Operator *op) { return (void)op, INPUTS; }                                  \
    static size_t NAME##_outputs(const Operator *op) { return (void)op, OUTPUTS; }                                \
    static const Operator NAME##_operator = {.version = 16, .provider = provider, .destroy = destroy, .create = create,      \
                                  .input_character = usual, .output_character = usual, .input_memory = usual,     \
                                  .name = NAME##_name, .inputs = NAME##_inputs, .input_type = TYPES,              \
                                  .outputs = NAME##_outputs, .output_type = MADE, .compute = COMPUTE}

OPERATOR(BiLSTM, 4, bilstm_types, 1, floats, compute_bilstm);
OPERATOR(Highway, 2, floats, 1, floats, compute_highway);
OPERATOR(Linear, 6, linear_types, 1, floats, compute_linear);
OPERATOR(Align, 10, align_types, 3, aligned_types, compute_align);
OPERATOR(Realign, 12, align_types, 3, aligned_types, compute_align);
OPERATOR(Point, 8, point_types, 1, floats, compute_point);
OPERATOR(Norm, 4, norm_types, 1, floats, compute_norm);
OPERATOR(EncoderLayer, 25, layer_types, 2, floats, compute_layer);

/* ONNX Runtime calls this for every session; a domain lives as long as the process, being a few bytes. */
Status RegisterCustomOps(void *options, const void *const *base) {
    const Table api = (const Table)((const void *(*)(uint32_t))base[0])(VERSION);
    void *domain;
    Status status;
    if (!api) return NULL; /* the session will say that it does not know the operator */
    if ((status = ((CreateDomain)api[CREATE_DOMAIN])("rmreader", &domain))) return status;
    const Operator *const operators[] = {&BiLSTM_operator, &Highway_operator, &Linear_operator, &Align_operator,
                                         &Realign_operator, &Point_operator, &Norm_operator, &EncoderLayer_operator};
    for (size_t k = 0; k < sizeof operators / sizeof *operators; k++)
        if ((status = ((AddTo)api[ADD_TO_DOMAIN])(domain, operators[k]))) return status;
    return ((AddTo)api[ADD_DOMAIN])(options, domain);
}
