/* The recurrent part of a BiLSTM over one sequence, with 8-bit recurrent weights.

   What does not depend on the step before, x·W_ih + b, is one large product that ONNX Runtime makes beforehand. Left
   are T small products that wait for each other, h·W_hh, and the gates. A state lies in (-1, 1), so it is rounded to
   1/127 without a look at the others. Sums of integers are exact, so every processor finds the same ones.

   The 4H rows of W_hh are in groups of 16, ordered so that the gates of 16 units are four groups: units 0-15 of i, of
   f, of g, of o, then units 16-31, … The gates of the last H mod 16 units follow each other without a gap. Four groups
   (or what is left at the end) are packed together, four columns at a time. Columns of x·W_ih have the same order.

   Compiled anew for each TARGET around its own NAME(sums): one direction, NAME(walk), and the highway, NAME(highway),
   which follows the products of every fusion. */

/* 16 units: c = σ(f)∘c + σ(i)∘tanh(g), h = σ(o)∘tanh(c), each over one denominator; what goes into the gates stands
   ``apart`` in z. σ(x) = 1 / (1 + e^-x), tanh(x) = (1 - e^-2x) / (1 + e^-2x). */
ALWAYS TARGET Floats NAME(cell)(const float *z, size_t apart, float *c) {
    Floats i = 1 + NAME(exponential)(-NAME(load)(z)), f = 1 + NAME(exponential)(-NAME(load)(z + apart));
    Floats g = NAME(exponential)(-2 * NAME(load)(z + 2 * apart)), o = 1 + NAME(exponential)(-NAME(load)(z + 3 * apart));
    Floats ig = i * (1 + g), now = NAME(fma)(NAME(load)(c), ig, (1 - g) * f) / (ig * f);
    Floats t = NAME(exponential)(-2 * now);
    memcpy(c, &now, sizeof now);
    return (1 - t) / (o * (1 + t));
}

/* z = gates + h·W_hh, of n groups */
ALWAYS TARGET void NAME(gates)(Rows rows, const float *gates, const uint8_t *q, const int n, float *z) {
    Ints sums[4];
    NAME(sums)(rows, q, n, sums);
    for (int m = 0; m < n; m++) {
        Floats scale = NAME(load)(rows.scales + m * LANES);
        Floats now = NAME(fma)(__builtin_convertvector(sums[m], Floats), scale, NAME(load)(gates + m * LANES));
        memcpy(z + m * LANES, &now, sizeof now);
    }
}

/* The last H mod 16 units: no more is read or written than there is; what the other lanes hold does no harm. */
ALWAYS TARGET Floats NAME(rest)(Rows rows, const float *gates, const uint8_t *q, size_t units, float *z, float *c) {
    for (size_t row = 0; row < 4 * units; row += LANES) {
        float some[LANES] = {0};
        const size_t left = 4 * units - row;
        for (size_t j = 0; left < LANES && j < left; j++) some[j] = gates[row + j];
        NAME(gates)(rows, left < LANES ? some : gates + row, q, 1, z + row);
        rows.weights += 64, rows.scales += LANES, rows.starts += LANES;
    }
    return NAME(cell)(z, units, c);
}

static TARGET void NAME(walk)(const Lstm *job, int direction) {
    const size_t H = job->H, T = job->T, blocks = (H + LANES - 1) / LANES;
    const size_t groups = (4 * H + LANES - 1) / LANES, first = direction * groups, fours = (H + 3) / 4;
    float c[blocks * LANES], z[7 * LANES] = {0};
    uint8_t q[2][blocks * LANES]; /* 128 + 127·h of the step before and of this one, by turns */
    memset(c, 0, sizeof c);
    memset(q, 128, sizeof q);
    for (size_t step = 0; step < T; step++) {
        const size_t t = direction ? T - 1 - step : step;
        const float *gates = job->gates + (2 * t + direction) * 4 * H;
        float *states = job->states + (2 * t + direction) * H;
        for (size_t number = 0; number < blocks; number++) {
            /* there and back, so that the weights, a little too many for the first cache, are partly still in it */
            const size_t block = step % 2 ? blocks - 1 - number : number;
            const size_t unit = block * LANES, units = H - unit < LANES ? H - unit : LANES, group = first + 4 * block;
            const size_t stride = 64 * (units < LANES ? groups - 4 * block : 4);
            const Rows rows = {job->weights + 64 * fours * group, stride, fours, job->scales + group * LANES,
                               job->starts + group * LANES};
            Floats h;
            if (units == LANES) {
                NAME(gates)(rows, gates + 4 * unit, q[step % 2], 4, z);
                h = NAME(cell)(z, LANES, c + unit);
                memcpy(states + unit, &h, sizeof h);
            } else {
                h = NAME(rest)(rows, gates + 4 * unit, q[step % 2], units, z, c + unit);
                for (size_t j = 0; j < units; j++) states[unit + j] = h[j];
            }
            const Floats up = NAME(fma)(h, EACH(127), EACH(128.5f));
            Bytes rounded = __builtin_convertvector(__builtin_convertvector(up, Ints), Bytes);
            memcpy(q[1 - step % 2] + unit, &rounded, sizeof rounded);
        }
    }
}

/* 16 of o = x + σ(g)∘(relu(r) - x) */
ALWAYS TARGET void NAME(fuse)(const float *r, const float *g, const float *x, float *o) {
    Floats candidate = NAME(load)(r), from = NAME(load)(x);
    candidate = 0.5f * (candidate + (Floats)((Ints)candidate & 0x7fffffff)); /* relu, by |r| */
    Floats now = from + (candidate - from) / (1 + NAME(exponential)(-NAME(load)(g)));
    memcpy(o, &now, sizeof now);
}

static TARGET void NAME(highway)(const float *both, const float *x, float *o, size_t rows, size_t width) {
    for (size_t row = 0; row < rows; row++, both += 2 * width, x += width, o += width) {
        if (width < LANES) {
            float r[LANES] = {0}, g[LANES] = {0}, from[LANES] = {0}, to[LANES];
            for (size_t j = 0; j < width; j++) r[j] = both[j], g[j] = both[width + j], from[j] = x[j];
            NAME(fuse)(r, g, from, to);
            for (size_t j = 0; j < width; j++) o[j] = to[j];
            continue;
        }
        for (size_t k = 0; k < width; k += LANES) { /* the last 16 may be among those before: they come out the same */
            const size_t at = k + LANES <= width ? k : width - LANES;
            NAME(fuse)(both + at, both + width + at, x + at, o + at);
        }
    }
}
