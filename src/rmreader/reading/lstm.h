#include <stddef.h>
#include <stdint.h>

#define LANES 16

enum { LSTM_ANY, LSTM_AVX2, LSTM_VNNI }; /* what a processor can do, each more than the one before */

typedef struct {
    const float *gates;    /* [T, 2, 4H]: x·W_ih + b */
    const int8_t *weights; /* [2, groups, columns / 4, 16, 4] */
    const float *scales;   /* [2, groups · 16]: what a sum of a row is to be multiplied by */
    const int32_t *starts; /* [2, groups · 16]: what it starts with, because 128 is added to the rounded states */
    float *states;         /* [T, 2H], written */
    size_t T, H;
} Job;

int lstm_best(void);
void lstm_walk(const Job *job, int direction, int kind);

/* Eq. 13 once its products are made: o = x + σ(g)∘(relu(r) - x); [r, g] = both [rows, 2·width]. */
void lstm_highway(const float *both, const float *x, float *o, size_t rows, size_t width, int kind);

/* Both directions, one after the other; 1 where the processor cannot. */
int lstm_both(const float *gates, const int8_t *weights, const float *scales, const int32_t *starts, float *states,
              size_t T, size_t H, int kind);
