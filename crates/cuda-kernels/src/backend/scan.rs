use samebits_tensor_core::geometry::Split;
use samebits_tensor_core::ops::{
    Cumextreme, Cumprod, CumprodGrad, CumprodGradGrad, Cumsum, Logcumsumexp, LogcumsumexpGrad,
};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{Op, Tensor};

use super::{FLOATS, INTEGERS, Real, Tensors, WRAPS, on, portable, with_float};
use crate::scan::{self, Scan};

const TILES: &str = "each line runs in f64 over tiles of 1024 elements, carried in order";
const LINE: &str = "each line runs in f64 from its last element to its first";
const BOTH: &str = "each line runs in f64 from its first element to its last and back";
const FIRST: &str = "of equal elements the first is taken";

pub(super) fn register_all() {
    register(portable("tiles", FLOATS, TILES, |op: &Cumsum, &split| {
        let kind = if op.reverse { Scan::SumFromEnd } else { Scan::Sum };
        with_float!(op.x.dtype(), T => tiles::<T, _>(op, &op.x, split, kind))
    }));
    register(portable(
        "tiles",
        FLOATS,
        TILES,
        |op: &Cumprod, &split| with_float!(op.x.dtype(), T => tiles::<T, _>(op, &op.x, split, Scan::Product)),
    ));
    register(portable("integers", INTEGERS, WRAPS, |op: &Cumsum, &split| {
        let kind = if op.reverse { Scan::SumFromEnd } else { Scan::Sum };
        integers(op, &op.x, split, kind)
    }));
    register(portable("integers", INTEGERS, WRAPS, |op: &Cumprod, &split| {
        integers(op, &op.x, split, Scan::Product)
    }));
    register(portable("line", FLOATS, LINE, |op: &CumprodGrad, &split| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (x, grad) = (gpu.input::<T>(&op.x)?, gpu.input(&op.grad)?);
                gpu.tensor(scan::cumprod_grad(gpu.device, &x, &grad, split.into())?, op.x.shape())
            })
        })
    }));
    register(portable("line", FLOATS, BOTH, |op: &CumprodGradGrad, &split| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (x, grad) = (gpu.input::<T>(&op.x)?, gpu.input(&op.grad)?);
                let outer = gpu.input(&op.outer)?;
                let (of_grad, of_x) =
                    scan::cumprod_grad_grad(gpu.device, &x, &grad, &outer, split.into())?;
                Ok((gpu.tensor(of_grad, op.x.shape())?, gpu.tensor(of_x, op.x.shape())?))
            })
        })
    }));
    register(portable("tiles", FLOATS, TILES, |op: &Logcumsumexp, &split| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                gpu.tensor(scan::logcumsumexp(gpu.device, &x, split.into())?, op.x.shape())
            })
        })
    }));
    register(portable("line", FLOATS, LINE, |op: &LogcumsumexpGrad, &split| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (x, y) = (gpu.input::<T>(&op.x)?, gpu.input(&op.y)?);
                let grad = gpu.input(&op.grad)?;
                let out = scan::logcumsumexp_grad(gpu.device, &x, &y, &grad, split.into())?;
                gpu.tensor(out, op.x.shape())
            })
        })
    }));
    register(portable("first", FLOATS, FIRST, |op: &Cumextreme, &split| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                let (values, at) = scan::cumextreme(gpu.device, &x, split.into(), op.largest)?;
                Ok((gpu.tensor(values, op.x.shape())?, gpu.tensor(at, op.x.shape())?))
            })
        })
    }));
}

fn tiles<T: Real, O: Op>(op: &O, x: &Tensor, split: Split, kind: Scan) -> Tensors<Tensor> {
    on(op, |gpu| {
        let out = scan::scan(gpu.device, &*gpu.input::<T>(x)?, split.into(), kind)?;
        gpu.tensor(out, x.shape())
    })
}

fn integers<O: Op>(op: &O, x: &Tensor, split: Split, kind: Scan) -> Tensors<Tensor> {
    on(op, |gpu| {
        let out = scan::integers(gpu.device, &*gpu.input(x)?, split.into(), kind)?;
        gpu.tensor(out, x.shape())
    })
}
