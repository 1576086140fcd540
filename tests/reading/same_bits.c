/* Every operator on numbers that look random, and a digest of all that they give: the same from every compiler and on
   every processor. The argument is the kind of processor, as native.h numbers them. */

#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ull, digest = 1469598103934665603ull;

static uint32_t draw(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static size_t size(size_t most) { return 1 + draw() % most; }

static void *memory(size_t bytes) { return native_memory(bytes + 64); }

static void *room(size_t bytes) { return memset(memory(bytes), 0, bytes); }

static float *floats(size_t n, float most) {
    float *made = memory(4 * n);
    for (size_t k = 0; k < n; k++) made[k] = most * ((int32_t)draw() / 2147483648.0f);
    return made;
}

static int8_t *weights(size_t n) {
    int8_t *made = memory(n);
    for (size_t k = 0; k < n; k++) made[k] = (int8_t)((int)(draw() % 255) - 127);
    return made;
}

static int32_t *starts(size_t n) {
    int32_t *made = memory(4 * n);
    for (size_t k = 0; k < n; k++) made[k] = (int)(draw() % 10000) - 5000;
    return made;
}

static Matrix matrix(size_t inner, size_t columns) {
    const size_t wide = up(columns, LANES);
    const int8_t *packed = weights(up(inner, 4) * wide);
    const float *scales = floats(wide, 0.01f), *bias = floats(wide, 1); /* in this order, as no initializer has one */
    return (Matrix){packed, scales, bias, starts(wide), inner, columns};
}

static void take(const void *made, size_t bytes) { /* FNV-1a */
    for (size_t k = 0; k < bytes; k++) digest = (digest ^ ((const uint8_t *)made)[k]) * 1099511628211ull;
}

static void walk(int kind) {
    const size_t T = size(50), H = size(120), rows = 2 * up(4 * H, LANES);
    const float *gates = floats(T * 8 * H, 4), *scales = floats(rows, 0.0003f);
    const int8_t *packed = weights(rows * up(H, 4));
    const Lstm job = {gates, packed, scales, starts(rows), room(8 * T * H), T, H};
    for (int direction = 0; direction < 2; direction++) lstm_walk(&job, direction, kind);
    take(job.states, 8 * T * H);
}

static void multiply(size_t m, size_t w, int kind) {
    const float *given = floats(m * w, 2);
    Linear job = {.W = matrix(w, 2 * w), .given = given, .y = room(8 * m * w), .m = m};
    linear_start(&job, memory(linear_size(&job)), kind);
    for (size_t panel = 0; panel < linear_panels(&job); panel++) linear_panel(&job, panel, kind);
    take(job.y, 8 * m * w);
}

static void align(size_t m, size_t p, size_t w, int kind) {
    float *first = floats(m * 3 * w, 1), *keys = floats(p * w, 1), *values = floats(p * w, 1), *x = floats(m * w, 1);
    const size_t seen = 2 * up(m, ROWS) * up(p, 2), down = (m + 1) / 2 * 4 * up(p, LANES);
    Align job = {.queries = first, .keys = keys, .more = first + w, .values = values, .x = x, .W = matrix(2 * w, 2 * w),
                 .o = room(4 * m * w), .attention = room(seen), .next_down = room(down), .gamma = 3,
                 .diagonal = m == p, .m = m, .p = p, .w = w, .width = w, .queries_apart = 3 * w, .keys_apart = w};
    align_start(&job, memory(align_size(&job)), kind);
    for (size_t block = 0; block < align_blocks(&job); block++) align_rows(&job, block, kind);
    for (size_t group = 0; group < align_groups(&job); group++) align_columns(&job, group, kind);
    take(job.o, 4 * m * w);
    take(job.next_down, down);
}

static void point(size_t m, size_t w, int kind) {
    const float *R = floats(m * w, 1), *s = floats(w, 1), *of_s = floats(w, 1), *weight = floats(w, 1);
    const Point job = {.W = matrix(2 * w, w), .R = R, .s = s, .of_s = of_s, .weight = weight, .logits = room(4 * m), .m = m,
                       .w = w};
    for (size_t block = 0; block < point_blocks(&job); block++) point_rows(&job, block, kind);
    take(job.logits, 4 * m);
}

static Norm norm(size_t n) {
    const float *scale = floats(n, 1);
    return (Norm){scale, floats(n, 1)};
}

static void layer(size_t s, size_t heads, size_t size, size_t inner, int kind) {
    const size_t width = heads * size, bytes = 4 * s * width;
    Layer job = {.s = s, .width = width, .heads = heads, .epsilon = 1e-6f, .share = 0.3f};
    job.x = floats(s * width, 2);
    job.mixed = floats(s * width, 1);
    job.queries_keys_values = matrix(width, 3 * width);
    job.attended = matrix(width, width);
    job.inner = matrix(width, inner);
    job.outer = matrix(inner, width);
    job.norms[0] = norm(width);
    job.norms[1] = norm(width);
    job.y = room(bytes);
    job.mix = room(bytes);
    layer_start(&job, memory(layer_size(&job)));
    for (size_t part = 0; part < PARTS; part++) layer_project(&job, part, kind);
    for (size_t head = 0; head < heads; head++) layer_head(&job, head, kind);
    for (size_t part = 0; part < PARTS; part++) layer_rest(&job, part, kind);
    take(job.y, bytes);
    take(job.mix, bytes);
    norm_rows(job.x, s, width, job.norms[0], job.epsilon, job.y, kind);
    take(job.y, bytes);
}

int main(int count, char **words) {
    native_limit(count > 1 ? atoi(words[1]) : BF16);
    for (int round = 0; round < 40; round++) {
        const size_t m = size(60), p = round % 2 ? size(60) : m, w = 2 * size(60);
        walk(lstm_best());
        multiply(m, w, lstm_best());
        align(m, p, w, lstm_best());
        point(m, w, lstm_best());
    }
    for (int round = 0; round < 20; round++) {
        const size_t s = size(260), heads = size(5), each = size(40), inner = size(200);
        layer(s, heads, each, inner, lstm_best());
    }
    printf("%016llx\n", (unsigned long long)digest);
}
