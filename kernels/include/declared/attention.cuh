// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Strides in elements. The starts of matrix b of query, key, value, grad, added and hidden are
// starts[b], starts[count + b] and so on. Query i sees the first min(seen + i, keys) keys. With
// dropout, weight i is dropped if word i from block first on is at most last, and any is not 0.
struct SbAttention {
    u64 count;
    u64 queries;
    u64 keys;
    u64 width;
    u64 features;
    u64 seen;
    u64 has_added;
    u64 has_hidden;
    u64 query_row;
    u64 query_column;
    u64 key_row;
    u64 key_column;
    u64 value_row;
    u64 value_column;
    u64 grad_row;
    u64 grad_column;
    u64 added_row;
    u64 added_column;
    u64 hidden_row;
    u64 hidden_column;
    u64 dropout;
    u64 seed;
    u64 stream;
    u64 first;
    u64 last;
    u64 any;
    double scale;
};
