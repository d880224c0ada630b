//! Pooling of planes, in the form that several tests use.

use samebits_cpu_kernels::pooling::{Pool, PoolParams};

/// Returns windows over planes.
pub(crate) fn pool(
    planes: usize,
    input: &[usize],
    [kernel, stride, padding, dilation]: [&[usize]; 4],
    ceil_mode: bool,
) -> samebits_tensor_core::Result<Pool> {
    let [kernel, stride, padding, dilation] =
        [kernel, stride, padding, dilation].map(<[usize]>::to_vec);
    let params = PoolParams { kernel, stride, padding, dilation, ceil_mode };
    Pool::new("pool", &[&[1, planes], input].concat(), &params)
}
