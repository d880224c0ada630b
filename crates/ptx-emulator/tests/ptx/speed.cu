// Kernels for the benchmark: arithmetic, coalesced memory, a tiled product, atomics.
extern "C" __global__ void chain(float* x, int n) {
    float a = x[threadIdx.x];
    for (int i = 0; i < n; ++i) a = __fmaf_rn(a, 1.0000001f, 0.5f);
    x[threadIdx.x] = a;
}
extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        c[i] = a[i] + b[i];
}
extern "C" __global__ void product(const float* a, const float* b, float* c, int n) {
    __shared__ float x[16][17], y[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        x[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        y[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum = __fmaf_rn(x[threadIdx.y][i], y[i][threadIdx.x], sum);
        __syncthreads();
    }
    c[row * n + column] = sum;
}
extern "C" __global__ void histogram(const unsigned* x, unsigned* bins, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[x[i] & 255], 1u);
}
