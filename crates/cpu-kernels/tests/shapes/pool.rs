//! Pooling of planes, as several tests write it.

use samebits_cpu_kernels::pooling::{Pool, PoolParams};

/// Windows over planes.
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
