/* What the operators in C share. Kinds of processors are numbered: each can do more than the one before. */

#include <stddef.h>
#include <stdint.h>

#define LANES 16

enum { ANY, AVX2, VNNI, BF16 };

typedef struct {
    const float *gates;    /* [T, 2, 4H]: x·W_ih + b */
    const int8_t *weights; /* [2, groups, columns / 4, 16, 4] */
    const float *scales;   /* [2, groups · 16]: what a sum of a row is to be multiplied by */
    const int32_t *starts; /* [2, groups · 16]: what it starts with, because 128 is added to the rounded states */
    float *states;         /* [T, 2H], written */
    size_t T, H;
} Lstm;

int lstm_best(void);         /* what this processor can do */
void native_limit(int kind); /* from now on no more than this, to test the others */

void lstm_walk(const Lstm *job, int direction, int kind);

/* Eq. 13 once its products are made: o = x + σ(g)∘(relu(r) - x); [r, g] = both [rows, 2·width]. */
void lstm_highway(const float *both, const float *x, float *o, size_t rows, size_t width, int kind);

#define ROWS 6   /* that products take at a time */
#define GROUPS 4 /* of 16 columns, at most */

static inline size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* W and b of a product in 8 bits. */
typedef struct {
    const int8_t *weights;      /* [panels, inner / 4, groups, 16, 4], see products.h */
    const float *scales, *bias; /* of every column, to a multiple of 16, as the next ones */
    const int32_t *starts;      /* what a sum starts with, because 128 is added to the rounded x */
    size_t inner, columns;
} Matrix;

/* Rows in 8 bits, to a multiple of four, and what 1 is worth in each of them. */
typedef struct {
    uint8_t *q;
    float *steps;
} Rounded;

/* y = x·W + b. */
typedef struct {
    Matrix W;
    const float *given; /* [m, inner] */
    float *y;           /* [m, columns], written */
    size_t m;
    Rounded x;
} Linear;

/* One alignment, Eq. 1-5 and 13: logits = relu(queries)·relu(keys)ᵀ + S·down; attention = softmax along their rows;
   y = attention·values; o = the fusion of x with y, [y; x∘y]·W + more before the gates. */
typedef struct {
    const float *queries, *keys, *values, *x; /* [m, width], [p, width], [p, w], [m, w] */
    const float *more;                        /* [m, 2w], in the rows of the queries */
    Matrix W;
    const uint16_t *S;   /* the attention of a word to each other in the round before, [m to a multiple of 6, m to 2] */
    const uint8_t *down; /* this softmax down columns in the round before, packed; both NULL in the first round */
    float *o;            /* written: [m, w] */
    uint16_t *attention; /* written: what is S for the next round, [m to a multiple of 6, p to 2] */
    uint8_t *next_down;  /* written: what is down for it */
    float gamma;         /* of the next round */
    int diagonal;        /* whether a word has nothing to say to itself */
    size_t m, p, w, width, queries_apart, keys_apart;
    uint8_t *packed_keys, *packed_values;
    float *logits;
} Align;

/* Eq. 15, 16: logits = weight·tanh([R; R∘s]·W + of_s). */
typedef struct {
    Matrix W;
    const float *R, *s, *of_s, *weight; /* [m, w], [w], [columns], [columns] */
    float *logits;                      /* [m], written */
    size_t m, w;
} Point;

/* What normalises a row. */
typedef struct {
    const float *scale, *bias;
} Norm;

#define BLOCK 108 /* rows that a layer takes at a time, a multiple of ROWS */
#define PARTS 2  /* of the rows, for two threads */

/* One layer of a BERT encoder: attended = the self-attention of x by heads; x + attended·W is normalised, and then
   x + gelu(x·W)·W. A share of what comes out is added to what is mixed of all layers. */
typedef struct {
    const float *x, *mixed;     /* [s, width] */
    float share;
    Matrix queries_keys_values; /* the logits' scale is part of the queries' */
    Matrix attended, inner, outer;
    Norm norms[2];
    float epsilon;
    float *y, *mix; /* [s, width], written */
    size_t s, width, heads;
    float *projected, *context; /* [s, 3·width], [s, width] */
    uint8_t *keys, *values;     /* of every head, packed */
    uint8_t *rooms;             /* of every part */
} Layer;

void *native_memory(size_t size); /* for what follows, to be freed; NULL if there is none */

size_t linear_size(const Linear *job);
size_t linear_panels(const Linear *job);
void linear_start(Linear *job, void *memory, int kind);
void linear_panel(const Linear *job, size_t panel, int kind);

size_t align_size(const Align *job);
size_t align_blocks(const Align *job);
size_t align_groups(const Align *job);
void align_start(Align *job, void *memory, int kind);
void align_rows(const Align *job, size_t block, int kind); /* every block, and then */
void align_columns(const Align *job, size_t group, int kind);

size_t point_blocks(const Point *job);
void point_rows(const Point *job, size_t block, int kind);

/* Every row of x [s, n] normalised. */
void norm_rows(const float *x, size_t s, size_t n, Norm norm, float epsilon, float *to, int kind);

size_t layer_size(const Layer *job);
void layer_start(Layer *job, void *memory);
void layer_project(const Layer *job, size_t part, int kind); /* both parts, and then */
void layer_head(const Layer *job, size_t head, int kind);    /* every head, and then */
void layer_rest(const Layer *job, size_t part, int kind);
