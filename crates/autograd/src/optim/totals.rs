//! Numbers about all elements of several tensors, which devices compute without a download.

use samebits_tensor_core::backend::{Backend, Floats, backend};
use samebits_tensor_core::{Device, Error, Result, Tensor as Value};

/// Returns what `body` computes from the elements of dense tensors of floats on one device; nothing for the
/// host, or for a device without a kernel for it.
pub(super) fn on_device<R>(
    device: Device,
    dense: &[Value],
    body: impl FnOnce(&dyn Backend, &[Floats<'_>]) -> Result<Option<R>>,
) -> Result<Option<R>> {
    if device == Device::Cpu {
        return Ok(None);
    }
    let floats = dense.iter().map(|x| {
        let buffer = &**x.device_buffer().ok_or(Error::NoBackend { device })?;
        Ok(Floats { buffer, start: x.layout().offset(), len: x.numel(), dtype: x.dtype() })
    });
    body(&*backend(device)?, &floats.collect::<Result<Vec<_>>>()?)
}
