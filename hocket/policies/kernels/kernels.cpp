// The few loops that torch's operators would spread over many passes: norms, rotary turns, attention along trees and
// pages, the gate, log-probs and draws. Matrix products stay with torch.
//
// Every result of one token is computed in an order that depends on the token alone, not on what stands beside it, nor
// on threads: sums over a head run from its first number to its last, sums over keys in sixteen lanes by position. So
// the sampler, which reads pages, and the learner, which reads trees, get the same bits.
//
// What sampler and learner must do alike is never inlined, so that it is the same code.
//
// Plain C interface. `half` tells whether activations are bfloat16 (else float); all arithmetic is float.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace {

constexpr int LANES = 16;
typedef uint16_t bf16;

// ---------------------------------------------------------------- numbers

// A register's worth of numbers: sixteen with AVX-512, eight with AVX, else four. g++ keeps vectors that are wider than
// a register in memory: it then takes minutes, and attention is ten times slower.
#if defined __AVX512F__
constexpr int WIDE = 16;
#elif defined __AVX__
constexpr int WIDE = 8;
#else
constexpr int WIDE = 4;
#endif
typedef float Part __attribute__((vector_size(4 * WIDE)));
typedef int32_t Ints __attribute__((vector_size(4 * WIDE)));
typedef uint32_t Bits __attribute__((vector_size(4 * WIDE)));
typedef uint16_t Halves __attribute__((vector_size(2 * WIDE)));

inline void fetch(Part& x, const float* from) { std::memcpy(&x, from, sizeof x); }
inline void fetch(Part& x, const bf16* from) {
    Halves h;
    std::memcpy(&h, from, sizeof h);
    x = (Part)(__builtin_convertvector(h, Bits) << 16);
}
inline void store(float* to, Part x) { std::memcpy(to, &x, sizeof x); }
#ifdef __AVX512BF16__
inline void store(bf16* to, Part x) {
    const auto h = _mm512_cvtneps_pbh((__m512)x);
    std::memcpy(to, &h, sizeof h);
}
#else
inline void store(bf16* to, Part x) {  // To the nearest, ties to even.
    Bits b = (Bits)x;
    Bits rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
    Bits kept = (b >> 16) | 0x40u;  // Not a number stays not a number.
    Ints odd = (b & 0x7fffffffu) > 0x7f800000u;
    Halves h = __builtin_convertvector((Bits)odd ? kept : rounded, Halves);
    std::memcpy(to, &h, sizeof h);
}
#endif
inline float one(const float* from) { return *from; }
inline float one(const bf16* from) { uint32_t b = uint32_t(*from) << 16; float x; std::memcpy(&x, &b, 4); return x; }
inline void put(float* to, float x) { *to = x; }
inline void put(bf16* to, float x) {
    uint32_t b;
    std::memcpy(&b, &x, 4);
#ifdef __AVX512BF16__
    if (!(b & 0x7f800000u)) b &= 0x80000000u;  // As that instruction does.
#endif
    *to = (b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
}

inline Part maximum(Part a, Part b) { return a > b ? a : b; }
inline Part if_positive(Part a, Part x) { return a > 0.0f ? x : Part{}; }
inline Part if_small(Part a, Part x, Part y) { return a < 0.625f ? x : y; }

// e^x, about one unit in the last place, for x <= 88; 0 below -87.3.
inline Part expo(Part x) {
    Ints under = x < -87.3f;
    x = x < -87.3f ? Part{} - 87.3f : x;
    x = x > 88.7f ? Part{} + 88.7f : x;
    Part shifted = x * 1.44269504088896341f + 12582912.0f;  // Rounds to an integer.
    Part n = shifted - 12582912.0f;
    Part r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    Part p = Part{} + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
    Part result = p * (Part)power;
    return under ? Part{} : result;
}

alignas(64) constexpr int32_t COUNT[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
// Of numbers at the places `start`, `start` + 1, ...: those after the place `at` become -inf, or only its own is kept.
inline Ints places(int start) { Ints at; std::memcpy(&at, COUNT, sizeof at); return at + start; }
inline Part hide_after(int at, int start, Part x) { return places(start) > at ? Part{} - INFINITY : x; }
inline Part only_at(int at, int start, Part x) { return places(start) == at ? x : Part{}; }
inline Part hide_to(int at, int start, Part x) { return places(start) <= at ? Part{} - INFINITY : x; }

template <class Half> struct Two {
    static constexpr int MID = sizeof(Half) / sizeof(float);
    Half low, high;
    Two() = default;
    Two(float x) : low(Half{} + x), high(Half{} + x) {}
    Two(Half low, Half high) : low(low), high(high) {}
    float operator[](int i) const { return i < MID ? low[i] : high[i - MID]; }
    Two operator-() const { return {-low, -high}; }
    friend Two operator+(Two a, Two b) { return {a.low + b.low, a.high + b.high}; }
    friend Two operator-(Two a, Two b) { return {a.low - b.low, a.high - b.high}; }
    friend Two operator*(Two a, Two b) { return {a.low * b.low, a.high * b.high}; }
    friend Two operator/(Two a, Two b) { return {a.low / b.low, a.high / b.high}; }
    Two& operator+=(Two b) { return *this = *this + b; }
    Two& operator-=(Two b) { return *this = *this - b; }
    Two& operator*=(Two b) { return *this = *this * b; }
};
#define OF_TWO template <class H> inline Two<H>
template <class T, class H> inline void fetch(Two<H>& x, const T* at) { fetch(x.low, at); fetch(x.high, at + x.MID); }
template <class T, class H> inline void store(T* to, Two<H> x) { store(to, x.low); store(to + x.MID, x.high); }
OF_TWO maximum(Two<H> a, Two<H> b) { return {maximum(a.low, b.low), maximum(a.high, b.high)}; }
OF_TWO if_positive(Two<H> a, Two<H> x) { return {if_positive(a.low, x.low), if_positive(a.high, x.high)}; }
OF_TWO if_small(Two<H> a, Two<H> x, Two<H> y) {
    return {if_small(a.low, x.low, y.low), if_small(a.high, x.high, y.high)};
}
OF_TWO expo(Two<H> x) { return {expo(x.low), expo(x.high)}; }
OF_TWO hide_after(int at, int start, Two<H> x) {
    return {hide_after(at, start, x.low), hide_after(at, start + x.MID, x.high)};
}
OF_TWO hide_to(int at, int start, Two<H> x) {
    return {hide_to(at, start, x.low), hide_to(at, start + x.MID, x.high)};
}
OF_TWO only_at(int at, int start, Two<H> x) {
    return {only_at(at, start, x.low), only_at(at, start + x.MID, x.high)};
}
#undef OF_TWO

// Sixteen numbers.
typedef std::conditional_t<WIDE == 16, Part, std::conditional_t<WIDE == 8, Two<Part>, Two<Two<Part>>>> Vec;
inline Vec splat(float x) { return Vec{} + x; }
template <class T> inline Vec load(const T* from) { Vec x; fetch(x, from); return x; }

inline float sum(Vec x) {
    float part[LANES];
    store(part, x);
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) part[i] += part[i + width];
    return part[0];
}
inline float largest(Vec x) {
    float m = x[0];
    for (int i = 1; i < LANES; i++) m = x[i] > m ? x[i] : m;
    return m;
}

template <class T> inline Vec some(const T* from, int n, float rest) {  // The first n < 16 numbers.
    float part[LANES];
    for (int i = 0; i < LANES; i++) part[i] = i < n ? one(from + i) : rest;
    return load(part);
}

// By e^2x; near zero, where that cancels, by the polynomial of Cephes. Odd to the last bit.
inline Vec tangent(Vec x) {
    const Vec size = maximum(x, -x), square = x * x;
    Vec p = square * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    const Vec e = expo(size * -2.0f), far = (1.0f - e) / (e + 1.0f);
    return if_small(size, p * square * x + x, if_positive(x, far) - if_positive(-x, far));
}

// ---------------------------------------------------------------- norms and the gate

// x <- x + delta; normal = x / RMS(x).
template <class T>
__attribute__((noinline, noclone)) void add_norm(const float* x, const T* delta, float* sums, T* normal, float* inverse, int rows, int width, float eps,
              int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int row = 0; row < rows; row++) {
        const int64_t at = int64_t(row) * width;
        Vec squares{};
        float rest = 0;
        int i = 0;
        for (; i + LANES <= width; i += LANES) {
            Vec v = load(x + at + i);
            if (delta) { v += load(delta + at + i); store(sums + at + i, v); }
            squares += v * v;
        }
        for (; i < width; i++) {
            float v = x[at + i];
            if (delta) { v += one(delta + at + i); sums[at + i] = v; }
            rest += v * v;
        }
        const float scale = 1.0f / std::sqrt((sum(squares) + rest) / width + eps);
        inverse[row] = scale;
        const float* from = delta ? sums + at : x + at;
        for (i = 0; i + LANES <= width; i += LANES) store(normal + at + i, load(from + i) * scale);
        for (; i < width; i++) put(normal + at + i, from[i] * scale);
    }
}

// dL/dx = more + inverse (g - normal mean(g normal)), also rounded for the product that delta came from.
template <class T>
void add_norm_backward(const T* g, const T* normal, const float* inverse, const float* more, float* gx, T* gdelta,
                       int rows, int width, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int row = 0; row < rows; row++) {
        const int64_t at = int64_t(row) * width;
        Vec dots{};
        float rest = 0;
        int i = 0;
        for (; i + LANES <= width; i += LANES) dots += load(g + at + i) * load(normal + at + i);
        for (; i < width; i++) rest += one(g + at + i) * one(normal + at + i);
        const float along = (sum(dots) + rest) / width, scale = inverse[row];
        for (i = 0; i + LANES <= width; i += LANES) {
            Vec d = (load(g + at + i) - load(normal + at + i) * along) * scale;
            if (more) d += load(more + at + i);
            store(gx + at + i, d);
            if (gdelta) store(gdelta + at + i, d);
        }
        for (; i < width; i++) {
            float d = (one(g + at + i) - one(normal + at + i) * along) * scale;
            if (more) d += more[at + i];
            gx[at + i] = d;
            if (gdelta) put(gdelta + at + i, d);
        }
    }
}

// What opens a gate: silu, gelu by its tangent, or the sigmoid.
enum Opening { SILU, GELU, SIGMOID };
constexpr float GELU_BY = 0.7978845608028654f, GELU_CUBE = 0.044715f;

template <int KIND> inline Vec opened(Vec x) {
    if constexpr (KIND == SILU) return x / (expo(-x) + 1.0f);
    if constexpr (KIND == SIGMOID) return 1.0f / (expo(-x) + 1.0f);
    return x * 0.5f * (tangent((x * x * x * GELU_CUBE + x) * GELU_BY) + 1.0f);
}

// Gradients of gate and up from that of their product.
template <int KIND> inline void opened_backward(Vec x, Vec up, Vec dy, Vec& for_gate, Vec& for_up) {
    if constexpr (KIND == SILU) {
        const Vec s = 1.0f / (expo(-x) + 1.0f);
        for_up = dy * x * s;
        for_gate = dy * up * s * (x * (1.0f - s) + 1.0f);
    } else if constexpr (KIND == SIGMOID) {
        const Vec s = 1.0f / (expo(-x) + 1.0f);
        for_up = dy * s;
        for_gate = dy * up * s * (1.0f - s);
    } else {
        const Vec t = tangent((x * x * x * GELU_CUBE + x) * GELU_BY), share = (t + 1.0f) * 0.5f;
        for_up = dy * x * share;
        for_gate = dy * up * (share + x * 0.5f * (1.0f - t * t) * (x * x * (3 * GELU_CUBE) + 1.0f) * GELU_BY);
    }
}

template <class T, int KIND>
__attribute__((noinline, noclone)) void gate(const T* both, T* out, int rows, int width, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int row = 0; row < rows; row++) {
        const T *g = both + 2ll * row * width, *u = g + width;
        T* to = out + int64_t(row) * width;
        int i = 0;
        for (; i + LANES <= width; i += LANES) store(to + i, opened<KIND>(load(g + i)) * load(u + i));
        if (i < width) {
            Vec v = opened<KIND>(some(g + i, width - i, 0)) * some(u + i, width - i, 0);
            for (int j = 0; i < width; i++, j++) put(to + i, v[j]);
        }
    }
}

void open_gate(int kind, const float* both, float* out, int rows, int width, int threads) {
    if (kind == GELU) gate<float, GELU>(both, out, rows, width, threads);
    else gate<float, SILU>(both, out, rows, width, threads);
}

template <class T, int KIND> void gate_backward(const T* grad, const T* both, T* out, int rows, int width, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int row = 0; row < rows; row++) {
        const T *g = both + 2ll * row * width, *u = g + width, *d = grad + int64_t(row) * width;
        T *to_g = out + 2ll * row * width, *to_u = to_g + width;
        for (int i = 0; i < width; i += LANES) {
            const int n = width - i;
            const bool whole = n >= LANES;
            Vec x = whole ? load(g + i) : some(g + i, n, 0), up = whole ? load(u + i) : some(u + i, n, 0);
            Vec dy = whole ? load(d + i) : some(d + i, n, 0);
            Vec for_up, for_gate;
            opened_backward<KIND>(x, up, dy, for_gate, for_up);
            if (whole) { store(to_g + i, for_gate); store(to_u + i, for_up); continue; }
            for (int j = 0; j < n; j++) { put(to_g + i + j, for_gate[j]); put(to_u + i + j, for_up[j]); }
        }
    }
}

// ---------------------------------------------------------------- the gated delta rule

// Linear attention with a state S of `size` rows and `values` columns per head (Yang et al. 2024, arXiv 2412.06464):
// S <- alpha S + k (beta (v - (alpha S)^T k))^T, and its output is S^T q. Queries, keys and values `[tokens, width]`
// come before their silu, keys and queries before they have length 1. Consecutive heads share a key head.
struct Delta {
    const float *x, *a, *b, *rate, *bias;
    int keys, heads, size, values;
    int64_t width() const { return 2ll * keys * size + int64_t(heads) * values; }
    const float* query(int64_t t, int key) const { return x + t * width() + int64_t(key) * size; }
    const float* value(int64_t t, int head) const {
        return x + t * width() + 2ll * keys * size + int64_t(head) * values;
    }
    int key_of(int head) const { return head / (heads / keys); }
};
// Runs of consecutive tokens: each begins with the state of one slot and leaves its last in another, -1 for none.
struct Runs { const int32_t *start, *count, *source, *target; int runs; };

// silu(x) at length 1, times `scale`; returns the inverse length.
__attribute__((noinline)) float unit(const float* x, int size, float scale, float* to) {
    Vec squares{};
    for (int i = 0; i < size; i += LANES) {
        const Vec v = opened<SILU>(load(x + i));
        squares += v * v;
        store(to + i, v);
    }
    const float inverse = 1.0f / std::sqrt(sum(squares) + 1e-6f), factor = inverse * scale;
    for (int i = 0; i < size; i += LANES) store(to + i, load(to + i) * factor);
    return inverse;
}
inline float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }
inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

// A token's query and key, how much the state keeps and how much is written.
struct DeltaToken { float alpha, beta, of_query, of_key; };
__attribute__((noinline)) DeltaToken delta_token(const Delta& d, int64_t t, int head, float* q, float* k) {
    const int key = d.key_of(head);
    const float of_query = unit(d.query(t, key), d.size, 1.0f / std::sqrt(float(d.size)), q);
    const float of_key = unit(d.query(t, d.keys + key), d.size, 1.0f, k);
    const int64_t at = t * d.heads + head;
    return {std::exp(-std::exp(d.rate[head]) * softplus(d.a[at] + d.bias[head])), sigmoid(d.b[at]), of_query, of_key};
}

// One token in W registers of columns, which nothing else touches: rows of S are `stride` numbers apart.
template <int W>
__attribute__((noinline)) void delta_step(float* S, int64_t stride, int size, const DeltaToken& token, const float* q,
                                          const float* k, const float* v, float* out) {
    Vec memory[W] = {}, mixed[W] = {};
    for (int i = 0; i < size; i++)
        for (int w = 0; w < W; w++) {
            const Vec s = load(S + i * stride + w * LANES) * token.alpha;
            store(S + i * stride + w * LANES, s);
            memory[w] += s * k[i];
        }
    for (int w = 0; w < W; w++) memory[w] = (opened<SILU>(load(v + w * LANES)) - memory[w]) * token.beta;
    for (int i = 0; i < size; i++)
        for (int w = 0; w < W; w++) {
            const Vec s = load(S + i * stride + w * LANES) + memory[w] * k[i];
            store(S + i * stride + w * LANES, s);
            mixed[w] += s * q[i];
        }
    if (out)
        for (int w = 0; w < W; w++) store(out + w * LANES, mixed[w]);
}

// States are `[slots, heads, size, values]`; columns of a head are independent of each other.
template <int W>
void delta_rule(const Delta& d, const Runs& r, float* memory, float* out, int threads) {
    constexpr int COLUMNS = W * LANES;
    const int blocks = d.values / COLUMNS;
    const int64_t whole = int64_t(d.size) * d.values;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int part = 0; part < d.heads * blocks; part++) {
        const int head = part / blocks, column = part % blocks * COLUMNS;
        std::vector<float> S(int64_t(d.size) * COLUMNS), q(d.size), k(d.size);
        for (int n = 0; n < r.runs; n++) {
            std::fill(S.begin(), S.end(), 0.0f);
            if (r.source[n] >= 0) {
                const float* from = memory + (int64_t(r.source[n]) * d.heads + head) * whole + column;
                for (int i = 0; i < d.size; i++)
                    std::memcpy(&S[int64_t(i) * COLUMNS], from + int64_t(i) * d.values, COLUMNS * sizeof(float));
            }
            for (int64_t t = r.start[n]; t < r.start[n] + r.count[n]; t++) {
                const DeltaToken token = delta_token(d, t, head, q.data(), k.data());
                delta_step<W>(S.data(), COLUMNS, d.size, token, q.data(), k.data(), d.value(t, head) + column,
                              out + (t * d.heads + head) * d.values + column);
            }
            if (r.target[n] >= 0) {
                float* to = memory + (int64_t(r.target[n]) * d.heads + head) * whole + column;
                for (int i = 0; i < d.size; i++)
                    std::memcpy(to + int64_t(i) * d.values, &S[int64_t(i) * COLUMNS], COLUMNS * sizeof(float));
            }
        }
    }
}

// Back through one token. S is the state before it, D the gradient of the one after it and then of the one before it.
// Gradients of query and key `[size]` are added, those of values are written.
struct DeltaSlopes { float alpha, beta; };
__attribute__((noinline)) DeltaSlopes delta_step_back(const float* S, float* D, int size, int values,
                                                      const DeltaToken& token, const float* q, const float* k,
                                                      const float* v, const float* g, float* gq, float* gk, float* gv,
                                                      float* delta, float* slope) {
    Vec for_alpha{}, for_beta{};
    for (int c = 0; c < values; c += LANES) {
        Vec memory{}, back{};
        const Vec dy = load(g + c);
        for (int i = 0; i < size; i++) {
            memory += load(S + int64_t(i) * values + c) * token.alpha * k[i];
            const Vec d = load(D + int64_t(i) * values + c) + dy * q[i];
            store(D + int64_t(i) * values + c, d);
            back += d * k[i];
        }
        const Vec x = load(v + c), rest = opened<SILU>(x) - memory;
        store(delta + c, rest * token.beta);
        store(slope + c, back * token.beta);
        for_beta += back * rest;
        Vec unused, for_v;
        opened_backward<SILU>(x, splat(1.0f), back * token.beta, for_v, unused);
        store(gv + c, for_v);
    }
    for (int i = 0; i < size; i++) {
        Vec for_q{}, for_k{};
        for (int c = 0; c < values; c += LANES) {
            const Vec before = load(S + int64_t(i) * values + c), decayed = before * token.alpha;
            const Vec d = load(D + int64_t(i) * values + c), to = load(delta + c), m = load(slope + c);
            for_q += (decayed + to * k[i]) * load(g + c);
            for_k += d * to - decayed * m;
            const Vec rest = d - m * k[i];
            for_alpha += rest * before;
            store(D + int64_t(i) * values + c, rest * token.alpha);
        }
        gq[i] += sum(for_q);
        gk[i] += sum(for_k);
    }
    return {sum(for_alpha), sum(for_beta)};
}

// Of u = silu(x) inverse, with the gradient g of u scaled: that of x, in place of g.
void unit_back(const float* x, int size, float scale, float inverse, float* g) {
    Vec dots{};
    for (int i = 0; i < size; i += LANES) dots += load(g + i) * opened<SILU>(load(x + i));
    const float along = sum(dots) * inverse * inverse;
    for (int i = 0; i < size; i += LANES) {
        const Vec v = load(x + i), d = (load(g + i) - opened<SILU>(v) * along) * (inverse * scale);
        Vec unused, to;
        opened_backward<SILU>(v, splat(1.0f), d, to, unused);
        store(g + i, to);
    }
}

constexpr int SEGMENT = 16;  // Tokens whose states are kept at a time; those between are computed again.

// Gradients gx like x, ga, gb `[tokens, heads]`, grate `[heads]`, of the gradient g of the outputs. A state that runs
// begin with belongs to a run before them.
void delta_rule_backward(const Delta& d, const Runs& r, const float* memory, int slots, const float* g, float* gx,
                         float* ga, float* gb, float* grate, int threads) {
    const int64_t whole = int64_t(d.size) * d.values, width = d.width();
    const int group = d.heads / d.keys;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int key = 0; key < d.keys; key++) {
        std::vector<float> q(d.size), k(d.size), delta(d.values), slope(d.values), D(whole), S(whole);
        std::vector<float> held(SEGMENT * whole), marks, later(slots * whole);
        for (int head = key * group; head < (key + 1) * group; head++) {
            std::fill(later.begin(), later.end(), 0.0f);
            float for_rate = 0;
            for (int n = r.runs - 1; n >= 0; n--) {
                const int64_t first = r.start[n], count = r.count[n], segments = (count + SEGMENT - 1) / SEGMENT;
                marks.resize(segments * whole);
                if (r.source[n] >= 0)
                    std::memcpy(S.data(), memory + (int64_t(r.source[n]) * d.heads + head) * whole, whole * 4);
                else
                    std::fill(S.begin(), S.end(), 0.0f);
                auto forward = [&](int64_t t) {
                    const DeltaToken token = delta_token(d, t, head, q.data(), k.data());
                    const float* v = d.value(t, head);
                    int c = 0;
                    for (; c + 2 * LANES <= d.values; c += 2 * LANES)
                        delta_step<2>(S.data() + c, d.values, d.size, token, q.data(), k.data(), v + c, nullptr);
                    if (c < d.values)
                        delta_step<1>(S.data() + c, d.values, d.size, token, q.data(), k.data(), v + c, nullptr);
                };
                for (int64_t i = 0; i < count; i++) {
                    if (i % SEGMENT == 0) std::memcpy(&marks[i / SEGMENT * whole], S.data(), whole * 4);
                    forward(first + i);
                }
                if (r.target[n] >= 0)
                    std::memcpy(D.data(), &later[r.target[n] * whole], whole * 4);
                else
                    std::fill(D.begin(), D.end(), 0.0f);
                for (int64_t part = segments - 1; part >= 0; part--) {
                    const int64_t begin = part * SEGMENT, end = std::min(begin + SEGMENT, count);
                    std::memcpy(S.data(), &marks[part * whole], whole * 4);
                    for (int64_t i = begin; i < end; i++) {
                        std::memcpy(&held[(i - begin) * whole], S.data(), whole * 4);
                        if (i + 1 < end) forward(first + i);
                    }
                    for (int64_t i = end - 1; i >= begin; i--) {
                        const int64_t t = first + i, at = t * d.heads + head;
                        const DeltaToken token = delta_token(d, t, head, q.data(), k.data());
                        float* to = gx + t * width;
                        const DeltaSlopes slopes = delta_step_back(
                            &held[(i - begin) * whole], D.data(), d.size, d.values, token, q.data(), k.data(),
                            d.value(t, head), g + at * d.values, to + int64_t(key) * d.size,
                            to + int64_t(d.keys + key) * d.size, to + 2ll * d.keys * d.size + int64_t(head) * d.values,
                            delta.data(), slope.data());
                        const float by = -std::exp(d.rate[head]), from = d.a[at] + d.bias[head];
                        const float for_log = slopes.alpha * token.alpha;
                        for_rate += for_log * by * softplus(from);
                        ga[at] = for_log * by * sigmoid(from);
                        gb[at] = slopes.beta * token.beta * (1.0f - token.beta);
                    }
                }
                if (r.source[n] >= 0) {
                    float* to = &later[r.source[n] * whole];
                    for (int64_t i = 0; i < whole; i++) to[i] += D[i];
                }
            }
            grate[head] = for_rate;
        }
        for (int n = 0; n < r.runs; n++)
            for (int64_t t = r.start[n]; t < r.start[n] + r.count[n]; t++) {
                const DeltaToken token = delta_token(d, t, key * group, q.data(), k.data());
                float* to = gx + t * width;
                unit_back(d.query(t, key), d.size, 1.0f / std::sqrt(float(d.size)), token.of_query,
                          to + int64_t(key) * d.size);
                unit_back(d.query(t, d.keys + key), d.size, 1.0f, token.of_key, to + int64_t(d.keys + key) * d.size);
            }
    }
}

// ---------------------------------------------------------------- products of groups of rows

// The product of torch's own library, so that a product made here has the bits of one made there.
typedef void (*Gemm)(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*,
                     const float*, const int*, const float*, float*, const int*);

// From so many rows on a product gives each row the same bits, however many there are (ALIKE in Python).
constexpr int ALIKE = 16;

// y = x W^T + b as torch's linear layer calls it: x `[m, k]`, W `[n, k]`, or `[k, n]` when it lies across.
void linear(Gemm gemm, const float* x, const float* weight, const float* bias, float* y, int m, int n, int k, bool across) {
    const float whole = 1.0f, before = bias ? 1.0f : 0.0f;
    if (bias)
        for (int i = 0; i < m; i++) std::memcpy(y + int64_t(i) * n, bias, sizeof(float) * n);
    gemm(across ? "N" : "T", "N", &n, &m, &k, &whole, weight, across ? &n : &k, x, &k, &before, y, &n);
}

// The same of few rows with others of zeros below.
void linear_of_few(Gemm gemm, const float* x, const float* weight, const float* bias, float* y, int m, int n, int k,
                   bool across) {
    if (m >= ALIKE) return linear(gemm, x, weight, bias, y, m, n, k, across);
    static thread_local std::vector<float> room;
    if (room.size() < size_t(ALIKE) * (n + k)) room.resize(size_t(ALIKE) * (n + k));
    float *from = room.data(), *to = from + size_t(ALIKE) * k;
    std::memcpy(from, x, sizeof(float) * m * k);
    std::memset(from + int64_t(m) * k, 0, sizeof(float) * (ALIKE - m) * k);
    linear(gemm, from, weight, bias, to, ALIKE, n, k, across);
    std::memcpy(y, to, sizeof(float) * m * n);
}

// Places of M x K choices when these are sorted by group, the row that stands at each place, and where groups begin.
void sort_choices(const int64_t* chosen, int32_t* place, int32_t* row, int64_t* start, int rows, int each, int groups) {
    std::memset(start, 0, sizeof(int64_t) * (groups + 1));
    const int64_t count = int64_t(rows) * each;
    for (int64_t i = 0; i < count; i++) start[chosen[i] + 1]++;
    for (int g = 0; g < groups; g++) start[g + 1] += start[g];
    std::vector<int64_t> next(start, start + groups);
    for (int64_t i = 0; i < count; i++) {
        place[i] = int32_t(next[chosen[i]]++);
        row[place[i]] = int32_t(i / each);
    }
}

// out[m] = sum_k share[m][k] x[place[m][k]], k from the first to the last.
template <class T>
__attribute__((noinline, noclone)) void sum_places(const T* x, const int32_t* place, const float* share, T* out, int rows, int each, int width, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int m = 0; m < rows; m++) {
        const int32_t* at = place + int64_t(m) * each;
        T* to = out + int64_t(m) * width;
        for (int i = 0; i < width; i += LANES) {
            const int n = width - i;
            Vec total{};
            for (int k = 0; k < each; k++) {
                const T* from = x + int64_t(at[k]) * width + i;
                const Vec part = n >= LANES ? load(from) : some(from, n, 0);
                total += share ? part * share[int64_t(m) * each + k] : part;
            }
            if (n >= LANES) { store(to + i, total); continue; }
            for (int j = 0; j < n; j++) put(to + i + j, total[j]);
        }
    }
}

// Of two matrices `[rows, width]`: products of rows, and the second's rows times a share.
template <class T>
void dot_rows(const T* a, const T* b, const float* share, float* dots, T* scaled, int rows, int width, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int m = 0; m < rows; m++) {
        const int64_t at = int64_t(m) * width;
        Vec total{};
        float rest = 0;
        int i = 0;
        for (; i + LANES <= width; i += LANES) {
            const Vec x = load(b + at + i);
            total += load(a + at + i) * x;
            store(scaled + at + i, x * share[m]);
        }
        for (; i < width; i++) {
            rest += one(a + at + i) * one(b + at + i);
            put(scaled + at + i, one(b + at + i) * share[m]);
        }
        dots[m] = sum(total) + rest;
    }
}

// ---------------------------------------------------------------- rotary turns

// One head, D numbers: normalised (with a weight), turned. Returns 1 / RMS, 1 without a weight.
template <class T, int D>
__attribute__((noinline)) float turn(const T* from, const float* weight, float eps, const float* cosine, const float* sine, float* to) {
    float scale = 1.0f;
    Vec x[D / LANES];
    for (int c = 0; c < D / LANES; c++) x[c] = load(from + c * LANES);
    if (weight) {
        Vec squares{};
        for (int c = 0; c < D / LANES; c++) squares += x[c] * x[c];
        scale = 1.0f / std::sqrt(sum(squares) / D + eps);
        for (int c = 0; c < D / LANES; c++) x[c] = x[c] * scale * load(weight + c * LANES);
    }
    if constexpr (D / LANES % 2) {
        float flat[D], half[D];
        for (int c = 0; c < D; c += LANES) store(flat + c, x[c / LANES]);
        for (int i = 0; i < D; i++) half[i] = flat[(i + D / 2) % D];
        for (int c = 0; c < D; c += LANES)
            store(to + c, x[c / LANES] * load(cosine + c) + load(half + c) * load(sine + c));
    } else {
        for (int c = 0; c < D / LANES; c++) {
            const int across = (c + D / LANES / 2) % (D / LANES);
            store(to + c * LANES, x[c] * load(cosine + c * LANES) + x[across] * load(sine + c * LANES));
        }
    }
    return scale;
}

template <class T, int D>
void apply_rope(const T* qkv, const float* weight, const float* cosine, const float* sine, const int32_t* depth, float eps,
            T* turned, float* inverse, int tokens, int heads, int shared, int threads) {
    const int turning = heads + shared, all = heads + 2 * shared;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < tokens; t++) {
        float to[D];
        for (int h = 0; h < turning; h++) {
            const int64_t angle = int64_t(depth[t]) * D;
            inverse[int64_t(t) * turning + h] = turn<T, D>(qkv + (int64_t(t) * all + h) * D, weight ? weight + h * D : nullptr,
                                                            eps, cosine + angle, sine + angle, to);
            T* out = turned + (int64_t(t) * turning + h) * D;
            for (int c = 0; c < D; c += LANES) store(out + c, load(to + c));
        }
    }
}

// From gradients of turned queries, keys and of values `[tokens, all, D]` (float) to those of the joint product.
template <class T, int D>
void apply_rope_backward(const float* grad, const T* qkv, const float* weight, const float* cosine, const float* sine,
                     const int32_t* depth, const float* inverse, T* out, float* for_weight, int tokens, int heads,
                     int shared, int threads) {
    const int turning = heads + shared, all = heads + 2 * shared;
    // One head at a time, so that the weight's gradient is summed in one order whatever the threads.
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int h = 0; h < all; h++) {
        Vec weights[D / LANES] = {};
        for (int t = 0; t < tokens; t++) {
            const float* g = grad + (int64_t(t) * all + h) * D;
            T* to = out + (int64_t(t) * all + h) * D;
            if (h >= turning) {
                for (int c = 0; c < D; c += LANES) store(to + c, load(g + c));
                continue;
            }
            const float *cs = cosine + int64_t(depth[t]) * D, *sn = sine + int64_t(depth[t]) * D;
            float through[D], back[D];
            for (int c = 0; c < D; c += LANES) store(through + c, load(g + c) * load(sn + c));
            for (int i = 0; i < D; i++) back[i] = through[(i + D / 2) % D];
            for (int c = 0; c < D; c += LANES) store(back + c, load(g + c) * load(cs + c) + load(back + c));
            if (weight) {
                const float scale = inverse[int64_t(t) * turning + h];
                const T* x = qkv + (int64_t(t) * all + h) * D;
                Vec dots{};
                for (int c = 0; c < D / LANES; c++) {
                    Vec normal = load(x + c * LANES) * scale, d = load(back + c * LANES);
                    weights[c] += d * normal;
                    d *= load(weight + h * D + c * LANES);
                    store(back + c * LANES, d);
                    dots += d * normal;
                }
                const float along = sum(dots) / D;
                for (int c = 0; c < D; c += LANES)
                    store(back + c, (load(back + c) - load(x + c) * scale * along) * scale);
            }
            for (int c = 0; c < D; c += LANES) store(to + c, load(back + c));
        }
        if (weight && h < turning)
            for (int c = 0; c < D / LANES; c++) store(for_weight + h * D + c * LANES, weights[c]);
    }
}

// ---------------------------------------------------------------- attention

// Keys stand in blocks of sixteen positions, `[D, 16]`, values in blocks `[16, D]`.

// scores[i][..] of Q queries with N blocks of keys; a query sees keys up to its position.
template <class K, int D, int Q, int N>
inline void score(const float* q, const K* const* keys, int first, const int* position, float* const* scores,
                  Vec* most) {
    Vec acc[Q][N] = {};
    for (int d = 0; d < D; d++) {
        Vec key[N];
        for (int n = 0; n < N; n++) key[n] = load(keys[n] + d * LANES);
        for (int i = 0; i < Q; i++) {
            const Vec number = splat(q[i * D + d]);
            for (int n = 0; n < N; n++) acc[i][n] += number * key[n];
        }
    }
    for (int i = 0; i < Q; i++)
        for (int n = 0; n < N; n++) {
            const int start = (first + n) * LANES;
            if (position[i] < start + LANES - 1) acc[i][n] = hide_after(position[i], start, acc[i][n]);
            store(scores[i] + start, acc[i][n]);
            most[i] = maximum(most[i], acc[i][n]);
        }
}

// Asks for a block of D x 16 numbers that is needed soon: pages lie anywhere, so that no hardware foresees them.
constexpr int AHEAD = 6;
template <class T, int D> inline void foresee(const T* block) {
    for (int line = 0; line < int(sizeof(T)) * D * LANES; line += 64) __builtin_prefetch((const char*)block + line);
}

template <class K, int D, int Q>
inline void score_all(const float* q, const K* const* keys, int from, int to, const int* position, float* const* scores,
                      Vec* most) {
    constexpr int N = Q >= 4 ? 2 : 4;
    int b = from;
    for (; b + N <= to; b += N) {
        if constexpr (Q <= 4)  // With more queries a block is computed on for long enough.
            for (int n = b + AHEAD; n < b + AHEAD + N && n < to; n++) foresee<K, D>(keys[n]);
        score<K, D, Q, N>(q, keys + b, b, position, scores, most);
    }
    for (; b < to; b++) score<K, D, Q, 1>(q, keys + b, b, position, scores, most);
}

// What becomes of scores in layers that are not plain: bounded by a cap, those before the window hidden, and a sink
// that takes its share of the weight. A window or cap of 0 and no sinks leave them as they are.
struct Bounds {
    int window;
    float cap;
    const float* sinks;  // One per head.
    bool any() const { return window || cap != 0.0f; }
    // The first position that one at `position` sees.
    int first(int position) const { return window && position >= window ? position - window + 1 : 0; }
};

inline Vec capped(Vec score, float cap) { return tangent(score * (1.0f / cap)) * cap; }

// The scores of a query at `position`, blocks from..to-1, within bounds; returns the largest by lane.
__attribute__((noinline)) Vec bounded(float* scores, int from, int to, int position, const Bounds& bounds) {
    Vec most = splat(-INFINITY);
    const int hidden = bounds.first(position) - 1;
    for (int b = from; b < to; b++) {
        Vec x = load(scores + b * LANES);
        if (bounds.cap != 0.0f) x = capped(x, bounds.cap);
        const int start = b * LANES;
        if (position < start + LANES - 1) x = hide_after(position, start, x);
        if (hidden >= start) x = hide_to(hidden, start, x);
        store(scores + b * LANES, x);
        most = maximum(most, x);
    }
    return most;
}

// Scores become weights e^(score - largest); returns their sum.
__attribute__((noinline)) float soften(float* scores, int from, int blocks, Vec most, float& peak) {
    peak = largest(most);
    Vec total{};
    for (int b = from; b < blocks; b++) {
        Vec p = expo(load(scores + b * LANES) - peak);
        store(scores + b * LANES, p);
        total += p;
    }
    return sum(total);
}

// With a sink, whose own weight is in the sum and nowhere else.
__attribute__((noinline)) float soften_beside(float* scores, int from, int blocks, Vec most, float sink, float& peak) {
    const float total = soften(scores, from, blocks, maximum(most, splat(sink)), peak);
    return total + expo(splat(sink - peak))[0];
}

__attribute__((noinline)) float log_sum(float peak, float total) { return peak + std::log(total); }

// acc[i] += sum_j weight[i][j] value[j] for positions from..to-1, C vectors of the D numbers from `at` on.
template <class V, int D, int Q, int C>
inline void mix_part(const float* const* weights, const V* const* values, int from, int to, float* acc, int at) {
    Vec sums[Q][C];
    for (int i = 0; i < Q; i++)
        for (int c = 0; c < C; c++) sums[i][c] = load(acc + i * D + at + c * LANES);
    for (int j = from; j < to; j++) {
        if constexpr (Q <= 4)
            if (j % LANES == 0 && at == 0 && j / LANES + AHEAD < (to + LANES - 1) / LANES)
                foresee<V, D>(values[j / LANES + AHEAD]);
        const V* row = values[j / LANES] + (j % LANES) * D + at;
        Vec value[C];
        for (int c = 0; c < C; c++) value[c] = load(row + c * LANES);
        for (int i = 0; i < Q; i++) {
            const Vec number = splat(weights[i][j]);
            for (int c = 0; c < C; c++) sums[i][c] += number * value[c];
        }
    }
    for (int i = 0; i < Q; i++)
        for (int c = 0; c < C; c++) store(acc + i * D + at + c * LANES, sums[i][c]);
}

template <class V, int D, int Q>
inline void mix(const float* const* weights, const V* const* values, int from, int to, float* acc) {
    constexpr int C = D / LANES >= 2 && (D / LANES) % 2 == 0 ? 2 : 1;
    for (int at = 0; at < D; at += C * LANES) mix_part<V, D, Q, C>(weights, values, from, to, acc, at);
}

// A tile of queries of rows whose first `common` blocks are the same. Query i is one of `each` of row i / each.
template <class T, int D> struct Tile {
    static constexpr int MOST = 8;
    int queries = 0, each = 1, common = 0, first = 0;
    Bounds bounds{};
    float q[MOST * D], acc[MOST * D];
    int position[MOST];
    const T* const* keys[MOST];  // By row.
    const T* const* values[MOST];
    float* scores[MOST];
    float peak[MOST], total[MOST], sink[MOST];

    template <int Q> void shared_scores(Vec* most) {
        score_all<T, D, Q>(q, keys[0], first, common, position, scores, most);
    }
    template <int Q> void own_scores(int row, int blocks, Vec* most) {
        const int i = row * each;
        score_all<T, D, Q>(q + i * D, keys[row], beyond(), blocks, position + i, scores + i, most + i);
    }
    template <int Q> void shared_mix(int to) { mix<T, D, Q>(scores, values[0], first * LANES, to, acc); }
    template <int Q> void own_mix(int row, int from, int to) {
        const int i = row * each;
        mix<T, D, Q>(scores + i, values[row], from, to, acc + i * D);
    }

    template <class F> static void sized(int n, F f) {
        switch (n) {
            case 1: f(std::integral_constant<int, 1>()); break;
            case 2: f(std::integral_constant<int, 2>()); break;
            case 3: f(std::integral_constant<int, 3>()); break;
            case 4: f(std::integral_constant<int, 4>()); break;
            case 5: f(std::integral_constant<int, 5>()); break;
            case 6: f(std::integral_constant<int, 6>()); break;
            case 7: f(std::integral_constant<int, 7>()); break;
            default: f(std::integral_constant<int, 8>()); break;
        }
    }

    // The first block that rows have for themselves, of those that are seen.
    int beyond() const { return common > first ? common : first; }

    void run() {
        Vec most[MOST];
        int last[MOST] = {};
        const int rows = queries / each;
        first = 0;
        if (bounds.window) {
            int least = position[0];
            for (int i = 1; i < queries; i++) least = position[i] < least ? position[i] : least;
            first = bounds.first(least) / LANES;
        }
        for (int i = 0; i < queries; i++) most[i] = splat(-INFINITY);
        for (int row = 0; row < rows; row++) {
            last[row] = 0;
            for (int i = row * each; i < (row + 1) * each; i++) last[row] = position[i] > last[row] ? position[i] : last[row];
        }
        if (common > first) sized(queries, [&](auto n) { this->template shared_scores<decltype(n)::value>(most); });
        const int from_block = beyond();
        for (int row = 0; row < rows; row++) {
            const int blocks = last[row] / LANES + 1;
            // What a short row has for itself is asked for while the one before it is computed.
            for (int b = from_block; b < blocks && b < from_block + AHEAD; b++) foresee<T, D>(values[row][b]);
            if (row + 1 < rows)
                for (int b = from_block; b <= last[row + 1] / LANES && b < from_block + AHEAD; b++)
                    foresee<T, D>(keys[row + 1][b]);
            if (blocks > common) sized(each, [&](auto n) { this->template own_scores<decltype(n)::value>(row, blocks, most); });
        }
        for (int i = 0; i < queries; i++) {
            const int used = last[i / each] / LANES + 1, blocks = used > common ? used : common;
            if (bounds.any()) most[i] = bounded(scores[i], first, blocks, position[i], bounds);
            total[i] = bounds.sinks ? soften_beside(scores[i], first, blocks, most[i], sink[i], peak[i])
                                    : soften(scores[i], first, blocks, most[i], peak[i]);
        }
        std::memset(acc, 0, sizeof(float) * queries * D);
        int least = last[0] + 1;
        for (int row = 1; row < rows; row++) least = last[row] + 1 < least ? last[row] + 1 : least;
        const int together = common * LANES < least ? common * LANES : least;
        const int from = together > first * LANES ? together : first * LANES;
        if (together > first * LANES) sized(queries, [&](auto n) { this->template shared_mix<decltype(n)::value>(together); });
        for (int row = 0; row < rows; row++)
            if (last[row] + 1 > together)
                sized(each, [&](auto n) { this->template own_mix<decltype(n)::value>(row, from, last[row] + 1); });
    }
};

template <class T, int D>
void paged_attention(const T* qkv, T* keys, T* values, const int32_t* position, const int32_t* slot,
                     const int32_t* table, int table_width, const int32_t* run_start, const int32_t* run_row, int runs,
                     const float* weight, float eps, const float* cosine, const float* sine, float scale,
                     const Bounds& bounds, T* out, float* sums, int tokens, int heads, int shared, int threads) {
    const int turning = heads + shared, all = heads + 2 * shared, repeat = heads / shared;
    std::vector<T> turned(int64_t(tokens) * heads * D);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < tokens; t++) {
        if (slot[t] < 0) {
            std::memset(out + int64_t(t) * heads * D, 0, sizeof(T) * heads * D);
            if (sums) std::memset(sums + int64_t(t) * heads, 0, sizeof(float) * heads);
            continue;
        }
        const int64_t angle = int64_t(position[t]) * D, page = slot[t] / LANES, lane = slot[t] % LANES;
        float to[D];
        for (int h = 0; h < turning; h++) {
            turn<T, D>(qkv + (int64_t(t) * all + h) * D, weight ? weight + h * D : nullptr, eps, cosine + angle, sine + angle, to);
            if (h < heads) {
                T* q = turned.data() + (int64_t(t) * heads + h) * D;
                for (int c = 0; c < D; c += LANES) store(q + c, load(to + c));
            } else {
                T* k = keys + (page * shared + h - heads) * D * LANES + lane;
                for (int d = 0; d < D; d++) put(k + d * LANES, to[d]);
            }
        }
        for (int h = 0; h < shared; h++)
            std::memcpy(values + ((page * shared + h) * LANES + lane) * D, qkv + (int64_t(t) * all + turning + h) * D, sizeof(T) * D);
    }
    // Tiles: neighbouring runs of one token whose first pages are the same, or tokens of one run.
    struct Piece { int run, runs, from, to, common; };
    std::vector<Piece> pieces;
    const int most = Tile<T, D>::MOST / repeat > 0 ? Tile<T, D>::MOST / repeat : 1;
    int longest = 0;
    for (int n = 0; n < runs;) {
        const int from = run_start[n], to = run_start[n + 1];
        if (to == from) { n++; continue; }
        longest = position[to - 1] > longest ? position[to - 1] : longest;
        if (to - from > 1) {
            for (int t = from; t < to; t += most) pieces.push_back({n, 1, t, t + most < to ? t + most : to, 0});
            n++;
            continue;
        }
        const int32_t* first = table + int64_t(run_row[n]) * table_width;
        int common = position[from] / LANES, end = n + 1;
        for (; end < runs && end - n < most && run_start[end + 1] - run_start[end] == 1; end++) {
            const int32_t* other = table + int64_t(run_row[end]) * table_width;
            const int at = position[run_start[end]];
            longest = at > longest ? at : longest;
            int same = 0, limit = common < at / LANES ? common : at / LANES;
            while (same < limit && first[same] == other[same]) same++;
            if (!same) break;
            common = same;
        }
        if (end == n + 1) common = 0;
        pieces.push_back({n, end - n, from, from + end - n, common});
        n = end;
    }
    const int blocks = longest / LANES + 1, count = int(pieces.size());
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        Tile<T, D> tile;
        tile.bounds = bounds;
        std::vector<float> scores(int64_t(Tile<T, D>::MOST) * blocks * LANES);
        std::vector<const T*> where(int64_t(Tile<T, D>::MOST) * 2 * blocks);
#pragma omp for schedule(dynamic, 4)
        for (int number = 0; number < count * shared; number++) {
            const Piece& piece = pieces[number / shared];
            const int h = number % shared, rows = piece.runs, per = (piece.to - piece.from) / rows;
            // More queries of one token than a tile holds are taken in turns.
            for (int r0 = 0; r0 < repeat; r0 += Tile<T, D>::MOST) {
                const int taken = repeat - r0 < Tile<T, D>::MOST ? repeat - r0 : Tile<T, D>::MOST;
                tile.each = per * taken;
                tile.queries = rows * per * taken;
                tile.common = piece.common;
                for (int row = 0; row < rows; row++) {
                    const int32_t* pages = table + int64_t(run_row[piece.run + row]) * table_width;
                    const int used = position[piece.from + (row + 1) * per - 1] / LANES + 1;
                    const T** k = where.data() + 2 * row * blocks;
                    const T** v = k + blocks;
                    for (int b = 0; b < used; b++) {
                        k[b] = keys + (int64_t(pages[b]) * shared + h) * D * LANES;
                        v[b] = values + (int64_t(pages[b]) * shared + h) * D * LANES;
                    }
                    tile.keys[row] = k;
                    tile.values[row] = v;
                }
                for (int i = 0; i < tile.queries; i++) {
                    const int t = piece.from + i / taken, head = h * repeat + r0 + i % taken;
                    const T* q = turned.data() + (int64_t(t) * heads + head) * D;
                    for (int c = 0; c < D; c += LANES) store(tile.q + i * D + c, load(q + c) * scale);
                    if (bounds.sinks) tile.sink[i] = bounds.sinks[head];
                    tile.position[i] = position[t];
                    tile.scores[i] = scores.data() + int64_t(i) * blocks * LANES;
                }
                tile.run();
                for (int i = 0; i < tile.queries; i++) {
                    const int t = piece.from + i / taken, head = h * repeat + r0 + i % taken;
                    T* to = out + (int64_t(t) * heads + head) * D;
                    const float share = 1.0f / tile.total[i];
                    for (int c = 0; c < D; c += LANES) store(to + c, load(tile.acc + i * D + c) * share);
                    if (sums) sums[int64_t(t) * heads + head] = log_sum(tile.peak[i], tile.total[i]);
                }
            }
        }
    }
}

// ---------------------------------------------------------------- all layers

// A decoder layer of the usual form: RMSNorm before each part, gated feed-forward, products of one matrix each.
struct Layer {
    const float *qkv, *qkv_bias, *output, *output_bias, *opening, *opening_bias, *closing, *closing_bias;
    const float *turn, *cosine, *sine, *sinks;
    float *keys, *values;
};
struct LayerNumbers { float before_attention, before_feed, turn, scale, cap; };
struct LayerCounts { int32_t window, inner, opening; };

// Rows of a pass over pages; after the last attention only the `wanted` rows are computed, if any are named.
struct Rows {
    const int32_t *position, *slot, *table;
    int table_width;
    const int32_t *run_start, *run_row;
    int runs;
    const int64_t* wanted;
    int wanted_rows, tokens;
};

// From embedded tokens x `[tokens, width]`, which change, to their states after the last norm without its weight. Each
// step is the function that the learner's is. A layer without a feed-forward part here ends the call before it: its
// number is returned, with the states that the part reads in `normal`, and the next call takes what it gave as `added`.
// Room: tokens x (2 width + 2 (heads + shared) D + 3 inner + 1) numbers.
template <int D>
int all_layers(Gemm gemm, float* x, const float* added, float* normal, float* room, const Layer* layer,
               const LayerNumbers* numbers, const LayerCounts* counts, int first, int layers, float last_epsilon,
               Rows rows, int width, int heads, int shared, int inner, int threads) {
    const int all = (heads + 2 * shared) * D, mixing = heads * D;
    int count = first == layers && rows.wanted ? rows.wanted_rows : rows.tokens;
    const auto take = [&](int each) { float* at = room; room += int64_t(rows.tokens) * each; return at; };
    float *spare = take(width), *out = take(width), *qkv = take(all), *mixed = take(mixing);
    float *opened = take(2 * inner), *gated = take(inner), *inverse = take(1);
    for (int n = first; n < layers; n++) {
        const Layer& one = layer[n];
        const LayerNumbers& by = numbers[n];
        const int wide = counts[n].inner;
        add_norm<float>(x, added, x, normal, inverse, count, width, by.before_attention, threads);
        linear_of_few(gemm, normal, one.qkv, one.qkv_bias, qkv, count, all, width, false);
        paged_attention<float, D>(qkv, one.keys, one.values, rows.position, rows.slot, rows.table, rows.table_width,
                                  rows.run_start, rows.run_row, rows.runs, one.turn, by.turn, one.cosine, one.sine,
                                  by.scale, Bounds{counts[n].window, by.cap, one.sinks}, mixed, nullptr, count, heads,
                                  shared, threads);
        if (n == layers - 1 && rows.wanted) {
            count = rows.wanted_rows;
            for (int m = 0; m < count; m++) {
                std::memcpy(spare + int64_t(m) * width, x + rows.wanted[m] * width, sizeof(float) * width);
                std::memcpy(qkv + int64_t(m) * mixing, mixed + rows.wanted[m] * mixing, sizeof(float) * mixing);
            }
            std::memcpy(x, spare, sizeof(float) * count * width);
            std::swap(mixed, qkv);
        }
        linear_of_few(gemm, mixed, one.output, one.output_bias, out, count, width, mixing, false);
        add_norm<float>(x, out, x, normal, inverse, count, width, by.before_feed, threads);
        if (!one.opening) return n;
        linear_of_few(gemm, normal, one.opening, one.opening_bias, opened, count, 2 * wide, width, false);
        open_gate(counts[n].opening, opened, gated, count, wide, threads);
        linear_of_few(gemm, gated, one.closing, one.closing_bias, out, count, width, wide, false);
        added = out;
    }
    add_norm<float>(x, added, x, normal, inverse, count, width, last_epsilon, threads);
    return layers;
}

// Chosen experts of states x `[rows, width]`, weighed and added, `each` to a row; expert by expert in the cache.
void routed(Gemm gemm, const float* x, const int64_t* chosen, const float* share, const float* opening,
            const float* opening_bias, const float* closing, const float* closing_bias, float* sums, int rows, int each,
            int experts, int width, int inner, int kind, bool across, int threads) {
    const int64_t count = int64_t(rows) * each;
    std::vector<int32_t> place(count), row(count);
    std::vector<int64_t> start(experts + 1);
    sort_choices(chosen, place.data(), row.data(), start.data(), rows, each, experts);
    int64_t most = ALIKE;
    for (int e = 0; e < experts; e++) most = std::max(most, start[e + 1] - start[e]);
    const std::unique_ptr<float[]> room(new float[size_t(count + most) * width + size_t(most) * (width + 3 * inner)]);
    float *outs = room.get(), *from = outs + (count + most) * width, *opened = from + most * width;
    float* gated = opened + most * 2 * inner;
    for (int e = 0; e < experts; e++) {
        const int n = int(start[e + 1] - start[e]), whole = std::max(n, ALIKE);
        if (!n) continue;
        for (int i = 0; i < n; i++)
            std::memcpy(from + int64_t(i) * width, x + int64_t(row[start[e] + i]) * width, sizeof(float) * width);
        std::memset(from + int64_t(n) * width, 0, sizeof(float) * (whole - n) * width);
        const int64_t at = int64_t(e) * width * inner;
        linear(gemm, from, opening + 2 * at, opening_bias ? opening_bias + int64_t(e) * 2 * inner : nullptr, opened,
               whole, 2 * inner, width, across);
        open_gate(kind, opened, gated, whole, inner, threads);
        // What is beyond the expert's rows is overwritten by the next one.
        linear(gemm, gated, closing + at, closing_bias ? closing_bias + int64_t(e) * width : nullptr,
               outs + start[e] * width, whole, width, inner, across);
    }
    sum_places<float>(outs, place.data(), share, sums, rows, each, width, threads);
}

// A tree: node n's own tokens stand at flat places start[n].., its path is made of pieces (begin, length), itself last.
struct Tree {
    const int32_t *start, *own, *piece, *begin, *length;
    int nodes;
    int path(int n) const {
        int total = 0;
        for (int p = piece[n]; p < piece[n + 1]; p++) total += length[p];
        return total;
    }
};

inline int rounded(int n) { return (n + LANES - 1) / LANES * LANES; }

// One head of a node's path, `stride` numbers from token to token: in blocks `[D, 16]` and, if asked, rows `[16, D]`.
template <class T, int D>
void gather(const Tree& tree, int n, const T* from, int64_t stride, float* across, float* along) {
    int at = 0;
    for (int p = tree.piece[n]; p < tree.piece[n + 1]; p++)
        for (int t = tree.begin[p]; t < tree.begin[p] + tree.length[p]; t++, at++) {
            const T* row = from + t * stride;
            float flat[D];
            for (int c = 0; c < D; c += LANES) store(flat + c, load(row + c));
            if (along) std::memcpy(along + int64_t(at) * D, flat, sizeof flat);
            if (across) {
                float* block = across + int64_t(at / LANES) * D * LANES + at % LANES;
                for (int d = 0; d < D; d++) block[d * LANES] = flat[d];
            }
        }
    for (; at % LANES; at++) {
        if (along) std::memset(along + int64_t(at) * D, 0, sizeof(float) * D);
        if (across)
            for (int d = 0; d < D; d++) across[int64_t(at / LANES) * D * LANES + d * LANES + at % LANES] = 0;
    }
}

template <class T, int D>
void tree_attention(const T* turned, const T* qkv, const Tree& tree, float scale, const Bounds& bounds, T* out,
                    float* lse, int heads, int shared, int threads) {
    const int turning = heads + shared, all = heads + 2 * shared, repeat = heads / shared;
    int longest = 0;
    for (int n = 0; n < tree.nodes; n++) longest = std::max(longest, tree.path(n));
    const int blocks = rounded(longest) / LANES;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        Tile<float, D> tile;
        tile.bounds = bounds;
        std::vector<float> keys(int64_t(blocks) * LANES * D), values(keys.size());
        std::vector<float> scores(int64_t(Tile<float, D>::MOST) * blocks * LANES);
        std::vector<const float*> where(2 * blocks);
        for (int b = 0; b < blocks; b++) {
            where[b] = keys.data() + int64_t(b) * LANES * D;
            where[blocks + b] = values.data() + int64_t(b) * LANES * D;
        }
#pragma omp for schedule(dynamic, 1)
        for (int number = 0; number < tree.nodes * shared; number++) {
            const int n = number / shared, h = number % shared, base = tree.path(n) - tree.own[n];
            gather<T, D>(tree, n, turned + (heads + h) * D, int64_t(turning) * D, keys.data(), nullptr);
            gather<T, D>(tree, n, qkv + (turning + h) * D, int64_t(all) * D, nullptr, values.data());
            for (int first = 0; first < tree.own[n] * repeat; first += Tile<float, D>::MOST) {
                tile.queries = tile.each = std::min(Tile<float, D>::MOST, tree.own[n] * repeat - first);
                tile.common = 0;
                tile.keys[0] = where.data();
                tile.values[0] = where.data() + blocks;
                for (int i = 0; i < tile.queries; i++) {
                    const int t = tree.start[n] + (first + i) / repeat, head = h * repeat + (first + i) % repeat;
                    const T* q = turned + (int64_t(t) * turning + head) * D;
                    for (int c = 0; c < D; c += LANES) store(tile.q + i * D + c, load(q + c) * scale);
                    if (bounds.sinks) tile.sink[i] = bounds.sinks[head];
                    tile.position[i] = base + (first + i) / repeat;
                    tile.scores[i] = scores.data() + int64_t(i) * blocks * LANES;
                }
                tile.run();
                for (int i = 0; i < tile.queries; i++) {
                    const int t = tree.start[n] + (first + i) / repeat, head = h * repeat + (first + i) % repeat;
                    T* to = out + (int64_t(t) * heads + head) * D;
                    const float share = 1.0f / tile.total[i];
                    for (int c = 0; c < D; c += LANES) store(to + c, load(tile.acc + i * D + c) * share);
                    lse[int64_t(t) * heads + head] = log_sum(tile.peak[i], tile.total[i]);
                }
            }
        }
    }
}

// sums[j] += sum_i weight[i][j] row[i] for from <= j < to; `rows` `[Q, D]`.
template <int D, int Q>
inline void spread(const float* const* weights, const float* rows, int from, int to, float* sums) {
    constexpr int C = D / LANES >= 2 && (D / LANES) % 2 == 0 ? 2 : 1;
    for (int at = 0; at < D; at += C * LANES) {
        Vec row[Q][C];
        for (int i = 0; i < Q; i++)
            for (int c = 0; c < C; c++) row[i][c] = load(rows + i * D + at + c * LANES);
        for (int j = from; j < to; j++) {
            float* into = sums + int64_t(j) * D + at;
            Vec acc[C];
            for (int c = 0; c < C; c++) acc[c] = load(into + c * LANES);
            for (int i = 0; i < Q; i++) {
                const Vec number = splat(weights[i][j]);
                for (int c = 0; c < C; c++) acc[c] += number * row[i][c];
            }
            for (int c = 0; c < C; c++) store(into + c * LANES, acc[c]);
        }
    }
}

// Room of one thread of the backward pass.
template <int D> struct Back {
    static constexpr int Q = 8;
    std::vector<float> key_blocks, key_rows, value_blocks, for_keys, for_values, chances, slopes;
    std::vector<const float*> key_block, value_block, key_row;
    int blocks;
    explicit Back(int blocks) : blocks(blocks) {
        const int64_t size = int64_t(blocks) * LANES * D;
        for (auto* one : {&key_blocks, &key_rows, &value_blocks, &for_keys, &for_values}) one->resize(size);
        chances.resize(int64_t(Q) * blocks * LANES);
        slopes.resize(int64_t(Q) * blocks * LANES);
        for (int b = 0; b < blocks; b++) {
            key_block.push_back(key_blocks.data() + int64_t(b) * LANES * D);
            value_block.push_back(value_blocks.data() + int64_t(b) * LANES * D);
            key_row.push_back(key_rows.data() + int64_t(b) * LANES * D);
        }
    }
};

// One tile of a node's queries. `q` holds scaled queries, `g` gradients of outputs; writes `for_q`.
template <int D>
void tile_backward(Back<D>& room, int queries, int base, const float* q, const float* g, const float* lse,
                   const float* delta, const int* position, float scale, const Bounds& bounds, float* for_q) {
    constexpr int Q = Back<D>::Q;
    const int begin = bounds.first(position[0]) / LANES, from = begin * LANES;
    const int blocks = position[queries - 1] / LANES + 1, seen = position[queries - 1] + 1;
    float *p[Q], *s[Q];
    int open[Q];
    Vec most[Q];
    for (int i = 0; i < Q; i++) {
        p[i] = room.chances.data() + int64_t(i) * room.blocks * LANES;
        s[i] = room.slopes.data() + int64_t(i) * room.blocks * LANES;
        open[i] = 1 << 30;
        most[i] = splat(-INFINITY);
    }
    score_all<float, D, Q>(q, room.key_block.data(), begin, blocks, position, p, most);
    score_all<float, D, Q>(g, room.value_block.data(), begin, blocks, open, s, most);
    for (int i = 0; i < Q; i++) {
        if (bounds.any() && i < queries) bounded(p[i], begin, blocks, position[i], bounds);
        for (int b = begin; b < blocks; b++) {
            Vec score = load(p[i] + b * LANES);
            Vec chance = i < queries ? expo(score - lse[i]) : Vec{};
            store(p[i] + b * LANES, chance);
            Vec slope = chance * (load(s[i] + b * LANES) - delta[i]);
            if (bounds.cap != 0.0f) slope = if_positive(chance, slope * (1.0f - score * score * (1 / (bounds.cap * bounds.cap))));
            store(s[i] + b * LANES, slope);
        }
    }
    spread<D, Q>(p, g, from, seen, room.for_values.data());
    spread<D, Q>(s, q, from, seen, room.for_keys.data());  // The scale is in q already.
    std::memset(for_q, 0, sizeof(float) * Q * D);
    mix<float, D, Q>(s, room.key_row.data(), from, seen, for_q);
    for (int i = 0; i < queries * D; i++) for_q[i] *= scale;
}

template <class T, int D>
void tree_attention_backward(const T* turned, const T* qkv, const T* out, const T* grad, const float* lse,
                             const Tree& tree, float scale, const Bounds& bounds, float* result, int heads, int shared,
                             int threads) {
    constexpr int Q = Back<D>::Q;
    const int turning = heads + shared, all = heads + 2 * shared, repeat = heads / shared;
    int longest = 0;
    for (int n = 0; n < tree.nodes; n++) longest = std::max(longest, tree.path(n));
    // A head's sums are made by one thread in one order.
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic, 1)
    for (int h = 0; h < shared; h++) {
        Back<D> room(rounded(longest) / LANES);
        for (int n = 0; n < tree.nodes; n++) {
            const int path = tree.path(n), base = path - tree.own[n];
            gather<T, D>(tree, n, turned + (heads + h) * D, int64_t(turning) * D, room.key_blocks.data(), room.key_rows.data());
            gather<T, D>(tree, n, qkv + (turning + h) * D, int64_t(all) * D, room.value_blocks.data(), nullptr);
            std::memset(room.for_keys.data(), 0, sizeof(float) * path * D);
            std::memset(room.for_values.data(), 0, sizeof(float) * path * D);
            for (int first = 0; first < tree.own[n] * repeat; first += Q) {
                const int queries = std::min(Q, tree.own[n] * repeat - first);
                float q[Q * D] = {}, g[Q * D] = {}, for_q[Q * D], sums[Q] = {}, delta[Q] = {};
                int position[Q] = {};
                for (int i = 0; i < queries; i++) {
                    const int t = tree.start[n] + (first + i) / repeat, head = h * repeat + (first + i) % repeat;
                    Vec dots{};
                    for (int c = 0; c < D; c += LANES) {
                        store(q + i * D + c, load(turned + (int64_t(t) * turning + head) * D + c) * scale);
                        const Vec d = load(grad + (int64_t(t) * heads + head) * D + c);
                        store(g + i * D + c, d);
                        dots += d * load(out + (int64_t(t) * heads + head) * D + c);
                    }
                    delta[i] = sum(dots);
                    sums[i] = lse[int64_t(t) * heads + head];
                    position[i] = base + (first + i) / repeat;
                }
                tile_backward<D>(room, queries, base, q, g, sums, delta, position, scale, bounds, for_q);
                for (int i = 0; i < queries; i++) {
                    const int t = tree.start[n] + (first + i) / repeat, head = h * repeat + (first + i) % repeat;
                    std::memcpy(result + (int64_t(t) * all + head) * D, for_q + i * D, sizeof(float) * D);
                }
            }
            int at = 0;
            for (int p = tree.piece[n]; p < tree.piece[n + 1]; p++)
                for (int t = tree.begin[p]; t < tree.begin[p] + tree.length[p]; t++, at++)
                    for (int c = 0; c < D; c += LANES) {
                        float *k = result + (int64_t(t) * all + heads + h) * D + c, *v = k + int64_t(shared) * D;
                        store(k, load(k) + load(room.for_keys.data() + int64_t(at) * D + c));
                        store(v, load(v) + load(room.for_values.data() + int64_t(at) * D + c));
                    }
        }
    }
}

// ---------------------------------------------------------------- the head

// Of one row of logits / temperature: the largest, and the sum of e^(z - largest).
template <class T>
__attribute__((noinline)) void spread_of(const T* row, int size, float temperature, float& peak, float& total) {
    Vec most = splat(-INFINITY);
    const float cold = 1.0f / temperature;
    int j = 0;
    for (; j + LANES <= size; j += LANES) most = maximum(most, load(row + j));
    if (j < size) most = maximum(most, some(row + j, size - j, -INFINITY));
    peak = largest(most);
    Vec sums{};
    for (j = 0; j + LANES <= size; j += LANES) sums += expo((load(row + j) - peak) * cold);
    if (j < size) sums += expo((some(row + j, size - j, -INFINITY) - peak) * cold);
    total = sum(sums);
}

__attribute__((noinline)) float chance_of(float logit, float cold, float peak, float base) {
    return (logit - peak) * cold - base;
}

template <class T>
void token_logprobs(const T* logits, const int64_t* action, const float* temperature, float* logp, float* peaks, float* totals,
            float* entropy, int rows, int size, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int r = 0; r < rows; r++) {
        const T* row = logits + int64_t(r) * size;
        spread_of(row, size, temperature[r], peaks[r], totals[r]);
        const float cold = 1.0f / temperature[r], base = std::log(totals[r]);
        logp[r] = chance_of(one(row + action[r]), cold, peaks[r], base);
        if (!entropy) continue;
        Vec sums{};
        for (int j = 0; j < size; j += LANES) {
            Vec z = ((size - j >= LANES ? load(row + j) : some(row + j, size - j, -INFINITY)) - peaks[r]) * cold;
            Vec p = expo(z);
            sums += if_positive(p, p * z);
        }
        entropy[r] = base - sum(sums) / totals[r];
    }
}

// dL/dlogits of chosen log-probs (gradient `g`) and entropies (gradient `e`), in place of the logits.
template <class T>
void token_logprobs_backward(T* logits, const int64_t* action, const float* temperature, const float* peaks, const float* totals,
                     const float* entropy, const float* g, const float* e, int rows, int size, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int r = 0; r < rows; r++) {
        T* row = logits + int64_t(r) * size;
        const float cold = 1.0f / temperature[r], share = 1.0f / totals[r], base = std::log(totals[r]);
        const float by = g[r] * cold, spread = e ? e[r] * cold : 0.0f, level = e ? entropy[r] : 0.0f;
        for (int j = 0; j < size; j += LANES) {
            const bool whole = size - j >= LANES;
            Vec z = ((whole ? load(row + j) : some(row + j, size - j, -INFINITY)) - peaks[r]) * cold;
            Vec p = expo(z) * share;
            Vec d = -by * p;
            if (e) d -= spread * if_positive(p, p * (z - base + level));
            const int64_t at = action[r] - j;
            if (at >= 0 && at < LANES) d += only_at(int(at), 0, splat(by));
            if (whole) store(row + j, d);
            else for (int i = 0; i < size - j; i++) put(row + j + i, d[i]);
        }
    }
}

void draw_row(const float* row, int size, float temperature, bool greedy, double uniform, int64_t forced, int64_t* token,
              float* logp) {
    float peak, total;
    spread_of(row, size, greedy ? 1.0f : temperature, peak, total);
    const float cold = 1.0f / (greedy ? 1.0f : temperature);
    int64_t found = forced;
    if (found < 0 && greedy) {
        found = 0;
        for (int j = 1; j < size; j++) found = row[j] > row[found] ? j : found;
    } else if (found < 0) {
        // The whole in doubles first, by sixteens, then the block that reaches the mark, then the token.
        double whole = 0;
        for (int pass = 0; pass < 2; pass++) {
            const double mark = uniform * whole;
            double reached = 0;
            for (int j = 0; j < size; j += LANES) {
                Vec p = expo(((size - j >= LANES ? load(row + j) : some(row + j, size - j, -INFINITY)) - peak) * cold);
                double block = 0, before = reached;
                for (int i = 0; i < LANES; i++) block += p[i];
                reached += block;
                if (!pass || reached < mark || found >= 0) continue;
                for (int i = 0; i < LANES && j + i < size; i++) {
                    before += p[i];
                    if (p[i] > 0) found = j + i;
                    if (p[i] > 0 && before >= mark) break;
                }
                if (found >= 0) break;
            }
            whole = reached;
        }
        if (found < 0) found = 0;
    }
    *token = found;
    *logp = chance_of(row[found], cold, peak, std::log(total));
}

// ---------------------------------------------------------------- codes

constexpr int BLOCK = 64;

// Numbers of 4 bits, two in a byte, blocks of a row with a scale each; `pairs` has the two numbers of every byte.
template <class T>
void decode_nf4(const uint8_t* codes, const float* scale, const float* pairs, T* out, int rows, int width, int threads) {
    const int blocks = (width + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int row = 0; row < rows; row++) {
        for (int b = 0; b < blocks; b++) {
            const int64_t at = int64_t(row) * blocks + b;
            const uint8_t* from = codes + at * (BLOCK / 2);
            T* to = out + int64_t(row) * width + b * BLOCK;
            float whole[BLOCK];
            for (int j = 0; j < BLOCK / 2; j++) std::memcpy(whole + 2 * j, pairs + 2 * from[j], 2 * sizeof(float));
            for (int j = 0; j < BLOCK; j++) whole[j] *= scale[at];
            const int n = std::min(BLOCK, width - b * BLOCK);
            if (n == BLOCK) for (int j = 0; j < BLOCK; j += LANES) store(to + j, load(whole + j));
            else for (int j = 0; j < n; j++) put(to + j, whole[j]);
        }
    }
}

}  // namespace

// ---------------------------------------------------------------- the interface

#define BY_TYPE(CALL) \
    if (half) { typedef bf16 T; CALL; } else { typedef float T; CALL; }
#ifndef HEAD_SIZE
#define HEAD_SIZE 32  // Numbers per head, a multiple of 16: the library is compiled for one.
#endif

constexpr int D = HEAD_SIZE;
static_assert(D % 16 == 0, "a head has a multiple of 16 numbers");

extern "C" {

void hocket_add_norm(int half, const float* x, const void* delta, float* sums, void* normal, float* inverse, int rows,
                     int width, float eps, int threads) {
    BY_TYPE((add_norm<T>(x, (const T*)delta, sums, (T*)normal, inverse, rows, width, eps, threads)))
}
void hocket_add_norm_backward(int half, const void* g, const void* normal, const float* inverse, const float* more,
                              float* gx, void* gdelta, int rows, int width, int threads) {
    BY_TYPE((add_norm_backward<T>((const T*)g, (const T*)normal, inverse, more, gx, (T*)gdelta, rows, width, threads)))
}
void hocket_gate(int half, int kind, const void* both, void* out, int rows, int width, int threads) {
    if (kind == GELU) { BY_TYPE((gate<T, GELU>((const T*)both, (T*)out, rows, width, threads))) }
    else if (kind == SIGMOID) { BY_TYPE((gate<T, SIGMOID>((const T*)both, (T*)out, rows, width, threads))) }
    else { BY_TYPE((gate<T, SILU>((const T*)both, (T*)out, rows, width, threads))) }
}
void hocket_gate_backward(int half, int kind, const void* grad, const void* both, void* out, int rows, int width,
                          int threads) {
    if (kind == GELU) { BY_TYPE((gate_backward<T, GELU>((const T*)grad, (const T*)both, (T*)out, rows, width, threads))) }
    else if (kind == SIGMOID) { BY_TYPE((gate_backward<T, SIGMOID>((const T*)grad, (const T*)both, (T*)out, rows, width, threads))) }
    else { BY_TYPE((gate_backward<T, SILU>((const T*)grad, (const T*)both, (T*)out, rows, width, threads))) }
}
void hocket_apply_rope(int half, const void* qkv, const float* weight, const float* cosine, const float* sine,
                   const int32_t* depth, float eps, void* turned, float* inverse, int tokens, int heads, int shared,
                   int threads) {
    BY_TYPE((apply_rope<T, D>((const T*)qkv, weight, cosine, sine, depth, eps, (T*)turned, inverse, tokens, heads, shared, threads)))
}
void hocket_apply_rope_backward(int half, const float* grad, const void* qkv, const float* weight,
                            const float* cosine, const float* sine, const int32_t* depth, const float* inverse,
                            void* out, float* for_weight, int tokens, int heads, int shared, int threads) {
    BY_TYPE((apply_rope_backward<T, D>(grad, (const T*)qkv, weight, cosine, sine, depth, inverse, (T*)out, for_weight, tokens,
                                   heads, shared, threads)))
}
void hocket_tree_attention(int half, const void* turned, const void* qkv, const int32_t* start,
                           const int32_t* own, const int32_t* piece, const int32_t* begin, const int32_t* length,
                           int nodes, float scale, int window, float cap, const float* sinks, void* out, float* lse,
                           int heads, int shared, int threads) {
    const Tree tree{start, own, piece, begin, length, nodes};
    const Bounds bounds{window, cap, sinks};
    BY_TYPE((tree_attention<T, D>((const T*)turned, (const T*)qkv, tree, scale, bounds, (T*)out, lse, heads, shared, threads)))
}
void hocket_tree_attention_backward(int half, const void* turned, const void* qkv, const void* out,
                                    const void* grad, const float* lse, const int32_t* start, const int32_t* own,
                                    const int32_t* piece, const int32_t* begin, const int32_t* length, int nodes,
                                    float scale, int window, float cap, float* result, int heads, int shared,
                                    int threads) {
    const Tree tree{start, own, piece, begin, length, nodes};
    const Bounds bounds{window, cap, nullptr};  // Of a sink the sums of scores know.
    BY_TYPE((tree_attention_backward<T, D>((const T*)turned, (const T*)qkv, (const T*)out, (const T*)grad, lse, tree,
                                           scale, bounds, result, heads, shared, threads)))
}
void hocket_paged_attention(int half, const void* qkv, void* keys, void* values, const int32_t* position,
                            const int32_t* slot, const int32_t* table, int table_width, const int32_t* run_start,
                            const int32_t* run_row, int runs, const float* weight, float eps, const float* cosine,
                            const float* sine, float scale, int window, float cap, const float* sinks, void* out,
                            float* sums, int tokens, int heads, int shared, int threads) {
    const Bounds bounds{window, cap, sinks};
    BY_TYPE((paged_attention<T, D>((const T*)qkv, (T*)keys, (T*)values, position, slot, table, table_width, run_start,
                                   run_row, runs, weight, eps, cosine, sine, scale, bounds, (T*)out, sums, tokens, heads,
                                   shared, threads)))
}
void hocket_all_layers(Gemm gemm, float* x, const float* added, float* normal, float* room, const void* layer,
                       const float* numbers, const int32_t* counts, int32_t* reached, int first, int layers,
                       float last_epsilon, const int32_t* position, const int32_t* slot, const int32_t* table,
                       int table_width, const int32_t* run_start, const int32_t* run_row, int runs,
                       const int64_t* wanted, int wanted_rows, int tokens, int width, int heads, int shared, int inner,
                       int threads) {
    const Rows rows{position, slot, table, table_width, run_start, run_row, runs, wanted, wanted_rows, tokens};
    *reached = all_layers<D>(gemm, x, added, normal, room, (const Layer*)layer, (const LayerNumbers*)numbers,
                             (const LayerCounts*)counts, first, layers, last_epsilon, rows, width, heads, shared, inner,
                             threads);
}
void hocket_routed(Gemm gemm, const float* x, const int64_t* chosen, const float* share, const float* opening,
                   const float* opening_bias, const float* closing, const float* closing_bias, float* sums, int rows,
                   int each, int experts, int width, int inner, int kind, int across, int threads) {
    routed(gemm, x, chosen, share, opening, opening_bias, closing, closing_bias, sums, rows, each, experts, width,
           inner, kind, across, threads);
}
void hocket_token_logprobs(int half, const void* logits, const int64_t* action, const float* temperature, float* logp, float* peaks,
                   float* totals, float* entropy, int rows, int size, int threads) {
    BY_TYPE((token_logprobs<T>((const T*)logits, action, temperature, logp, peaks, totals, entropy, rows, size, threads)))
}
void hocket_token_logprobs_backward(int half, void* logits, const int64_t* action, const float* temperature, const float* peaks,
                            const float* totals, const float* entropy, const float* g, const float* e, int rows,
                            int size, int threads) {
    BY_TYPE((token_logprobs_backward<T>((T*)logits, action, temperature, peaks, totals, entropy, g, e, rows, size, threads)))
}
void hocket_delta_rule(const float* x, const float* a, const float* b, const float* rate, const float* bias,
                       const int32_t* start, const int32_t* count, const int32_t* source, const int32_t* target,
                       int runs, float* memory, float* out, int keys, int heads, int size, int values, int threads) {
    const Delta d{x, a, b, rate, bias, keys, heads, size, values};
    const Runs r{start, count, source, target, runs};
    if (values % (2 * LANES)) delta_rule<1>(d, r, memory, out, threads);
    else delta_rule<2>(d, r, memory, out, threads);
}
void hocket_delta_rule_backward(const float* x, const float* a, const float* b, const float* rate, const float* bias,
                                const int32_t* start, const int32_t* count, const int32_t* source,
                                const int32_t* target, int runs, const float* memory, int slots, const float* g,
                                float* gx, float* ga, float* gb, float* grate, int keys, int heads, int size,
                                int values, int threads) {
    const Delta d{x, a, b, rate, bias, keys, heads, size, values};
    delta_rule_backward(d, {start, count, source, target, runs}, memory, slots, g, gx, ga, gb, grate, threads);
}

void hocket_linear(Gemm gemm, const float* x, const float* weight, const float* bias, float* y, int m, int n, int k,
                   int across, int) {
    linear_of_few(gemm, x, weight, bias, y, m, n, k, across);
}
void hocket_sort_choices(const int64_t* chosen, int32_t* place, int32_t* row, int64_t* start, int rows, int each,
                         int groups, int) {
    sort_choices(chosen, place, row, start, rows, each, groups);
}
// Rows start[g] .. start[g + 1] - 1 by the group's own weight; a group without rows is not touched.
void hocket_grouped_linear(Gemm gemm, const float* x, const float* weight, const float* bias, const int64_t* start,
                           float* y, int groups, int n, int k, int across, int) {
    for (int g = 0; g < groups; g++)
        if (start[g + 1] > start[g])
            linear_of_few(gemm, x + start[g] * k, weight + int64_t(g) * n * k, bias ? bias + int64_t(g) * n : nullptr,
                          y + start[g] * n, int(start[g + 1] - start[g]), n, k, across);
}
// Per group the sum over its rows of a[row]^T b[row], `[groups, n, k]`; zeros for a group without rows.
void hocket_grouped_outer(Gemm gemm, const float* a, const float* b, const int64_t* start, float* out, int groups, int n,
                          int k, int) {
    const float whole = 1.0f, before = 0.0f;
    for (int g = 0; g < groups; g++) {
        const int rows = int(start[g + 1] - start[g]);
        float* to = out + int64_t(g) * n * k;
        if (!rows) std::memset(to, 0, sizeof(float) * n * k);
        else gemm("N", "T", &k, &n, &rows, &whole, b + start[g] * k, &k, a + start[g] * n, &n, &before, to, &k);
    }
}
void hocket_sum_places(int half, const void* x, const int32_t* place, const float* share, void* out, int rows, int each,
                       int width, int threads) {
    BY_TYPE((sum_places<T>((const T*)x, place, share, (T*)out, rows, each, width, threads)))
}
void hocket_dot_rows(int half, const void* a, const void* b, const float* share, float* dots, void* scaled, int rows,
                     int width, int threads) {
    BY_TYPE((dot_rows<T>((const T*)a, (const T*)b, share, dots, (T*)scaled, rows, width, threads)))
}
// Row m of the result is row row[m] of block chunk[m]; rows of `bytes` bytes.
void hocket_gather(const int64_t* blocks, const int32_t* chunk, const int32_t* row, void* out, int rows, int bytes,
                   int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int m = 0; m < rows; m++)
        std::memcpy((char*)out + int64_t(m) * bytes, (const char*)blocks[chunk[m]] + int64_t(row[m]) * bytes, bytes);
}
void hocket_draw(const float* logits, const double* uniform, const float* temperature, const uint8_t* greedy,
                 const int64_t* forced, int64_t* token, float* logp, int rows, int size, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int r = 0; r < rows; r++)
        draw_row(logits + int64_t(r) * size, size, temperature[r], greedy[r], uniform[r], forced[r], token + r, logp + r);
}
void hocket_decode_nf4(int half, const uint8_t* codes, const float* scale, const float* pairs, void* out, int rows,
                       int width, int threads) {
    if (half) decode_nf4(codes, scale, pairs, (bf16*)out, rows, width, threads);
    else decode_nf4(codes, scale, pairs, (float*)out, rows, width, threads);
}

}  // extern "C"
