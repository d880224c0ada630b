use samebits_tensor_core::layout::PerDim;
use samebits_tensor_core::ops::{
    Affine, Binary, BinaryKind, Cast, Compare, CompareKind, Formula, Gelu, GeluGrad, LogitLoss,
    LogitLossGrad, Ramp, RampGrad, Silu, SiluGrad, Unary, Where,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::scalar::{self, Exact, Scalar};
use samebits_tensor_core::{DType, Element, Layout, Op, Result, Tensor, with_element};

use super::{FLOATS, INTEGERS, WRAPS, filled, with_bits, with_float};
use crate::elementwise::{self, Operand, halves};
use crate::{integer, memory, parallel};

const EACH: &str = "each element is its own fixed sequence of correctly rounded operations";

pub(super) fn register_all() {
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &Unary, ()| {
        with_float!(op.x.dtype(), T => mapped(&op.x, |x, out| {
            elementwise::unary::<T>(op.kind, x, out)
        }))
    }));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &Unary, ()| {
        mapped(&op.x, |x, out| integer::unary(op.kind, x, out))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, float_binary));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &Binary, shape| {
        binary(op, shape, integer::binary)
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &Affine, ()| {
        with_float!(op.x.dtype(), T => mapped(&op.x, |x, out| {
            elementwise::affine(x, op.scale as T, op.shift as T, out)
        }))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &Gelu, ()| {
        with_float!(op.x.dtype(), T => mapped(&op.x, |x, out| {
            elementwise::gelu::<T>(op.form, x, out)
        }))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &GeluGrad, ()| {
        let (grad, x) = (op.grad.contiguous()?, op.x.contiguous()?);
        let found = op.found.as_ref().map(Tensor::contiguous).transpose()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out| {
            let found = found.as_ref().map(Tensor::as_slice).transpose()?;
            let (grad, x) = (grad.as_slice::<T>()?, x.as_slice()?);
            Ok(elementwise::gelu_backward(op.form, grad, x, found, out)?)
        }))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &Silu, ()| {
        let x = &op.x;
        with_float!(x.dtype(), T => mapped(x, elementwise::silu::<T>))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &SiluGrad, ()| {
        let (grad, x) = (op.grad.contiguous()?, op.x.contiguous()?);
        let found = op.found.as_ref().map(Tensor::contiguous).transpose()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out| {
            let found = found.as_ref().map(Tensor::as_slice).transpose()?;
            let (grad, x) = (grad.as_slice::<T>()?, x.as_slice()?);
            Ok(elementwise::silu_backward(grad, x, found, out)?)
        }))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &Ramp, ()| {
        with_float!(op.x.dtype(), T => mapped(&op.x, |x, out| {
            elementwise::ramp::<T>(op.kind, x, out)
        }))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &RampGrad, ()| {
        let (grad, x) = (op.grad.contiguous()?, op.x.contiguous()?);
        with_float!(x.dtype(), T => filled(x.shape(), |out| {
            Ok(elementwise::ramp_backward::<T>(op.kind, grad.as_slice()?, x.as_slice()?, out)?)
        }))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &LogitLoss, ()| {
        let [x, target] = try_each(&[&op.x, &op.target], |x| x.contiguous())?;
        with_float!(x.dtype(), T => filled(x.shape(), |out| {
            Ok(elementwise::logit_loss::<T>(x.as_slice()?, target.as_slice()?, out)?)
        }))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, logit_loss_grad));
    register(Kernel::portable("vectorized", FLOATS, EACH, formula));
    register(Kernel::portable("vectorized", &DType::ALL, EACH, compare));
    register(Kernel::portable("vectorized", &DType::ALL, EACH, select));
    register(Kernel::portable("vectorized", &DType::ALL, EACH, |op: &Cast, ()| {
        converted(&op.x, op.to)
    }));
}

/// Returns the results of `f`, called for parts of the elements. The results of a tensor that is dense but
/// for the order of its dimensions lie in memory as it does; elements that repeat are computed once.
fn mapped<T: Element>(
    x: &Tensor,
    f: impl Fn(&[T], &mut [T]) -> crate::Result<()> + Sync,
) -> Result<Tensor> {
    if let Some((stored, places)) = in_storage_order(x)? {
        let found = filled(stored.shape(), |out| Ok(f(stored.as_slice()?, out)?))?;
        let found = found.permute(&places)?;
        let repeats = stored.numel() < x.numel();
        return if repeats { found.expand(x.shape())?.contiguous() } else { Ok(found) };
    }
    filled(x.shape(), |out| x.each_part(out, |x, out| Ok(f(x, out)?)))
}

/// Returns the stored elements of a strided tensor in their order, if they are dense, and where its
/// dimensions are among theirs.
pub(super) fn in_storage_order(x: &Tensor) -> Result<Option<(Tensor, PerDim)>> {
    if x.is_contiguous() || x.numel() == 0 {
        return Ok(None);
    }
    let strides = x.layout().strides();
    let mut repeated = (0..x.rank()).filter(|&dim| strides[dim] == 0);
    let once = repeated.try_fold(x.clone(), |x, dim| x.narrow(dim, 0, 1))?;
    let mut order: PerDim = (0..x.rank()).collect();
    order.sort_by_key(|&dim| std::cmp::Reverse(strides[dim]));
    let stored = once.permute(&order)?;
    let mut places = order.clone();
    for (place, &dim) in order.iter().enumerate() {
        places[dim] = place;
    }
    Ok(stored.is_contiguous().then_some((stored, places)))
}

fn logit_loss_grad(op: &LogitLossGrad, (): &()) -> Result<Tensor> {
    let [x, target] = try_each(&[&op.x, &op.target], |x| x.contiguous())?;
    let found = op.found.as_ref().map(Tensor::contiguous).transpose()?;
    // The gradient of a mean is one number, repeated.
    let is_repeated = op.grad.numel() > 1 && run_kind(op.grad.layout(), 0) == Some(false);
    let grad = if is_repeated { op.grad.clone() } else { op.grad.contiguous()? };
    with_float!(x.dtype(), T => filled(x.shape(), |out| {
        let found = found.as_ref().map(Tensor::as_slice).transpose()?;
        let grad = match is_repeated {
            true => Operand::Splat(storage::<T>(&grad)?[grad.layout().offset()]),
            false => Operand::Each(grad.as_slice::<T>()?),
        };
        let (x, target) = (x.as_slice()?, target.as_slice()?);
        Ok(elementwise::logit_loss_backward(grad, x, target, found, out)?)
    }))
}

fn float_binary(op: &Binary, shape: &PerDim) -> Result<Tensor> {
    with_float!(op.a.dtype(), T => binary(op, shape, elementwise::binary::<T>))
}

fn binary<T: Element>(
    op: &Binary,
    shape: &[usize],
    f: impl Fn(BinaryKind, Operand<'_, T>, Operand<'_, T>, &mut [T]) -> crate::Result<()> + Sync + Send,
) -> Result<Tensor> {
    let runs = Runs::new(Binary::NAME, [&op.a, &op.b], shape, SHORT)?;
    let (a, b) = (runs.reader::<T>(0)?, runs.reader(1)?);
    filled(shape, |out| {
        let readers = || Ok((a.clone(), b.clone()));
        runs.each(out, readers, |(a, b), [at_a, at_b], out| {
            f(op.kind, a.read(at_a)?, b.read(at_b)?, out)
        })
    })
}

fn formula(op: &Formula, shape: &PerDim) -> Result<Tensor> {
    match &op.inputs[..] {
        [a] => formula_of(op, [a], shape),
        [a, b] => formula_of(op, [a, b], shape),
        [a, b, c] => formula_of(op, [a, b, c], shape),
        [a, b, c, d] => formula_of(op, [a, b, c, d], shape),
        [a, b, c, d, e] => formula_of(op, [a, b, c, d, e], shape),
        _ => unreachable!("the plan checks the number of inputs"),
    }
}

fn formula_of<const N: usize>(
    op: &Formula,
    inputs: [&Tensor; N],
    shape: &PerDim,
) -> Result<Tensor> {
    let runs = Runs::new(Formula::NAME, inputs, shape, SHORT)?;
    let formula = elementwise::Prepared::new(&op.steps, N, shape.iter().product())?;
    with_float!(inputs[0].dtype(), T => {
        let numbers: [usize; N] = std::array::from_fn(|i| i);
        let readers = try_each(&numbers, |&i| runs.reader::<T>(i))?;
        filled(shape, |out| {
            let readers = || Ok((readers.clone(), None));
            runs.each(out, readers, |(readers, workspace), starts, out| {
                let mut operands = [Operand::Splat(0.0); N];
                for ((operand, reader), starts) in operands.iter_mut().zip(readers).zip(starts) {
                    *operand = reader.read(starts)?;
                }
                // A long run is for several threads; short ones of a thread share their memory.
                if out.len() > parallel::CHUNK {
                    return formula.run(&operands, out);
                }
                let workspace = match workspace {
                    Some(workspace) => workspace,
                    None => workspace.insert(formula.workspace()?),
                };
                workspace.run(&operands, out);
                Ok(())
            })
        })
    })
}

/// Runs of fewer elements cost more than a copy.
const SHORT: usize = 32;

/// Operands of one shape. The elements of a run are neighbours in an operand, or all the same.
struct Runs<const N: usize> {
    op: &'static str,
    operands: [Tensor; N],
    is_dense: [bool; N],
    starts: [Layout; N],
    length: usize,
}

impl<const N: usize> Runs<N> {
    /// Copies the operands to one run if they have runs of fewer than `least` elements.
    fn new(
        op: &'static str,
        operands: [&Tensor; N],
        shape: &[usize],
        least: usize,
    ) -> Result<Runs<N>> {
        let mut operands = try_each(&operands, |x| x.expand(shape))?;
        // Trailing dimensions over which each operand is dense or constant form one run.
        let mut dims = shape.len();
        while dims > 0 && operands.iter().all(|x| run_kind(x.layout(), dims - 1).is_some()) {
            dims -= 1;
        }
        let length: usize = shape[dims..].iter().product();
        if length < least && length < operands[0].numel() {
            dims = 0;
            operands = try_each(&operands, |x| x.contiguous())?;
        }
        let starts = try_each(&operands, |x| {
            let layout = x.layout();
            Layout::strided(&shape[..dims], &layout.strides()[..dims], layout.offset())
        })?;
        let is_dense = operands.each_ref().map(|x| is_dense(x.layout(), dims));
        Ok(Runs { op, operands, is_dense, starts, length: shape[dims..].iter().product() })
    }

    /// Returns a reader of an operand.
    fn reader<T: Element>(&self, which: usize) -> Result<Reader<'_, T>> {
        let (data, is_dense) = (storage::<T>(&self.operands[which])?, self.is_dense[which]);
        Ok(Reader { op: self.op, data, is_dense, length: self.length, copies: Vec::new() })
    }

    /// Calls `f(readers, starts, out)` for each run, or for several short ones: `starts` has the start
    /// of each run in each operand. Each thread has its own readers.
    fn each<R: Send, S>(
        &self,
        out: &mut [R],
        readers: impl Fn() -> crate::Result<S> + Sync,
        f: impl Fn(&mut S, [&[usize]; N], &mut [R]) -> crate::Result<()> + Sync + Send,
    ) -> Result<()> {
        if self.length == 0 {
            return Ok(());
        }
        let together = (TOGETHER / self.length).clamp(1, MOST_RUNS);
        parallel::try_rows(self.length, out, |start, out| {
            let first = start / self.length;
            let mut positions = self.starts.each_ref().map(|starts| starts.positions_from(first));
            let (mut readers, mut starts) = (readers()?, [[0; MOST_RUNS]; N]);
            out.chunks_mut(together * self.length).try_for_each(|out| {
                let runs = out.len() / self.length;
                for (starts, positions) in starts.iter_mut().zip(&mut positions) {
                    starts[..runs].fill_with(|| positions.next().unwrap_or(0));
                }
                f(&mut readers, starts.each_ref().map(|starts| &starts[..runs]), out)
            })
        })?;
        Ok(())
    }
}

/// The number of elements of short runs that are computed together: a call costs as much as some
/// hundred of them.
const TOGETHER: usize = 1024;

/// The largest number of runs that are computed together.
const MOST_RUNS: usize = TOGETHER / SHORT;

/// The number of elements that repeat one at a time.
const FILLED: usize = 16;

/// Reads runs of an operand.
#[derive(Clone)]
struct Reader<'a, T> {
    op: &'static str,
    data: &'a [T],
    is_dense: bool,
    length: usize,
    /// Copies of runs that do not follow each other.
    copies: Vec<T>,
}

impl<T: Element> Reader<'_, T> {
    /// Returns the elements of runs with the given starts.
    fn read(&mut self, starts: &[usize]) -> crate::Result<Operand<'_, T>> {
        let (data, length, first) = (self.data, self.length, starts[0]);
        if self.is_dense {
            let follows = |pair: &[usize]| pair[0].checked_add(length) == Some(pair[1]);
            if starts.windows(2).all(follows) {
                return Ok(Operand::Each(&data[first..first + starts.len() * length]));
            }
        } else if starts.iter().all(|&start| start == first) {
            return Ok(Operand::Splat(data[first]));
        }
        if self.copies.is_empty() {
            self.copies = memory::filled(self.op, TOGETHER + FILLED, data[first])?;
        }
        for (at, &start) in (0..).step_by(length).zip(starts) {
            let copy = &mut self.copies[at..];
            match self.is_dense {
                true => copy[..length].copy_from_slice(&data[start..start + length]),
                // Whole groups, over the beginning of the next run.
                false => copy[..length.next_multiple_of(FILLED)]
                    .as_chunks_mut::<FILLED>()
                    .0
                    .iter_mut()
                    .for_each(|group| *group = [data[start]; FILLED]),
            }
        }
        Ok(Operand::Each(&self.copies[..starts.len() * length]))
    }
}

/// Calls `f` for each item, until one fails.
fn try_each<T, R, const N: usize>(items: &[T; N], f: impl Fn(&T) -> Result<R>) -> Result<[R; N]> {
    let mut results = items.each_ref().map(|_| None);
    for (result, item) in results.iter_mut().zip(items) {
        *result = Some(f(item)?);
    }
    Ok(results.map(|result| result.expect("every item has a result")))
}

/// Returns `Some(true)` if the dimensions from `dim` on are dense, `Some(false)` if they are
/// constant.
fn run_kind(layout: &Layout, dim: usize) -> Option<bool> {
    let (shape, strides) = (&layout.shape()[dim..], &layout.strides()[dim..]);
    let mut expected = 1;
    let mut dense = true;
    for (&n, &stride) in shape.iter().zip(strides).rev() {
        dense &= n == 1 || stride == expected;
        expected *= n;
    }
    let constant = shape.iter().zip(strides).all(|(&n, &stride)| n == 1 || stride == 0);
    if dense { Some(true) } else { constant.then_some(false) }
}

fn is_dense(layout: &Layout, dim: usize) -> bool {
    run_kind(layout, dim).unwrap_or(true)
}

/// Returns the whole storage of a host tensor, to be read at its layout's positions.
fn storage<T: Element>(x: &Tensor) -> Result<&[T]> {
    x.storage_slice()
}

fn compare(op: &Compare, shape: &PerDim) -> Result<Tensor> {
    let (a, b) = (comparable(&op.a)?, comparable(&op.b)?);
    match a.dtype() {
        DType::F32 => compared::<f32>(op.kind, &a, &b, shape),
        DType::F64 => compared::<f64>(op.kind, &a, &b, shape),
        DType::I64 => compared::<i64>(op.kind, &a, &b, shape),
        _ => compared::<u8>(op.kind, &a, &b, shape),
    }
}

fn compared<T: Element + PartialOrd>(
    kind: CompareKind,
    a: &Tensor,
    b: &Tensor,
    shape: &[usize],
) -> Result<Tensor> {
    let runs = Runs::new(Compare::NAME, [a, b], shape, SHORT)?;
    let (a, b) = (runs.reader::<T>(0)?, runs.reader(1)?);
    let mut out = Tensor::scratch(shape, DType::Bool)?;
    let readers = || Ok((a.clone(), b.clone()));
    runs.each(out.as_mut_slice()?, readers, |(a, b), [at_a, at_b], out| {
        elementwise::compare(kind, a.read(at_a)?, b.read(at_b)?, out)
    })?;
    Ok(out)
}

/// Returns a dense tensor with the same comparisons as `x`, of type f32, f64, i64, u8 or bool.
/// Other types are cast to one of these that holds all their values.
pub(super) fn comparable(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::F16 | DType::BF16 => converted(x, DType::F32),
        DType::I32 | DType::U32 => converted(x, DType::I64),
        _ => x.contiguous(),
    }
}

fn select(op: &Where, shape: &PerDim) -> Result<Tensor> {
    let runs = Runs::new(Where::NAME, [&op.condition, &op.a, &op.b], shape, SHORT)?;
    let mut out = Tensor::scratch(shape, op.a.dtype())?;
    with_bits!(op.a.dtype(), T => {
        let (condition, a, b) = (runs.reader(0)?, runs.reader::<T>(1)?, runs.reader(2)?);
        let readers = || Ok((condition.clone(), a.clone(), b.clone()));
        runs.each(out.as_mut_slice()?, readers, |(condition, a, b), [at, at_a, at_b], out| {
            elementwise::select(condition.read(at)?, a.read(at_a)?, b.read(at_b)?, out)
        })?;
    });
    Ok(out)
}

fn converted(x: &Tensor, to: DType) -> Result<Tensor> {
    let x = x.contiguous()?;
    if x.dtype() == to {
        return Ok(x);
    }
    let mut out = Tensor::scratch(x.shape(), to)?;
    match (x.dtype(), to) {
        (DType::BF16, DType::F32) => halves::from_bf16(x.as_slice()?, out.as_mut_slice()?),
        (DType::F32, DType::BF16) => halves::to_bf16(x.as_slice()?, out.as_mut_slice()?),
        (DType::F16, DType::F32) => halves::from_f16(x.as_slice()?, out.as_mut_slice()?),
        (DType::F32, DType::F16) => halves::to_f16(x.as_slice()?, out.as_mut_slice()?),
        _ => cast(&x, &mut out, to)?,
    }
    Ok(out)
}

/// Casts elements one by one.
fn cast(x: &Tensor, out: &mut Tensor, to: DType) -> Result<()> {
    with_element!(x.dtype(), T => {
        let from = x.as_slice::<T>()?;
        match to {
            DType::Bool => {
                let zero = T::of(Exact::Integer(0));
                parallel::pieces(out.as_mut_slice::<u8>()?, |start, truths| {
                    let from = &from[start..][..truths.len()];
                    truths.iter_mut().zip(from).for_each(|(to, x)| *to = u8::from(*x != zero));
                });
            }
            _ => with_element!(to, R => parallel::pieces(out.as_mut_slice::<R>()?, |start, to| {
                scalar::cast::<T, R>(&from[start..][..to.len()], to);
            })),
        }
    });
    Ok(())
}
