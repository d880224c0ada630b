//! Parameters of `kernels/group_norm.cu`.

use bytemuck::{Pod, Zeroable};

/// `[n, groups, channels, spatial]`, with the channels of a group, and what there is.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawGroups {
    pub(crate) n: usize,
    pub(crate) groups: usize,
    pub(crate) channels: usize,
    pub(crate) spatial: usize,
    pub(crate) weighted: u32,
    pub(crate) biased: u32,
}
