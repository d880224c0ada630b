typedef unsigned int u32; typedef unsigned long long u64;
extern "C" __global__ void vector_add(const float* __restrict__ a, const float* __restrict__ b, float* c, int n){
 int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) c[i]=a[i]+b[i];}
extern "C" __global__ void block_sum(const float* a, float* out, u32 n){
 __shared__ float s[256]; u32 t=threadIdx.x; float acc=0; for(u32 i=blockIdx.x*blockDim.x+t;i<n;i+=gridDim.x*blockDim.x) acc=__fadd_rn(acc,a[i]);
 s[t]=acc; __syncthreads(); for(u32 k=blockDim.x/2;k>0;k>>=1){ if(t<k) s[t]+=s[t+k]; __syncthreads();} if(t==0) out[blockIdx.x]=s[0];}
extern "C" __global__ void dyn_sum(const double* a, double* out, int n){ extern __shared__ double d[]; int t=threadIdx.x; d[t]= t<n?a[t]:0.0; __syncthreads(); if(t==0){double s=0; for(int i=0;i<blockDim.x;i++) s=__fma_rn(d[i],1.0000001,s); out[0]=s;}}
extern "C" __global__ void warp_sum(const float* a, float* out){ float v=a[threadIdx.x+blockIdx.x*blockDim.x]; for(int o=16;o>0;o>>=1) v+=__shfl_xor_sync(0xffffffffu,v,o); if((threadIdx.x&31)==0) atomicAdd(out,v);}
extern "C" __global__ void atomics(u32* u, int* s, u64* l, float* f, double* d, const u32* in){ u32 i=threadIdx.x; u32 v=in[i];
 atomicAdd(u,v); atomicMax(u+1,v); atomicMin(u+2,v); atomicAnd(u+3,v); atomicOr(u+4,v); atomicXor(u+5,v); u[16+i]=atomicExch(u+6,v); atomicInc(u+7,17); atomicDec(u+8,17); atomicCAS(u+9,0,v);
 atomicAdd(s,(int)v); atomicMax(s+1,(int)v); atomicMin(s+2,(int)v); atomicSub(s+3,(int)v); atomicAdd(l,(u64)v<<20); atomicMax(l+1,(u64)v<<20); atomicCAS(l+2,0ull,(u64)v); atomicExch(l+3,(u64)v); atomicAdd(f,1.5f); atomicAdd(d,1.5); }
struct P { u32 a; float b; long long c; unsigned char e[8]; };
__constant__ float table[5]={1.f,2.f,3.f,4.f,5.5f};
__device__ u32 counter=7; __device__ double dtab[3]={1.0,-2.0,0.1};
__device__ const char* names="hello";
extern "C" __global__ void structs(P p, float* o, int k){ o[0]=p.b*table[k]; o[1]=(float)p.c; o[2]=p.e[k]; counter+=p.a; o[3]=(float)dtab[k]; o[4]=names[k];}
extern "C" __global__ void maths(const float* x,const double* y, float* o, double* q, int* z, long long* zz){ int i=threadIdx.x; float a=x[i],b=x[i+1]; double c=y[i],d=y[i+1];
 o[0]=a/b; o[1]=sqrtf(a); o[2]=__frcp_rn(a); o[3]=fabsf(a); o[4]=fminf(a,b); o[5]=fmaxf(a,b); o[6]=floorf(a); o[7]=rintf(a); o[8]=truncf(a); o[9]=ceilf(a); o[10]=copysignf(a,b); o[11]=fmaf(a,b,a); o[12]=(float)c; o[13]=roundf(a);
 q[0]=c/d; q[1]=sqrt(c); q[2]=fabs(c); q[3]=fmin(c,d); q[4]=floor(c); q[5]=fma(c,d,c); q[6]=(double)a; q[7]=1.0/c; q[8]=fmod(c,d);
 z[0]=(int)a; z[1]=__float2int_rn(a); z[2]=(u32)b; z[3]=__clz(i); z[4]=__popc(i); z[5]=__brev(i); z[6]=__ffs(i); z[7]=__float_as_int(a); z[8]=i/7; z[9]=i%z[3]; z[10]=__byte_perm(i,z[0],0x3210); z[11]=__funnelshift_l(i,i,7); z[12]=isnan(a); z[13]=signbit(b); z[14]=__mulhi(i,z[1]); z[15]=i<3?5:i;
 zz[0]=(long long)c; zz[1]=(long long)a; zz[2]=__double_as_longlong(c); zz[3]=__umul64hi(zz[0],zz[1]); zz[4]=zz[0]/zz[1]; zz[5]=__clzll(zz[0]); zz[6]=__popcll(zz[1]); zz[7]=__ffsll(zz[2]); zz[8]=zz[0]<<i; zz[9]=zz[1]%i;
 o[15]=(float)zz[0]; o[16]=(float)(u64)zz[1]; q[9]=(double)zz[0]; o[17]=(float)i; o[18]=(float)(u32)i; q[10]=(double)i;}
