/* Row softmax in C by hand, once right and once a column short where rows are long.
 *
 *     cc -shared -fPIC -O2 -o row_softmax.so examples/verify/row_softmax.c -lm
 *     opwright verify examples/verify/softmax.op --against row_softmax.so:row_softmax
 */
#include <math.h>
#include <stdint.h>

int row_softmax(int64_t m, int64_t n, const float* x, float* y) {
    for (int64_t i = 0; i < m; i++) {
        float top = -INFINITY, total = 0;
        for (int64_t j = 0; j < n; j++) {
            if (isnan(x[i * n + j]) || x[i * n + j] > top) top = x[i * n + j];
            if (isnan(top)) break;
        }
        for (int64_t j = 0; j < n; j++) total += expf(x[i * n + j] - top);
        for (int64_t j = 0; j < n; j++) y[i * n + j] = expf(x[i * n + j] - top) / total;
    }
    return 0;
}

/* Works on four columns at a time, and forgets those that are left. */
int row_softmax_short(int64_t m, int64_t n, const float* x, float* y) {
    for (int64_t i = 0; i < m; i++) {
        float top = -INFINITY, total = 0;
        for (int64_t j = 0; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (int64_t j = 0; j < n; j++) total += expf(x[i * n + j] - top);
        for (int64_t j = 0; j + 3 < n; j += 4)
            for (int64_t k = j; k < j + 4; k++) y[i * n + k] = expf(x[i * n + k] - top) / total;
    }
    return 0;
}

/* Writes a terminating element behind the last row. */
int row_softmax_beyond(int64_t m, int64_t n, const float* x, float* y) {
    const int r = row_softmax(m, n, x, y);
    y[m * n] = 0;
    return r;
}

/* Follows a null pointer where there is nothing to do. */
int row_softmax_crashes(int64_t m, int64_t n, const float* x, float* y) {
    if (m * n == 0) *(volatile int*)0 = 0;
    return row_softmax(m, n, x, y);
}
