/* The recurrent part of a BiLSTM over one sequence, with 8-bit recurrent weights.

   What does not depend on the step before, x·W_ih + b, is one large product that ONNX Runtime makes beforehand. Left
   are T small products that wait for each other, h·W_hh, and the gates. A state lies in (-1, 1), so it is rounded to
   1/127 without a look at the others. Sums of integers are exact, so every processor finds the same ones.

   The 4H rows of W_hh are in groups of 16, ordered so that the gates of 16 units are four groups: units 0-15 of i, of
   f, of g, of o, then units 16-31, … The gates of the last H mod 16 units follow each other without a gap. Four groups
   (or what is left at the end) are packed together, four columns at a time. Columns of x·W_ih have the same order. */

#include "lstm.h"

#include <string.h>

#define ALWAYS static inline __attribute__((always_inline))

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint8_t Bytes __attribute__((vector_size(16)));

/* Rows of W_hh, n groups of them: 64 weights of each for every four columns, ``stride`` from one four to the next. */
typedef struct {
    const int8_t *weights;
    size_t stride, fours;
    const float *scales;
    const int32_t *starts;
} Rows;

/* Any processor. */
#define TARGET
#define NAME(name) name##_any

ALWAYS Floats limit_any(Floats x, float a) {
    for (int j = 0; j < LANES; j++) x[j] = x[j] > a ? a : x[j] < -a ? -a : x[j];
    return x;
}

ALWAYS void sums_any(Rows rows, const uint8_t *q, const int n, Ints *sums) {
    memcpy(sums, rows.starts, n * sizeof *sums);
    for (size_t k = 0; k < rows.fours; k++)
        for (int m = 0; m < n; m++)
            for (int lane = 0; lane < LANES; lane++)
                for (int j = 0; j < 4; j++)
                    sums[m][lane] += q[4 * k + j] * rows.weights[k * rows.stride + 64 * m + 4 * lane + j];
}

#include "lstm_walk.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

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

#include "lstm_walk.h"

/* AVX-512 with VNNI: four products and their sum in one instruction, of which eight at least must be under way. */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")))
#define NAME(name) name##_vnni

ALWAYS TARGET Floats limit_vnni(Floats x, float a) {
    return (Floats)_mm512_max_ps(_mm512_min_ps((__m512)x, _mm512_set1_ps(a)), _mm512_set1_ps(-a));
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

#include "lstm_walk.h"
#endif

int lstm_best(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return LSTM_VNNI;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return LSTM_AVX2;
#endif
    return LSTM_ANY;
}

void lstm_walk(const Job *job, int direction, int kind) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (kind == LSTM_VNNI) walk_vnni(job, direction);
    if (kind == LSTM_AVX2) walk_avx2(job, direction);
#endif
    if (kind == LSTM_ANY) walk_any(job, direction);
}

void lstm_highway(const float *both, const float *x, float *o, size_t rows, size_t width, int kind) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (kind == LSTM_VNNI) highway_vnni(both, x, o, rows, width);
    if (kind == LSTM_AVX2) highway_avx2(both, x, o, rows, width);
#endif
    if (kind == LSTM_ANY) highway_any(both, x, o, rows, width);
}

int lstm_both(const float *gates, const int8_t *weights, const float *scales, const int32_t *starts, float *states,
              size_t T, size_t H, int kind) {
    const Job job = {gates, weights, scales, starts, states, T, H};
    if (kind > lstm_best()) return 1;
    for (int direction = 0; direction < 2; direction++) lstm_walk(&job, direction, kind);
    return 0;
}
