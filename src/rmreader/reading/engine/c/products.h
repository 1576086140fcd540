/* Products of matrices, and the attentions that are made of them, compiled anew for each TARGET around its own
   NAME(dot8) and NAME(dot16).

   Both multiply lanes of four bytes, four 8-bit integers or two bfloat16, and add what a lane gives to a sum of 32 bits,
   so that they share their shape: six rows of a at a time, their lanes ``apart`` bytes from row to row, and panels of up
   to four groups of 16 columns of b, packed [panels, lanes, groups, 16]. AT_ONCE vectors of type PART are summed at a
   time, as many as there are registers for. A sum takes its lanes in the same order whatever the TARGET, so that each comes out the same
   to the last bit. */

#define TILE(name, dot, Part)                                                                                      \
    ALWAYS TARGET void name(const void *rows, size_t apart, const void *panel, size_t lanes, const int groups,     \
                            void *sums) {                                                                          \
        const int parts = 64 * groups / (int)sizeof(Part), once = parts < AT_ONCE ? parts : AT_ONCE;               \
        for (int first = 0; first < parts; first += once) {                                                        \
            const uint8_t *a = rows, *b = (const uint8_t *)panel + sizeof(Part) * first;                           \
            Part now[ROWS][AT_ONCE], *all = (Part *)sums + first; /* now: in registers */                          \
            const int row = GROUPS * 64 / (int)sizeof(Part);                                                       \
            for (int r = 0; r < ROWS; r++)                                                                         \
                for (int p = 0; p < once; p++) now[r][p] = all[r * row + p];                                       \
            for (size_t k = 0; k < lanes; k++, a += 4, b += 64 * groups) {                                         \
                Part columns[AT_ONCE];                                                                             \
                for (int p = 0; p < once; p++) memcpy(&columns[p], b + sizeof(Part) * p, sizeof(Part));            \
                _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++) {                                           \
                    int32_t lane;                                                                                  \
                    memcpy(&lane, a + r * apart, 4);                                                               \
                    for (int p = 0; p < once; p++) now[r][p] = dot(now[r][p], lane, columns[p]);                   \
                }                                                                                                  \
            }                                                                                                      \
            for (int r = 0; r < ROWS; r++)                                                                         \
                for (int p = 0; p < once; p++) all[r * row + p] = now[r][p];                                       \
        }                                                                                                          \
    }

TILE(NAME(tile8), NAME(dot8), PART)
TILE(NAME(tile16), NAME(dot16), PART)

/* call(…, groups) for the groups that a panel has: a constant, or the sums would not stay in registers. */
#define EACH_WIDTH(groups, call, ...)               \
    do {                                            \
        if ((groups) >= 4) call(__VA_ARGS__, 4);    \
        if ((groups) == 3) call(__VA_ARGS__, 3);    \
        if ((groups) == 2) call(__VA_ARGS__, 2);    \
        if ((groups) == 1) call(__VA_ARGS__, 1);    \
    } while (0)

/* A row as 128 + 127·x / max|x|, to a multiple of four, and what 1 is worth. */
static TARGET float NAME(round)(const float *x, size_t n, uint8_t *q) {
    Floats top = {0};
    float most = 1e-30f;
    for (size_t k = 0; k < n; k += LANES) top = NAME(larger)(top, (Floats)((Ints)NAME(some)(x + k, n - k) & INT32_MAX));
    for (int j = 0; j < LANES; j++) most = top[j] > most ? top[j] : most;
    for (size_t k = 0; k < n; k += LANES) {
        const Floats now = NAME(fma)(NAME(some)(x + k, n - k), EACH(127 / most), EACH(128.5f));
        const Bytes rounded = __builtin_convertvector(__builtin_convertvector(now, Ints), Bytes);
        const size_t left = up(n - k, 4);
        memcpy(q + k, &rounded, left < LANES ? left : LANES);
    }
    return most / 127;
}

/* Up to six rows of q·W + bias + more, one panel of them. */
ALWAYS TARGET void NAME(panel8)(const Matrix *W, Rounded x, size_t rows, const float *more, size_t more_apart, float *y,
                                size_t y_apart, size_t panel, const int groups) {
    const size_t first = panel * GROUPS * LANES, bytes = up(W->inner, 4);
    Ints sums[ROWS][GROUPS];
    for (int r = 0; r < ROWS; r++) memcpy(sums[r], W->starts + first, 64 * groups);
    NAME(tile8)(x.q, bytes, W->weights + first * bytes, bytes / 4, groups, sums);
    for (size_t r = 0; r < rows; r++)
        for (int g = 0; g < groups; g++) {
            const size_t at = first + g * LANES, left = W->columns - at;
            const Floats sum = __builtin_convertvector(sums[r][g], Floats), scale = NAME(load)(W->scales + at) * x.steps[r];
            Floats now = NAME(fma)(sum, scale, NAME(load)(W->bias + at));
            if (more) now += NAME(some)(more + r * more_apart + at, left);
            NAME(put)(y + r * y_apart + at, now, left);
        }
}

static TARGET void NAME(linear)(const Linear *job, size_t panel) {
    const size_t bytes = up(job->W.inner, 4), groups = up(job->W.columns, LANES) / LANES - panel * GROUPS;
    for (size_t row = 0; row < job->m; row += ROWS) {
        const Rounded x = {job->x.q + row * bytes, job->x.steps + row};
        const size_t rows = job->m - row < ROWS ? job->m - row : ROWS;
        float *y = job->y + row * job->W.columns;
        EACH_WIDTH(groups, NAME(panel8), &job->W, x, rows, NULL, 0, y, job->W.columns, panel);
    }
}

/* The bits of bfloat16, rounded, in the lower half of each lane. */
ALWAYS TARGET Ints NAME(half)(Floats x) {
    const Uints bits = (Uints)x;
    return (Ints)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

ALWAYS TARGET Floats NAME(relu)(Floats x) { return (Floats)((Ints)x & ~((Ints)x >> 31)); }

/* A row in bfloat16, to an even number. */
ALWAYS TARGET void NAME(halve)(const float *x, size_t n, const int positive, uint16_t *to) {
    for (size_t k = 0; k < n; k += LANES) {
        const Floats now = NAME(some)(x + k, n - k);
        const Shorts halves = __builtin_convertvector(NAME(half)(positive ? NAME(relu)(now) : now), Shorts);
        const size_t left = up(n - k, 2);
        memcpy(to + k, &halves, 2 * (left < LANES ? left : LANES));
    }
}

/* Where a group of columns begins in a packed b of so many lanes, and how many groups its panel has. */
ALWAYS TARGET uint8_t *NAME(place)(void *b, size_t group, size_t groups, size_t lanes, size_t *wide) {
    const size_t panel = group / GROUPS, left = groups - panel * GROUPS;
    *wide = left < GROUPS ? left : GROUPS;
    return (uint8_t *)b + 64 * (panel * GROUPS * lanes + group % GROUPS);
}

/* x [n, columns] packed: two rows a lane. */
static TARGET void NAME(pack)(const float *x, size_t n, size_t columns, void *b) {
    const size_t groups = up(columns, LANES) / LANES;
    for (size_t group = 0; group < groups; group++) {
        size_t wide, left = columns - group * LANES;
        uint8_t *to = NAME(place)(b, group, groups, (n + 1) / 2, &wide);
        const float *from = x + group * LANES;
        for (size_t k = 0; k < n; k += 2, from += 2 * columns, to += 64 * wide) {
            Ints both = NAME(half)(NAME(some)(from, left));
            if (k + 1 < n) both |= NAME(half)(NAME(some)(from + columns, left)) << 16;
            memcpy(to, &both, 64);
        }
    }
}

/* relu(x)ᵀ packed, for x [columns, n]: two neighbours a lane. */
static TARGET void NAME(pack_turned)(const float *x, size_t apart, size_t columns, size_t n, void *b) {
    const size_t groups = up(columns, LANES) / LANES, lanes = (n + 1) / 2;
    uint16_t row[2 * lanes];
    for (size_t column = 0; column < groups * LANES; column++) {
        size_t wide;
        uint8_t *to = NAME(place)(b, column / LANES, groups, lanes, &wide) + 4 * (column % LANES);
        if (column < columns) NAME(halve)(x + column * apart, n, 1, row);
        else memset(row, 0, sizeof row);
        for (size_t k = 0; k < lanes; k++) memcpy(to + 64 * wide * k, row + 2 * k, 4);
    }
}

/* Six rows of a·b + c·d, one panel of them; d may have no lanes. */
ALWAYS TARGET void NAME(panel16)(const uint16_t *a, const uint8_t *b, size_t lanes, const uint16_t *c, const uint8_t *d,
                                 size_t more, float *y, size_t apart, size_t panel, const int groups) {
    const size_t first = panel * GROUPS * LANES;
    Floats sums[ROWS][GROUPS] = {{{0}}};
    NAME(tile16)(a, 4 * lanes, b + 4 * first * lanes, lanes, groups, sums);
    if (more) NAME(tile16)(c, 4 * more, d + 4 * first * more, more, groups, sums);
    for (int r = 0; r < ROWS; r++) memcpy(y + r * apart + first, sums[r], 64 * groups);
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
    NAME(pack_turned)(job->keys, job->keys_apart, job->p, job->width, job->packed_keys);
    NAME(pack)(job->values, job->p, job->w, job->packed_values);
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
    for (size_t panel = 0; panel * GROUPS * LANES < wide; panel++)
        EACH_WIDTH(wide / LANES - panel * GROUPS, NAME(panel16), queries, job->packed_keys, lanes,
                   job->S + row * 2 * past, job->down, past, logits, wide, panel); /* Eq. 1, 4, 5 */
    for (size_t r = 0; r < ROWS; r++) {
        if (r < rows && job->diagonal) logits[r * wide + row + r] = 0; /* Eq. 2 */
        NAME(softmax)(logits + r * wide, p, room, attention + r * 2 * pairs);
    }
    for (size_t panel = 0; panel * GROUPS * LANES < out; panel++)
        EACH_WIDTH(out / LANES - panel * GROUPS, NAME(panel16), attention, job->packed_values, pairs, NULL, NULL, 0, y,
                   out, panel);
    for (size_t r = 0; r < rows; r++) {
        const float *x = job->x + (row + r) * w;
        for (size_t k = 0; k < w; k++) both[k] = y[r * out + k], both[w + k] = x[k] * y[r * out + k];
        steps[r] = NAME(round)(both, 2 * w, q + r * bytes);
    }
    float fused[ROWS * 2 * w];
    for (size_t panel = 0; panel * GROUPS * LANES < 2 * w; panel++)
        EACH_WIDTH(up(2 * w, LANES) / LANES - panel * GROUPS, NAME(panel8), &job->W, (Rounded){q, steps}, rows,
                   job->more + row * job->queries_apart, job->queries_apart, fused, 2 * w, panel);
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
        EACH_WIDTH(up(columns, LANES) / LANES - panel * GROUPS, NAME(panel8), &job->W, (Rounded){q, steps}, rows,
                   job->of_s, 0, inner, columns, panel);
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
