/* Everything for every kind of processor, and the choice between them. */

#include "native.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 10)
#define X86
#endif

#define ALWAYS static inline __attribute__((always_inline))

/* Compiled as it stands, whoever calls it. */
#ifdef __clang__
#define ALONE static __attribute__((noinline))
#else
#define ALONE static __attribute__((noinline, noclone))
#endif

#define CACHE_LINES __attribute__((aligned(64)))

#define EACH(number) ((number) - (Floats){0})

typedef float Floats __attribute__((vector_size(64)));
typedef double Doubles __attribute__((vector_size(128)));
typedef int64_t Longs __attribute__((vector_size(128)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Uints __attribute__((vector_size(64)));
typedef uint16_t Shorts __attribute__((vector_size(32)));
typedef uint8_t Bytes __attribute__((vector_size(16)));
typedef int32_t Quarter __attribute__((vector_size(16), may_alias));
typedef float Eight __attribute__((vector_size(32)));
typedef float Four __attribute__((vector_size(16)));

/* Rows of W_hh, n groups of them: 64 weights of each for every four columns, ``stride`` from one four to the next. */
typedef struct {
    const int8_t *weights;
    size_t stride, fours;
    const float *scales;
    const int32_t *starts;
} Rows;

/* What one part of a layer's rows works in: BLOCK rows at a time. */
typedef struct {
    Rounded rounded;
    float *narrow, *wide; /* [BLOCK, width], [BLOCK, inner] */
} Room;

static size_t part_begin(const Layer *job, size_t part) { return up(job->s, PARTS * ROWS) / PARTS * part; }

static size_t part_end(const Layer *job, size_t part) {
    const size_t end = part_begin(job, part + 1);
    return end < job->s ? end : job->s;
}

static size_t keys_of_head(const Layer *job) { return 4 * ((job->width / job->heads + 1) / 2) * up(job->s, LANES); }

static size_t values_of_head(const Layer *job) { return 4 * ((job->s + 1) / 2) * up(job->width / job->heads, LANES); }

static size_t widest(const Layer *job) { return up(job->width > job->inner.columns ? job->width : job->inner.columns, LANES); }

static size_t room_size(const Layer *job) { return BLOCK * (5 * widest(job) + 4 * up(job->width, LANES) + 4); }

static Room room_of(const Layer *job, size_t part) {
    uint8_t *begin = job->rooms + part * up(room_size(job), 64);
    float *narrow = (float *)begin, *wide = narrow + BLOCK * up(job->width, LANES), *steps = wide + BLOCK * widest(job);
    return (Room){{(uint8_t *)(steps + BLOCK), steps}, narrow, wide};
}

#ifdef X86
#include <immintrin.h>
#endif

/* Any processor. */
#define TARGET
#define NAME(name) name##_any

ALWAYS Floats limit_any(Floats x, float a) {
    for (int j = 0; j < LANES; j++) x[j] = x[j] < a ? x[j] : a;
    for (int j = 0; j < LANES; j++) x[j] = x[j] > -a ? x[j] : -a;
    return x;
}

/* a·b + c, rounded once. In a double the product is exact. A sum that was rounded, and to half way between two floats,
   must not be rounded again: there it is rounded to odd instead, to the neighbour whose last bit is 1. */
static __attribute__((noinline, unused)) Floats fma_to_odd(Floats a, Floats b, Floats c) {
    const Doubles p = __builtin_convertvector(a, Doubles) * __builtin_convertvector(b, Doubles);
    const Doubles q = __builtin_convertvector(c, Doubles), sum = p + q, of_q = sum - p;
    const Doubles lost = (p - (sum - of_q)) + (q - of_q);
    const Longs odd = (Longs)sum & 1, inexact = (lost > 0) | (lost < 0), larger = (lost > 0) == (sum > 0);
    const Longs bits = (Longs)sum + ((odd - 1) & inexact & (~larger | 1));
    return __builtin_convertvector((Doubles)bits, Floats);
}

ALWAYS Floats fma_any(Floats a, Floats b, Floats c) {
#ifdef __FP_FAST_FMAF
    for (int j = 0; j < LANES; j++) c[j] = __builtin_fmaf(a[j], b[j], c[j]);
    return c;
#else
    const Doubles p = __builtin_convertvector(a, Doubles) * __builtin_convertvector(b, Doubles);
    const Doubles sum = p + __builtin_convertvector(c, Doubles);
    const Longs half_way = (((Longs)sum & 0x1fffffff) ^ 0x10000000) - 1; /* below 0 there */
    Quarter parts[8];
    memcpy(parts, &half_way, sizeof parts);
    for (int k = 1; k < 8; k++) parts[0] |= parts[k];
    if ((parts[0][1] | parts[0][3]) < 0) return fma_to_odd(a, b, c);
    return __builtin_convertvector(sum, Floats);
#endif
}

/* Four products of 8 bits in every lane, two at a time: one of them fits into 16 bits. */
ALWAYS Quarter dot8_any(Quarter sum, int32_t lane, Quarter column) {
    typedef int16_t Signed __attribute__((vector_size(16)));
    typedef uint16_t Positive __attribute__((vector_size(16)));
    const Positive q = (Positive)((Quarter){0} + lane);
    const Signed even = (Signed)(q & 255), odd = (Signed)(q >> 8);
    const Signed low = (Signed)column << 8 >> 8, high = (Signed)column >> 8;
#ifdef X86
    sum += (Quarter)_mm_madd_epi16((__m128i)even, (__m128i)low);
    return sum + (Quarter)_mm_madd_epi16((__m128i)odd, (__m128i)high);
#else
    const Quarter first = (Quarter)(low * even), second = (Quarter)(high * odd);
    return sum + (first << 16 >> 16) + (first >> 16) + (second << 16 >> 16) + (second >> 16);
#endif
}

ALWAYS void sums_any(Rows rows, const uint8_t *q, const int n, Ints *sums) {
    memcpy(sums, rows.starts, n * sizeof *sums);
    for (size_t k = 0; k < rows.fours; k++)
        for (int part = 0; part < 4 * n; part++) {
            int32_t four;
            Quarter weights;
            memcpy(&four, q + 4 * k, sizeof four);
            memcpy(&weights, rows.weights + k * rows.stride + sizeof weights * part, sizeof weights);
            ((Quarter *)sums)[part] = dot8_any(((Quarter *)sums)[part], four, weights);
        }
}

ALWAYS Floats larger_any(Floats a, Floats b) {
    for (int j = 0; j < LANES; j++) a[j] = a[j] > b[j] ? a[j] : b[j];
    return a;
}

ALWAYS Floats some_any(const float *from, size_t n) {
    Floats x = {0};
    memcpy(&x, from, 4 * (n < LANES ? n : LANES));
    return x;
}

ALWAYS void put_any(float *to, Floats x, size_t n) { memcpy(to, &x, 4 * (n < LANES ? n : LANES)); }

/* Two products, the second one of a lane first, as the instruction of AVX-512 adds them; each is exact in a float. */
ALWAYS Quarter dot16_any(Quarter sum, int32_t lane, Quarter column) {
    const Quarter a = (Quarter){0} + lane;
    const Four first = (Four)sum + (Four)(a & -65536) * (Four)(column & -65536);
    return (Quarter)(first + (Four)(a << 16) * (Four)(column << 16));
}

#define PART Quarter
#define AT_ONCE 2
#include "vectors.h"
#include "lstm.h"
#include "products.h"
#include "encoder.h"
#undef TARGET
#undef NAME

#ifdef X86
/* AVX2, with products of 16 bits: the instruction for 8 would cut off sums that are too large for it. */
#define TARGET __attribute__((target("avx2,fma")))
#define NAME(name) name##_avx2

ALWAYS TARGET Floats limit_avx2(Floats x, float a) {
    __m256 half[2];
    memcpy(half, &x, sizeof x);
    for (int k = 0; k < 2; k++) half[k] = _mm256_max_ps(_mm256_min_ps(half[k], _mm256_set1_ps(a)), _mm256_set1_ps(-a));
    memcpy(&x, half, sizeof x);
    return x;
}

ALWAYS TARGET Floats fma_avx2(Floats a, Floats b, Floats c) {
    __m256 x[2], y[2], z[2];
    memcpy(x, &a, sizeof a);
    memcpy(y, &b, sizeof b);
    memcpy(z, &c, sizeof c);
    for (int k = 0; k < 2; k++) z[k] = _mm256_fmadd_ps(x[k], y[k], z[k]);
    memcpy(&c, z, sizeof c);
    return c;
}

ALWAYS TARGET void sums_avx2(Rows rows, const uint8_t *q, const int n, Ints *sums) {
    for (int m = 0; m < n; m++) {
        const __m256i *starts = (const __m256i *)(rows.starts + m * LANES);
        __m256i part[4], both[2]; /* part: of four rows, two sums each */
        for (int r = 0; r < 4; r++) part[r] = _mm256_setzero_si256();
        for (size_t k = 0; k < rows.fours; k++) {
            const __m128i *w = (const __m128i *)(rows.weights + k * rows.stride + 64 * m);
            int32_t four;
            memcpy(&four, q + 4 * k, 4);
            const __m256i h = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
            for (int r = 0; r < 4; r++) {
                const __m256i products = _mm256_madd_epi16(h, _mm256_cvtepi8_epi16(_mm_loadu_si128(w + r)));
                part[r] = _mm256_add_epi32(part[r], products);
            }
        }
        for (int r = 0; r < 2; r++) { /* the horizontal sum has rows 0 1 4 5 2 3 6 7 */
            const __m256i mixed = _mm256_hadd_epi32(part[2 * r], part[2 * r + 1]);
            both[r] = _mm256_add_epi32(_mm256_loadu_si256(starts + r), _mm256_permute4x64_epi64(mixed, 0xD8));
        }
        memcpy(sums + m, both, sizeof both);
    }
}

ALWAYS TARGET Floats larger_avx2(Floats a, Floats b) {
    __m256 x[2], y[2];
    memcpy(x, &a, sizeof a);
    memcpy(y, &b, sizeof b);
    for (int k = 0; k < 2; k++) x[k] = _mm256_max_ps(x[k], y[k]);
    memcpy(&a, x, sizeof a);
    return a;
}

ALWAYS TARGET Floats some_avx2(const float *from, size_t n) {
    Floats x = {0};
    if (n >= LANES) memcpy(&x, from, sizeof x);
    else memcpy(&x, from, 4 * n);
    return x;
}

ALWAYS TARGET void put_avx2(float *to, Floats x, size_t n) {
    if (n >= LANES) memcpy(to, &x, sizeof x);
    else memcpy(to, &x, 4 * n);
}

/* Bytes 0 and 2 of every lane, then 1 and 3: products of 16 bits add up by twos. */
ALWAYS TARGET __m256i dot8_avx2(__m256i sum, int32_t lane, __m256i column) {
    const __m256i four = _mm256_set1_epi32(lane), mask = _mm256_set1_epi16(255);
    const __m256i low = _mm256_srai_epi16(_mm256_slli_epi16(column, 8), 8), high = _mm256_srai_epi16(column, 8);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_and_si256(four, mask), low));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_srli_epi16(four, 8), high));
}

ALWAYS TARGET __m256i dot16_avx2(__m256i sum, int32_t lane, __m256i column) { /* in the order of dot16_any */
    const __m256i two = _mm256_set1_epi32(lane), upper = _mm256_set1_epi32(-65536);
    const __m256 a = (__m256)_mm256_and_si256(two, upper), b = (__m256)_mm256_and_si256(column, upper);
    const __m256 now = _mm256_fmadd_ps(a, b, (__m256)sum);
    return (__m256i)_mm256_fmadd_ps((__m256)_mm256_slli_epi32(two, 16), (__m256)_mm256_slli_epi32(column, 16), now);
}

#undef PART
#define PART __m256i
#include "vectors.h"
#include "lstm.h"
#include "products.h"
#include "encoder.h"
#undef TARGET
#undef NAME

/* AVX-512 with VNNI: four products and their sum in one instruction, of which eight at least must be under way. */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")))
#define NAME(name) name##_vnni

ALWAYS TARGET Floats limit_vnni(Floats x, float a) {
    return (Floats)_mm512_max_ps(_mm512_min_ps((__m512)x, _mm512_set1_ps(a)), _mm512_set1_ps(-a));
}

ALWAYS TARGET Floats fma_vnni(Floats a, Floats b, Floats c) {
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

ALWAYS TARGET void four_vnni(const int8_t *w, const uint8_t *q, const int n, __m512i *sums) {
    int32_t four;
    memcpy(&four, q, 4);
    for (int m = 0; m < n; m++)
        sums[m] = _mm512_dpbusd_epi32(sums[m], _mm512_set1_epi32(four), _mm512_loadu_si512(w + 64 * m));
}

ALWAYS TARGET void sums_vnni(Rows rows, const uint8_t *q, const int n, Ints *sums) {
    __m512i even[4], odd[4];
    for (int m = 0; m < n; m++) even[m] = _mm512_loadu_si512(rows.starts + m * LANES), odd[m] = _mm512_setzero_si512();
    size_t k = 0;
    for (; k + 2 <= rows.fours; k += 2) {
        four_vnni(rows.weights + k * rows.stride, q + 4 * k, n, even);
        four_vnni(rows.weights + (k + 1) * rows.stride, q + 4 * k + 4, n, odd);
    }
    if (k < rows.fours) four_vnni(rows.weights + k * rows.stride, q + 4 * k, n, even);
    for (int m = 0; m < n; m++) sums[m] = (Ints)even[m] + (Ints)odd[m];
}

ALWAYS TARGET Floats larger_vnni(Floats a, Floats b) { return (Floats)_mm512_max_ps((__m512)a, (__m512)b); }

ALWAYS TARGET __mmask16 first_vnni(size_t n) { return (__mmask16)(n < LANES ? (1u << n) - 1 : 0xffff); }

ALWAYS TARGET Floats some_vnni(const float *from, size_t n) {
    return (Floats)_mm512_maskz_loadu_ps(first_vnni(n), from);
}

ALWAYS TARGET void put_vnni(float *to, Floats x, size_t n) { _mm512_mask_storeu_ps(to, first_vnni(n), (__m512)x); }

ALWAYS TARGET __m512i dot8_vnni(__m512i sum, int32_t lane, __m512i column) {
    return _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(lane), column);
}

ALWAYS TARGET __m512i dot16_vnni(__m512i sum, int32_t lane, __m512i column) {
    const __m512i two = _mm512_set1_epi32(lane), upper = _mm512_set1_epi32(-65536); /* in the order of dot16_any */
    const __m512 a = (__m512)_mm512_and_si512(two, upper), b = (__m512)_mm512_and_si512(column, upper);
    const __m512 now = _mm512_fmadd_ps(a, b, (__m512)sum);
    return (__m512i)_mm512_fmadd_ps((__m512)_mm512_slli_epi32(two, 16), (__m512)_mm512_slli_epi32(column, 16), now);
}

#undef PART
#undef AT_ONCE
#define PART __m512i
#define AT_ONCE GROUPS
#include "vectors.h"
#include "lstm.h"
#include "products.h"
#include "encoder.h"
#undef TARGET
#undef NAME

/* The same with an instruction for products in bfloat16, as newer processors have it; LSTMs need none. */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,fma")))
#define NAME(name) name##_bf16
#define limit_bf16 limit_vnni
#define fma_bf16 fma_vnni
#define larger_bf16 larger_vnni
#define some_bf16 some_vnni
#define put_bf16 put_vnni
#define dot8_bf16 dot8_vnni
#define walk_bf16 walk_vnni
#define highway_bf16 highway_vnni

ALWAYS TARGET __m512i dot16_bf16(__m512i sum, int32_t lane, __m512i column) {
    return (__m512i)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(lane), (__m512bh)column);
}

#include "vectors.h"
#include "products.h"
#include "encoder.h"
#undef TARGET
#undef NAME
#endif

static int most = BF16;

void native_limit(int kind) { most = kind; }

int lstm_best(void) {
    int kind = ANY;
#ifdef X86
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kind = AVX2;
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        kind = __builtin_cpu_supports("avx512bf16") ? BF16 : VNNI;
#endif
    return kind < most ? kind : most;
}

/* What the operators call, of the kind that they were told. */
#ifdef X86
#define CALL(name, ...)                          \
    (kind == BF16   ? name##_bf16(__VA_ARGS__)   \
     : kind == VNNI ? name##_vnni(__VA_ARGS__)   \
     : kind == AVX2 ? name##_avx2(__VA_ARGS__)   \
                    : name##_any(__VA_ARGS__))
#else
#define CALL(name, ...) ((void)kind, name##_any(__VA_ARGS__))
#endif

void lstm_walk(const Lstm *job, int direction, int kind) { CALL(walk, job, direction); }

void lstm_highway(const float *both, const float *x, float *o, size_t rows, size_t width, int kind) {
    CALL(highway, both, x, o, rows, width);
}

size_t linear_size(const Linear *job) { return up(up(job->m, ROWS) * up(job->W.inner, 4), 64) + 4 * job->m; }

size_t linear_panels(const Linear *job) { return up(job->W.columns, GROUPS * LANES) / (GROUPS * LANES); }

void linear_start(Linear *job, void *memory, int kind) {
    const size_t inner = job->W.inner, bytes = up(inner, 4), all = up(job->m, ROWS) * bytes;
    job->x.q = memory;
    job->x.steps = (float *)(job->x.q + up(all, 64));
    for (size_t row = 0; row < job->m; row++) {
        const float *x = job->given + row * inner;
        uint8_t *q = job->x.q + row * bytes;
        job->x.steps[row] = CALL(round, x, inner, q);
    }
    memset(job->x.q + job->m * bytes, 0, all - job->m * bytes);
}

void linear_panel(const Linear *job, size_t panel, int kind) { CALL(linear, job, panel); }

static size_t keys_size(const Align *job) { return 4 * ((job->width + 1) / 2) * up(job->p, LANES); }

static size_t values_size(const Align *job) { return 4 * ((job->p + 1) / 2) * up(job->w, LANES); }

size_t align_size(const Align *job) {
    return keys_size(job) + values_size(job) + 4 * up(job->m, ROWS) * up(job->p, LANES);
}

size_t align_blocks(const Align *job) { return up(job->m, ROWS) / ROWS; }

size_t align_groups(const Align *job) { return up(job->p, LANES) / LANES; }

void align_start(Align *job, void *memory, int kind) {
    job->packed_keys = memory;
    job->packed_values = job->packed_keys + keys_size(job);
    job->logits = (float *)(job->packed_values + values_size(job));
    CALL(align_start, job);
}

void align_rows(const Align *job, size_t block, int kind) { CALL(align_rows, job, block); }

void align_columns(const Align *job, size_t group, int kind) { CALL(align_columns, job, group); }

size_t point_blocks(const Point *job) { return up(job->m, ROWS) / ROWS; }

void point_rows(const Point *job, size_t block, int kind) { CALL(point_rows, job, block); }

void norm_rows(const float *x, size_t s, size_t n, Norm norm, float epsilon, float *to, int kind) {
    for (size_t row = 0; row < s; row++) CALL(norm, x + row * n, n, norm, epsilon, to + row * n);
}

size_t layer_size(const Layer *job) {
    const size_t floats = 4 * job->s * job->width;
    const size_t packed = job->heads * (up(keys_of_head(job), 64) + up(values_of_head(job), 64));
    return up(3 * floats, 64) + up(floats, 64) + packed + PARTS * up(room_size(job), 64);
}

void layer_start(Layer *job, void *memory) {
    const size_t floats = 4 * job->s * job->width;
    uint8_t *at = memory;
    job->projected = (float *)at;
    job->context = (float *)(at += up(3 * floats, 64));
    job->keys = at += up(floats, 64);
    job->values = at += job->heads * up(keys_of_head(job), 64);
    job->rooms = at + job->heads * up(values_of_head(job), 64);
}

void layer_project(const Layer *job, size_t part, int kind) { CALL(layer_project, job, part); }

void layer_head(const Layer *job, size_t head, int kind) { CALL(layer_head, job, head); }

void layer_rest(const Layer *job, size_t part, int kind) { CALL(layer_rest, job, part); }

void *native_memory(size_t size) { return aligned_alloc(64, up(size, 64)); }
