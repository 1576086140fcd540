/* 16 numbers at a time, compiled anew for each TARGET around its own NAME(limit). */

ALWAYS TARGET Floats NAME(load)(const float *from) {
    Floats x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* e^x for |x| ≤ 20, to 2e-7 of it; beyond that e^±20, with which 1 / (1 + e^x) is as good. */
ALWAYS TARGET Floats NAME(exponential)(Floats x) {
    x = NAME(limit)(x, 20.0f);
    Floats power = x * 1.44269504f, whole = power + 12582912.0f - 12582912.0f, r = power - whole; /* |r| ≤ 1/2 */
    Floats y = r * 1.33908634e-3f + 9.67602916e-3f; /* 2^r, exact at the Chebyshev nodes */
    y = y * r + 5.55035699e-2f;
    y = y * r + 2.40221071e-1f;
    y = y * r + 6.93147190e-1f;
    y = y * r + 1.00000008f;
    return y * (Floats)((__builtin_convertvector(whole, Ints) + 127) << 23);
}

