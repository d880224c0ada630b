//! Elements as bytes.

use std::io::{ErrorKind, Read};

use samebits_numerics::memory;
use samebits_tensor_core::Element;

use super::{Error, Result, Site};
use crate::{DType, Device, Tensor};

/// Reads the elements of one tensor, in row-major order. `place` names it in errors.
pub(super) fn read_tensor(
    site: Site<'_>,
    place: &str,
    reader: impl Read,
    dtype: DType,
    shape: &[usize],
    big_endian: bool,
) -> Result<Tensor> {
    let reading = Reading { site, place, shape, swap: big_endian != cfg!(target_endian = "big") };
    match dtype {
        DType::F32 => reading.tensor::<f32>(reader),
        DType::F64 => reading.tensor::<f64>(reader),
        DType::I64 => reading.tensor::<i64>(reader),
        DType::U8 => reading.tensor::<u8>(reader),
        DType::Bool => {
            let bytes = reading.elements::<u8>(reader)?;
            if let Some(at) = bytes.iter().position(|&byte| byte > 1) {
                let message =
                    format!("element {at}: a truth value should be 0 or 1, is {}", bytes[at]);
                return Err(site.content(place, message));
            }
            let truths = memory::collected(bytes.iter().map(|&byte| byte != 0))
                .map_err(|error| reading.out_of_memory(error))?;
            Tensor::from_bools(&truths, shape).map_err(site.tensor(place))
        }
        _ => Err(site.content(place, format!("elements of type {dtype} cannot be read"))),
    }
}

struct Reading<'a> {
    site: Site<'a>,
    place: &'a str,
    shape: &'a [usize],
    /// The file's byte order is not this machine's.
    swap: bool,
}

impl Reading<'_> {
    fn tensor<T: Element>(&self, reader: impl Read) -> Result<Tensor> {
        let elements = self.elements::<T>(reader)?;
        Tensor::from_slice(&elements, self.shape).map_err(self.site.tensor(self.place))
    }

    fn elements<T: Element>(&self, mut reader: impl Read) -> Result<Vec<T>> {
        let Some(numel) = memory::product(self.shape) else {
            let message = format!("shape {:?} has too many elements", self.shape);
            return Err(self.site.content(self.place, message));
        };
        // Pages that the file does not fill are never touched.
        let mut elements = memory::zeroed::<T>(numel).map_err(|error| self.out_of_memory(error))?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut elements);
        reader.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                let message =
                    format!("ends before its {} bytes of shape {:?}", bytes.len(), self.shape);
                self.site.content(self.place, message)
            }
            _ => self.site.read()(error),
        })?;
        if self.swap {
            bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
        }
        Ok(elements)
    }

    fn out_of_memory(&self, error: memory::OutOfMemory) -> Error {
        let (op, bytes) = (self.site.op, error.bytes);
        let source = crate::Error::OutOfMemory { op, device: Device::Cpu, bytes };
        self.site.tensor(self.place)(source)
    }
}
