// Calls, recursion, function pointers, local arrays, vectors, switches and warp operations.
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __noinline__ float scaled(float a, int* count) {
    if (a > 0) *count += 1;
    return a * 2.0f;
}
struct Parts { float a; double b; int c[3]; };
__device__ __noinline__ Parts changed(Parts p, int k) {
    p.c[k] += 1;
    p.a *= 2;
    return p;
}
extern "C" __global__ void calls(float* out, int n) {
    int count = 0;
    float sum = 0;
    for (int i = 0; i < n; i++) sum += scaled(out[i], &count);
    Parts p;
    p.a = sum; p.b = count; p.c[0] = p.c[1] = p.c[2] = n;
    p = changed(p, n % 3);
    out[n] = p.a; out[n + 1] = p.c[n % 3]; out[n + 2] = (float)p.b;
}
__device__ __noinline__ int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 12); }

typedef float (*Map)(float);
__device__ float plus_one(float a) { return a + 1; }
__device__ float times_three(float a) { return a * 3; }
__device__ Map maps[2] = {plus_one, times_three};
extern "C" __global__ void indirect(float* out, int k) {
    out[threadIdx.x] = maps[(threadIdx.x + k) & 1](out[threadIdx.x]);
}
extern "C" __global__ void choose(int* out) {
    int r = 0, x = threadIdx.x;
    switch (out[x] & 7) {
        case 0: r = 3; break;
        case 1: r = x * 7; break;
        case 2: r = x / 3; break;
        case 3: r = x ^ 4; break;
        case 4: r = __popc(x); break;
        case 5: r = x * x * 5; break;
        case 6: r = x << 3; break;
        default: r = -1;
    }
    __syncthreads();
    out[x] = r;
}
extern "C" __global__ void vectors(float4* a, const float4* __restrict__ b, uchar4* c, short2* d) {
    int i = threadIdx.x;
    float4 v = b[i];
    v.x += 1.0f; v.w = v.y;
    a[i] = v;
    uchar4 e = c[i]; e.x += 250; e.w ^= e.y; c[i] = e;
    short2 s = d[i]; s.x *= -3; s.y >>= 1; d[i] = s;
}
extern "C" __global__ void local_array(int* out, int n) {
    int a[16];
    for (int i = 0; i < 16; i++) a[(i * n) & 15] = i + threadIdx.x;
    int sum = 0;
    for (int i = 0; i < n; i++) sum = sum * 31 + a[(sum ^ i) & 15];
    out[threadIdx.x] = sum;
}
extern "C" __global__ void wide(const u64* in, u64* out) {
    int i = threadIdx.x;
    u64 a = in[i], b = in[i + 1] | 1;
    unsigned __int128 x = a;
    x = x * b + a;
    x -= b;
    out[6 * i] = (u64)x;
    out[6 * i + 1] = (u64)(x >> 64);
    out[6 * i + 2] = a / b;
    out[6 * i + 3] = a % b;
    out[6 * i + 4] = (u64)((long long)a >> (b & 63)) ^ (a << (b & 31));
    out[6 * i + 5] = __brevll(a) + __clzll(b) + __ffsll(a) + __umul64hi(a, b);
}
