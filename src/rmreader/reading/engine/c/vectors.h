/* 16 numbers at a time, compiled anew for each TARGET around its own NAME(limit) and NAME(fma). Where a product is added
   to something, NAME(fma) says so, and rounds once; the compiler may join no others (-ffp-contract=off). So every kind
   of processor, and every compiler, gives the same bits. */

ALWAYS TARGET Floats NAME(load)(const float *from) {
    Floats x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* e^x for |x| ≤ 20, to 2e-7 of it; beyond that e^±20, with which 1 / (1 + e^x) is as good. */
ALWAYS TARGET Floats NAME(exponential)(Floats x) {
    x = NAME(limit)(x, 20.0f);
    Floats whole = NAME(fma)(x, EACH(1.44269504f), EACH(12582912.0f)) - 12582912.0f;
    Floats r = NAME(fma)(x, EACH(1.44269504f), -whole); /* |r| ≤ 1/2 */
    Floats y = NAME(fma)(r, EACH(1.33908634e-3f), EACH(9.67602916e-3f)); /* 2^r, exact at the Chebyshev nodes */
    y = NAME(fma)(y, r, EACH(5.55035699e-2f));
    y = NAME(fma)(y, r, EACH(2.40221071e-1f));
    y = NAME(fma)(y, r, EACH(6.93147190e-1f));
    y = NAME(fma)(y, r, EACH(1.00000008f));
    return y * (Floats)((__builtin_convertvector(whole, Ints) + 127) << 23);
}

