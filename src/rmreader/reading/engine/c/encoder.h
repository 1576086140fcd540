/* One layer of a BERT encoder, compiled anew for each TARGET after products.h.

   Rows are rounded to 8 bits each by itself, so that nothing between two products waits for all rows: BLOCK of them go
   from the attention's output to the end of the layer while they are in the second cache. A panel of weights meets all
   rows of a block before the next panel does. Attentions are in bfloat16, as those of products.h. */

/* The sum of 16, always in this order. */
ALWAYS TARGET float NAME(fold)(Floats x) {
    Eight halves[2];
    Four quarters[2];
    memcpy(halves, &x, sizeof x);
    const Eight eight = halves[0] + halves[1];
    memcpy(quarters, &eight, sizeof eight);
    const Four four = quarters[0] + quarters[1];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* 1 / √x for x > 0: a guess from its exponent, and Newton's steps. The same everywhere, which a library's is not. */
ALWAYS TARGET float NAME(inverse_root)(float x) {
    uint32_t bits;
    float y;
    memcpy(&bits, &x, 4);
    bits = 0x5f375a86 - (bits >> 1);
    memcpy(&y, &bits, 4);
    for (int step = 0; step < 4; step++) y = y * (1.5f - 0.5f * x * y * y);
    return y;
}

/* A row with mean 0 and variance 1, times a scale, plus a bias. */
static TARGET void NAME(norm)(const float *x, size_t n, Norm norm, float epsilon, float *to) {
    Floats sum = {0}, squares = {0};
    for (size_t k = 0; k < n; k += LANES) sum += NAME(some)(x + k, n - k);
    const float mean = NAME(fold)(sum) / n;
    for (size_t k = 0; k < n; k += LANES) {
        float far[LANES] = {0}; /* beyond the end: 0, not -mean */
        NAME(put)(far, NAME(some)(x + k, n - k) - mean, n - k);
        squares = NAME(fma)(NAME(load)(far), NAME(load)(far), squares);
    }
    const float inverse = NAME(inverse_root)(NAME(fold)(squares) / n + epsilon);
    for (size_t k = 0; k < n; k += LANES) {
        const Floats now = (NAME(some)(x + k, n - k) - mean) * inverse;
        const Floats scale = NAME(some)(norm.scale + k, n - k), bias = NAME(some)(norm.bias + k, n - k);
        NAME(put)(to + k, NAME(fma)(now, scale, bias), n - k);
    }
}

/* What is mixed, and a share of n numbers. */
static TARGET void NAME(mix)(const float *x, size_t n, float share, const float *mixed, float *to) {
    for (size_t k = 0; k < n; k += LANES) {
        const Floats before = NAME(some)(mixed + k, n - k);
        NAME(put)(to + k, NAME(fma)(NAME(some)(x + k, n - k), EACH(share), before), n - k);
    }
}

/* y = x·W + b + more of some rows: with GELU where it is asked for. */
ALWAYS TARGET void NAME(multiply)(const Matrix *W, Rounded x, size_t rows, const float *more, float *y, const int gelu) {
    const size_t bytes = up(W->inner, 4), wide = W->columns;
    for (size_t panel = 0; panel * GROUPS * LANES < wide; panel++)
        for (size_t row = 0; row < rows; row += ROWS) {
            const Rounded six = {x.q + row * bytes, x.steps + row};
            const size_t left = rows - row < ROWS ? rows - row : ROWS;
            const float *added = more ? more + row * wide : NULL;
            NAME(panel8)(W, six, left, added, wide, y + row * wide, wide, panel, gelu);
        }
}

/* Rows [rows, n] in 8 bits; what fills the last six is 0. */
static TARGET void NAME(round_rows)(const float *x, size_t rows, size_t n, Rounded to) {
    const size_t bytes = up(n, 4);
    for (size_t row = 0; row < rows; row++) to.steps[row] = NAME(round)(x + row * n, n, to.q + row * bytes);
    memset(to.q + rows * bytes, 0, (up(rows, ROWS) - rows) * bytes);
}

/* The first step, of the rows that a part has: queries, keys and values. */
static TARGET void NAME(layer_project)(const Layer *job, size_t part) {
    const size_t width = job->width, wide = 3 * width, end = part_end(job, part);
    const Room room = room_of(job, part);
    for (size_t row = part_begin(job, part); row < end; row += BLOCK) {
        const size_t rows = end - row < BLOCK ? end - row : BLOCK;
        NAME(round_rows)(job->x + row * width, rows, width, room.rounded);
        NAME(multiply)(&job->queries_keys_values, room.rounded, rows, NULL, job->projected + row * wide, 0);
    }
}

/* The largest of 16. */
ALWAYS TARGET float NAME(largest)(Floats x) {
    Four quarters[4];
    memcpy(quarters, &x, sizeof x);
    for (int k = 1; k < 4; k++) {
        const Quarter less = quarters[0] < quarters[k];
        quarters[0] = (Four)(((Quarter)quarters[k] & less) | ((Quarter)quarters[0] & ~less));
    }
    const Four four = quarters[0];
    const float first = four[0] > four[1] ? four[0] : four[1], second = four[2] > four[3] ? four[2] : four[3];
    return first > second ? first : second;
}

/* e^(x - max x) of n numbers in bfloat16, and 1 / their sum. x and ``to`` have room to a multiple of 16. */
ALWAYS TARGET float NAME(weigh)(float *x, size_t n, uint16_t *to) {
    Floats top = {0}, sum = {0};
    top += x[0];
    for (size_t k = n; k < up(n, LANES); k++) x[k] = x[0];
    for (size_t k = 0; k < n; k += LANES) top = NAME(larger)(top, NAME(load)(x + k));
    const float most = NAME(largest)(top);
    for (size_t k = 0; k < n; k += LANES) {
        Floats now = NAME(exponential)(NAME(load)(x + k) - most);
        if (k + LANES > n) {
            float some[LANES] = {0};
            NAME(put)(some, now, n - k);
            now = NAME(load)(some);
        }
        sum += now;
        const Shorts halves = __builtin_convertvector(NAME(half)(now), Shorts);
        memcpy(to + k, &halves, sizeof halves);
    }
    return 1 / NAME(fold)(sum);
}

/* The second step, of one head: what every row attends to. */
static TARGET void NAME(layer_head)(const Layer *job, size_t head) {
    const size_t s = job->s, width = job->width, size = width / job->heads, wide = up(s, LANES), out = up(size, LANES);
    const size_t apart = 3 * width, lanes = (size + 1) / 2, pairs = (s + 1) / 2;
    const float *projected = job->projected + head * size;
    uint8_t *keys = job->keys + head * up(keys_of_head(job), 64), *values = job->values + head * up(values_of_head(job), 64);
    float logits[ROWS * wide] CACHE_LINES, y[ROWS * out] CACHE_LINES;
    /* Weights are written by sixteens: the end of a row into the next one, before that is written. */
    uint16_t queries[ROWS * 2 * lanes], weights[ROWS * 2 * pairs + LANES];
    NAME(pack_turned)(projected + width, apart, s, size, 0, keys);
    NAME(pack)(projected + 2 * width, apart, s, size, values);
    memset(queries, 0, sizeof queries);
    memset(weights, 0, sizeof weights);
    for (size_t row = 0; row < s; row += ROWS) {
        const size_t rows = s - row < ROWS ? s - row : ROWS;
        float inverse[ROWS];
        for (size_t r = 0; r < rows; r++)
            NAME(halve)(projected + (row + r) * apart, size, 0, queries + r * 2 * lanes);
        NAME(product16)(queries, keys, lanes, NULL, NULL, 0, logits, wide);
        for (size_t r = 0; r < rows; r++) inverse[r] = NAME(weigh)(logits + r * wide, s, weights + r * 2 * pairs);
        NAME(product16)(weights, values, pairs, NULL, NULL, 0, y, out);
        for (size_t r = 0; r < rows; r++) {
            float *to = job->context + (row + r) * width + head * size;
            for (size_t k = 0; k < size; k += LANES) NAME(put)(to + k, NAME(load)(y + r * out + k) * inverse[r], size - k);
        }
    }
}

/* The third step, of the rows that a part has: all that follows the attention. */
static TARGET void NAME(layer_rest)(const Layer *job, size_t part) {
    const size_t width = job->width, inner = job->inner.columns, end = part_end(job, part);
    const Room room = room_of(job, part);
    for (size_t row = part_begin(job, part); row < end; row += BLOCK) {
        const size_t rows = end - row < BLOCK ? end - row : BLOCK;
        float *y = job->y + row * width;
        NAME(round_rows)(job->context + row * width, rows, width, room.rounded);
        NAME(multiply)(&job->attended, room.rounded, rows, job->x + row * width, room.narrow, 0);
        for (size_t r = 0; r < rows; r++)
            NAME(norm)(room.narrow + r * width, width, job->norms[0], job->epsilon, room.narrow + r * width);
        NAME(round_rows)(room.narrow, rows, width, room.rounded);
        NAME(multiply)(&job->inner, room.rounded, rows, NULL, room.wide, 1);
        NAME(round_rows)(room.wide, rows, inner, room.rounded);
        NAME(multiply)(&job->outer, room.rounded, rows, room.narrow, y, 0);
        for (size_t r = 0; r < rows; r++)
            NAME(norm)(y + r * width, width, job->norms[1], job->epsilon, y + r * width);
        NAME(mix)(y, rows * width, job->share, job->mixed + row * width, job->mix + row * width);
    }
}
