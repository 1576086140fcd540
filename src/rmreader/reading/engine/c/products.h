/* Products of matrices, and the attentions that are made of them, compiled anew for each TARGET around its own
   NAME(dot8) and NAME(dot16).

   Both multiply lanes of four bytes, four 8-bit integers or two bfloat16, and add what a lane gives to a sum of 32 bits,
   so that they share their shape: six rows of a at a time, their lanes ``apart`` bytes from row to row, and panels of up
   to four groups of 16 columns of b, packed [panels, lanes, groups, 16]. AT_ONCE vectors of type PART are summed at a
   time, as many as there are registers for. Sums begin with what lies at ``begin`` and are written to ``end``, their rows so
   many bytes apart. A sum takes its lanes in the same order whatever the TARGET, so that each comes out the same to the
   last bit. */

typedef PART NAME(Loose) __attribute__((aligned(1), may_alias));

#define TILE(name, dot, Part, groups)                                                                                  \
    ALONE TARGET void name(const void *rows, size_t apart, const void *panel, size_t lanes, const void *begin,         \
                           size_t begin_apart, void *end, size_t end_apart) {                                          \
        const int parts = 64 * groups / (int)sizeof(Part), once = parts < AT_ONCE ? parts : AT_ONCE;                   \
        for (int first = 0; first < parts; first += once) {                                                            \
            const uint8_t *a = rows, *b = (const uint8_t *)panel + sizeof(Part) * first;                               \
            const uint8_t *from = (const uint8_t *)begin + sizeof(Part) * first;                                       \
            uint8_t *to = (uint8_t *)end + sizeof(Part) * first;                                                       \
            Part now[ROWS][AT_ONCE]; /* in registers */                                                                \
            for (int r = 0; r < ROWS; r++)                                                                             \
                for (int p = 0; p < once; p++) now[r][p] = ((const NAME(Loose) *)(from + r * begin_apart))[p];         \
            for (size_t k = 0; k < lanes; k++, a += 4, b += 64 * groups) {                                             \
                Part columns[AT_ONCE];                                                                                 \
                for (int p = 0; p < once; p++) memcpy(&columns[p], b + sizeof(Part) * p, sizeof(Part));                \
                _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                               \
                    int32_t lane;                                                                                      \
                    memcpy(&lane, a + r * apart, 4);                                                                   \
                    for (int p = 0; p < once; p++) now[r][p] = dot(now[r][p], lane, columns[p]);                       \
                }                                                                                                      \
            }                                                                                                          \
            for (int r = 0; r < ROWS; r++)                                                                             \
                for (int p = 0; p < once; p++) ((NAME(Loose) *)(to + r * end_apart))[p] = now[r][p];                   \
        }                                                                                                              \
    }

/* For one to four groups: a constant, or the sums would not stay in registers. */
TILE(NAME(tile8_1), NAME(dot8), PART, 1)
TILE(NAME(tile8_2), NAME(dot8), PART, 2)
TILE(NAME(tile8_3), NAME(dot8), PART, 3)
TILE(NAME(tile8_4), NAME(dot8), PART, 4)
TILE(NAME(tile16_1), NAME(dot16), PART, 1)
TILE(NAME(tile16_2), NAME(dot16), PART, 2)
TILE(NAME(tile16_3), NAME(dot16), PART, 3)
TILE(NAME(tile16_4), NAME(dot16), PART, 4)

typedef void (*const NAME(Tile))(const void *, size_t, const void *, size_t, const void *, size_t, void *, size_t);
static NAME(Tile) NAME(tiles8)[] = {NAME(tile8_1), NAME(tile8_2), NAME(tile8_3), NAME(tile8_4)};
static NAME(Tile) NAME(tiles16)[] = {NAME(tile16_1), NAME(tile16_2), NAME(tile16_3), NAME(tile16_4)};

/* How many groups a panel has, of so many in all. */
ALWAYS TARGET size_t NAME(groups)(size_t all, size_t panel) {
    const size_t left = all - panel * GROUPS;
    return left < GROUPS ? left : GROUPS;
}

/* A row as 128 + 127·x / max|x|, to a multiple of four, and what 1 is worth. */
static TARGET float NAME(round)(const float *x, size_t n, uint8_t *q) {
    Floats top = {0};
    float most = 1e-30f;
    for (size_t k = 0; k < n; k += LANES) top = NAME(larger)(top, (Floats)((Ints)NAME(some)(x + k, n - k) & INT32_MAX));
    for (int j = 0; j < LANES; j++) most = top[j] > most ? top[j] : most;
    for (size_t k = 0; k < n; k += LANES) {
        const Floats now = NAME(fma)(NAME(some)(x + k, n - k), EACH(127 / most), EACH(128.5f));
        const Bytes rounded = __builtin_convertvector(__builtin_convertvector(now, Ints), Bytes);
        if (k + LANES <= n) memcpy(q + k, &rounded, LANES);
        else memcpy(q + k, &rounded, up(n - k, 4));
    }
    return most / 127;
}

ALWAYS TARGET Floats NAME(relu)(Floats x) { return (Floats)((Ints)x & ~((Ints)x >> 31)); }

/* x·Φ(x), the exact GELU, to 1e-6: relu(x) less |x|·Φ(-|x|), which is a polynomial of |x| up to 5.5, and 0 beyond. */
ALWAYS TARGET Floats NAME(gelu)(Floats x) {
    static const float factors[] = {-0.0394180864f, -0.154876232f, 0.235338598f, 0.185879469f, -0.547519565f,
                                    0.191852495f,   0.460615009f,  -0.638624012f, 0.260225564f, 0.180235222f,
                                    -0.30866304f,   0.191202059f,  -0.060578458f, 0.0081948489f};
    const Floats size = NAME(limit)((Floats)((Ints)x & INT32_MAX), 5.5f);
    const Floats t = NAME(fma)(size, EACH(2 / 5.5f), EACH(-1.0f)); /* in [-1, 1] */
    Floats less = EACH(0.0361366868f);
    _Pragma("GCC unroll 14") for (size_t k = 0; k < sizeof factors / sizeof *factors; k++)
        less = NAME(fma)(less, t, EACH(factors[k]));
    return NAME(relu)(x) - less;
}

/* Up to six rows of q·W + bias + more, one panel of them; the GELU of it where it is asked for. */
ALWAYS TARGET void NAME(panel8)(const Matrix *W, Rounded x, size_t rows, const float *more, size_t more_apart, float *y,
                                size_t y_apart, size_t panel, const int gelu) {
    const size_t first = panel * GROUPS * LANES, bytes = up(W->inner, 4);
    const size_t groups = NAME(groups)(up(W->columns, LANES) / LANES, panel);
    Ints sums[ROWS][GROUPS];
    const int8_t *weights = W->weights + first * bytes;
    NAME(tiles8)[groups - 1](x.q, bytes, weights, bytes / 4, W->starts + first, 0, sums, sizeof *sums);
    for (size_t r = 0; r < rows; r++)
        for (size_t g = 0; g < groups; g++) {
            const size_t at = first + g * LANES, left = W->columns - at;
            const Floats sum = __builtin_convertvector(sums[r][g], Floats), scale = NAME(load)(W->scales + at) * x.steps[r];
            Floats now = NAME(fma)(sum, scale, NAME(load)(W->bias + at));
            if (more) now += NAME(some)(more + r * more_apart + at, left);
            if (gelu) now = NAME(gelu)(now);
            NAME(put)(y + r * y_apart + at, now, left);
        }
}

static TARGET void NAME(linear)(const Linear *job, size_t panel) {
    const size_t bytes = up(job->W.inner, 4);
    for (size_t row = 0; row < job->m; row += ROWS) {
        const Rounded x = {job->x.q + row * bytes, job->x.steps + row};
        const size_t rows = job->m - row < ROWS ? job->m - row : ROWS;
        float *y = job->y + row * job->W.columns;
        NAME(panel8)(&job->W, x, rows, NULL, 0, y, job->W.columns, panel, 0);
    }
}

/* The bits of bfloat16, rounded, in the lower half of each lane. */
ALWAYS TARGET Ints NAME(half)(Floats x) {
    const Uints bits = (Uints)x;
    return (Ints)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A row in bfloat16, to an even number. */
ALWAYS TARGET void NAME(halve)(const float *x, size_t n, const int positive, uint16_t *to) {
    for (size_t k = 0; k < n; k += LANES) {
        const Floats now = NAME(some)(x + k, n - k);
        const Shorts halves = __builtin_convertvector(NAME(half)(positive ? NAME(relu)(now) : now), Shorts);
        if (k + LANES <= n) memcpy(to + k, &halves, 2 * LANES);
        else memcpy(to + k, &halves, 2 * up(n - k, 2));
    }
}

/* Where a group of columns begins in a packed b of so many lanes, and how many groups its panel has. */
ALWAYS TARGET uint8_t *NAME(place)(void *b, size_t group, size_t groups, size_t lanes, size_t *wide) {
    const size_t panel = group / GROUPS, left = groups - panel * GROUPS;
    *wide = left < GROUPS ? left : GROUPS;
    return (uint8_t *)b + 64 * (panel * GROUPS * lanes + group % GROUPS);
}

/* x [n, columns] packed: two rows a lane. */
static TARGET void NAME(pack)(const float *x, size_t apart, size_t n, size_t columns, void *b) {
    const size_t groups = up(columns, LANES) / LANES;
    for (size_t group = 0; group < groups; group++) {
        size_t wide, left = columns - group * LANES;
        uint8_t *to = NAME(place)(b, group, groups, (n + 1) / 2, &wide);
        const float *from = x + group * LANES;
        for (size_t k = 0; k < n; k += 2, from += 2 * apart, to += 64 * wide) {
            Ints both = NAME(half)(NAME(some)(from, left));
            if (k + 1 < n) both |= NAME(half)(NAME(some)(from + apart, left)) << 16;
            memcpy(to, &both, 64);
        }
    }
}

/* xᵀ packed, for x [columns, n]: two neighbours a lane; relu(x)ᵀ where it is to be positive. */
static TARGET void NAME(pack_turned)(const float *x, size_t apart, size_t columns, size_t n, const int positive, void *b) {
    const size_t groups = up(columns, LANES) / LANES, lanes = (n + 1) / 2;
    uint16_t row[2 * lanes];
    for (size_t column = 0; column < groups * LANES; column++) {
        size_t wide;
        uint8_t *to = NAME(place)(b, column / LANES, groups, lanes, &wide) + 4 * (column % LANES);
        if (column < columns) NAME(halve)(x + column * apart, n, positive, row);
        else memset(row, 0, sizeof row);
        for (size_t k = 0; k < lanes; k++) memcpy(to + 64 * wide * k, row + 2 * k, 4);
    }
}

/* Six rows of y = a·b + c·d, each ``wide``, a multiple of 16; d may have no lanes. */
ALWAYS TARGET void NAME(product16)(const uint16_t *a, const uint8_t *b, size_t lanes, const uint16_t *c,
                                   const uint8_t *d, size_t more, float *y, size_t wide) {
    const Floats nothing[GROUPS] = {{0}};
    for (size_t panel = 0; panel * GROUPS * LANES < wide; panel++) {
        const size_t first = panel * GROUPS * LANES, groups = NAME(groups)(wide / LANES, panel);
        float *to = y + first;
        NAME(tiles16)[groups - 1](a, 4 * lanes, b + 4 * first * lanes, lanes, nothing, 0, to, 4 * wide);
        if (more) NAME(tiles16)[groups - 1](c, 4 * more, d + 4 * first * more, more, to, 4 * wide, to, 4 * wide);
    }
}

/* softmax of n numbers in bfloat16 */
ALWAYS TARGET void NAME(softmax)(const float *x, size_t n, float *room, uint16_t *to) {
    float most = x[0], all = 0;
    Floats top = {0}, sum = {0};
    top += most;
    for (size_t k = 0; k + LANES <= n; k += LANES) top = NAME(larger)(top, NAME(load)(x + k));
    for (int j = 0; j < LANES; j++) most = top[j] > most ? top[j] : most;
    for (size_t k = n / LANES * LANES; k < n; k++) most = x[k] > most ? x[k] : most;
    for (size_t k = 0; k < n; k += LANES) {
        NAME(put)(room + k, NAME(exponential)(NAME(load)(x + k) - most), n - k);
        sum += NAME(some)(room + k, n - k);
    }
    for (int j = 0; j < LANES; j++) all += sum[j];
    for (size_t k = 0; k < n; k += LANES) NAME(put)(room + k, NAME(some)(room + k, n - k) * (1 / all), n - k);
    NAME(halve)(room, n, 0, to);
}

static TARGET void NAME(align_start)(const Align *job) {
    NAME(pack_turned)(job->keys, job->keys_apart, job->p, job->width, 1, job->packed_keys);
    NAME(pack)(job->values, job->w, job->p, job->w, job->packed_values);
}

/* Six rows: their logits, what they attend to, and the fusion with it. */
static TARGET void NAME(align_rows)(const Align *job, size_t block) {
    const size_t m = job->m, p = job->p, w = job->w, row = block * ROWS, rows = m - row < ROWS ? m - row : ROWS;
    const size_t wide = up(p, LANES), lanes = (job->width + 1) / 2, pairs = (p + 1) / 2, past = job->S ? (m + 1) / 2 : 0;
    const size_t out = up(w, LANES), bytes = up(2 * w, 4);
    float *logits = job->logits + row * wide, y[ROWS * out], both[2 * w], room[p], steps[ROWS];
    uint16_t queries[ROWS * 2 * lanes], *attention = job->attention + row * 2 * pairs;
    uint8_t q[ROWS * bytes];
    memset(queries, 0, sizeof queries);
    memset(q, 0, sizeof q);
    for (size_t r = 0; r < rows; r++)
        NAME(halve)(job->queries + (row + r) * job->queries_apart, job->width, 1, queries + r * 2 * lanes);
    /* Eq. 1, 4, 5 */
    NAME(product16)(queries, job->packed_keys, lanes, job->S + row * 2 * past, job->down, past, logits, wide);
    for (size_t r = 0; r < ROWS; r++) {
        if (r < rows && job->diagonal) logits[r * wide + row + r] = 0; /* Eq. 2 */
        NAME(softmax)(logits + r * wide, p, room, attention + r * 2 * pairs);
    }
    NAME(product16)(attention, job->packed_values, pairs, NULL, NULL, 0, y, out);
    for (size_t r = 0; r < rows; r++) {
        const float *x = job->x + (row + r) * w;
        for (size_t k = 0; k < w; k++) both[k] = y[r * out + k], both[w + k] = x[k] * y[r * out + k];
        steps[r] = NAME(round)(both, 2 * w, q + r * bytes);
    }
    float fused[ROWS * 2 * w];
    for (size_t panel = 0; panel * GROUPS * LANES < 2 * w; panel++)
        NAME(panel8)(&job->W, (Rounded){q, steps}, rows, job->more + row * job->queries_apart, job->queries_apart, fused,
                     2 * w, panel, 0);
    NAME(highway)(fused, job->x + row * w, job->o + row * w, rows, w); /* Eq. 13 */
}

/* softmax down 16 columns of the logits, times gamma, packed */
static TARGET void NAME(align_columns)(const Align *job, size_t group) {
    const size_t wide = up(job->p, LANES), m = job->m;
    float *x = job->logits + group * LANES;
    Floats top = NAME(load)(x), sum = {0};
    for (size_t i = 1; i < m; i++) top = NAME(larger)(top, NAME(load)(x + i * wide));
    for (size_t i = 0; i < m; i++) {
        const Floats now = NAME(exponential)(NAME(load)(x + i * wide) - top);
        sum += now;
        memcpy(x + i * wide, &now, sizeof now);
    }
    size_t groups;
    uint8_t *to = NAME(place)(job->next_down, group, wide / LANES, (m + 1) / 2, &groups);
    const Floats scale = job->gamma / sum;
    for (size_t i = 0; i < m; i += 2, to += 64 * groups) {
        Ints both = NAME(half)(NAME(load)(x + i * wide) * scale);
        if (i + 1 < m) both |= NAME(half)(NAME(load)(x + (i + 1) * wide) * scale) << 16;
        memcpy(to, &both, 64);
    }
}

/* Six rows of the pointer. */
static TARGET void NAME(point_rows)(const Point *job, size_t block) {
    const size_t m = job->m, w = job->w, row = block * ROWS, rows = m - row < ROWS ? m - row : ROWS;
    const size_t columns = job->W.columns, bytes = up(2 * w, 4);
    float both[2 * w], inner[ROWS * columns], steps[ROWS];
    uint8_t q[ROWS * bytes];
    memset(q, 0, sizeof q);
    for (size_t r = 0; r < rows; r++) {
        const float *x = job->R + (row + r) * w;
        for (size_t k = 0; k < w; k++) both[k] = x[k], both[w + k] = x[k] * job->s[k];
        steps[r] = NAME(round)(both, 2 * w, q + r * bytes);
    }
    for (size_t panel = 0; panel * GROUPS * LANES < columns; panel++)
        NAME(panel8)(&job->W, (Rounded){q, steps}, rows, job->of_s, 0, inner, columns, panel, 0);
    for (size_t r = 0; r < rows; r++) {
        Floats sum = {0};
        float all = 0;
        for (size_t k = 0; k < columns; k += LANES) {
            const Floats x = NAME(some)(inner + r * columns + k, columns - k);
            const Floats tanh = 1 - 2 / (1 + NAME(exponential)(2 * x));
            sum = NAME(fma)(tanh, NAME(some)(job->weight + k, columns - k), sum);
        }
        for (int j = 0; j < LANES; j++) all += sum[j];
        job->logits[row + r] = all;
    }
}
