// Reports of bad indices.

#include "samebits.cuh"
#include "declared/status.cuh"

// level: Portable - one thread; keeps the report of the first op that failed
extern "C" __global__ void status_collect(u64* status, const SbSource* sources, u64 count) {
    if (sb_thread() != 0) return;
    for (u64 k = 0; k < count; ++k) {
        u64 position = status[SB_STATUS_REPORT + k];
        status[SB_STATUS_REPORT + k] = ~0ull;
        if (position == ~0ull || status[0] != 0) continue;
        status[0] = sources[k].name;
        status[1] = position;
        status[2] = ((const u64*)__cvta_global_to_generic(sources[k].index))[position];
        status[3] = sources[k].size;
    }
}
