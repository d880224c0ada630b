// Sizes and coordinates of planes of three dimensions; missing ones have size 1.
#pragma once

#include "samebits.cuh"

__device__ __forceinline__ u64 sb_volume(const u32* size) {
    return (u64)size[0] * (u64)size[1] * (u64)size[2];
}

// Coordinates of element i of a plane.
__device__ __forceinline__ void sb_coordinates(u64 i, const u32* size, u32* at) {
    at[2] = (u32)(i % size[2]);
    i /= size[2];
    at[1] = (u32)(i % size[1]);
    at[0] = (u32)(i / size[1]);
}
