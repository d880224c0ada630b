use samebits_tensor_core::ops::{
    Cumextreme, Cumprod, CumprodGrad, CumprodGradGrad, Cumsum, Logcumsumexp, LogcumsumexpGrad,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Tensor};

use super::{FLOATS, INTEGERS, WRAPS, filled, with_float};
use crate::scan;

const TILES: &str = "each line runs in f64 over tiles of 1024 elements, carried in order";
const LINE: &str = "each line runs in f64 from its last element to its first";
const BOTH: &str = "each line runs in f64 from its first element to its last and back";
const FIRST: &str = "of equal elements the first is taken";

pub(super) fn register_all() {
    register(Kernel::portable("tiles", FLOATS, TILES, |op: &Cumsum, &split| {
        let x = op.x.contiguous()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out: &mut [T]| {
            let scan = if op.reverse { scan::cumsum_backward } else { scan::cumsum };
            Ok(scan(x.as_slice()?, split.into(), out)?)
        }))
    }));
    register(Kernel::portable("tiles", FLOATS, TILES, |op: &Cumprod, &split| {
        let x = op.x.contiguous()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out: &mut [T]| {
            Ok(scan::cumprod(x.as_slice()?, split.into(), out)?)
        }))
    }));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &Cumsum, &split| {
        let x = op.x.contiguous()?;
        filled(x.shape(), |out| {
            Ok(scan::integer_cumsum(x.as_slice()?, split.into(), op.reverse, out)?)
        })
    }));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &Cumprod, &split| {
        let x = op.x.contiguous()?;
        filled(x.shape(), |out| Ok(scan::integer_cumprod(x.as_slice()?, split.into(), out)?))
    }));
    register(Kernel::portable("line", FLOATS, LINE, |op: &CumprodGrad, &split| {
        let (x, grad) = (op.x.contiguous()?, op.grad.contiguous()?);
        with_float!(x.dtype(), T => filled(x.shape(), |out: &mut [T]| {
            Ok(scan::cumprod_backward(x.as_slice()?, grad.as_slice()?, split.into(), out)?)
        }))
    }));
    register(Kernel::portable("line", FLOATS, BOTH, |op: &CumprodGradGrad, &split| {
        let (x, grad, outer) = (op.x.contiguous()?, op.grad.contiguous()?, op.outer.contiguous()?);
        let mut of_grad = Tensor::scratch(x.shape(), x.dtype())?;
        let mut of_x = Tensor::scratch(x.shape(), x.dtype())?;
        with_float!(x.dtype(), T => scan::cumprod_backward_backward::<T>(
            x.as_slice()?,
            grad.as_slice()?,
            outer.as_slice()?,
            split.into(),
            of_grad.as_mut_slice()?,
            of_x.as_mut_slice()?,
        )?);
        Ok((of_grad, of_x))
    }));
    register(Kernel::portable("tiles", FLOATS, TILES, |op: &Logcumsumexp, &split| {
        let x = op.x.contiguous()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out: &mut [T]| {
            Ok(scan::logcumsumexp(x.as_slice()?, split.into(), out)?)
        }))
    }));
    register(Kernel::portable("line", FLOATS, LINE, |op: &LogcumsumexpGrad, &split| {
        let (x, y, grad) = (op.x.contiguous()?, op.y.contiguous()?, op.grad.contiguous()?);
        with_float!(x.dtype(), T => filled(x.shape(), |out: &mut [T]| {
            let (x, y, grad) = (x.as_slice()?, y.as_slice()?, grad.as_slice()?);
            Ok(scan::logcumsumexp_backward(x, y, grad, split.into(), out)?)
        }))
    }));
    register(Kernel::portable("first", FLOATS, FIRST, |op: &Cumextreme, &split| {
        let x = op.x.contiguous()?;
        let mut values = Tensor::scratch(x.shape(), x.dtype())?;
        let mut indices = Tensor::scratch(x.shape(), DType::I64)?;
        with_float!(x.dtype(), T => scan::cumextreme::<T>(
            x.as_slice()?,
            split.into(),
            op.largest,
            values.as_mut_slice()?,
            indices.as_mut_slice()?,
        )?);
        Ok((values, indices))
    }));
}
