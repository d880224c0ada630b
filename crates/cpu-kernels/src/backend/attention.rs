use samebits_rng::Draw;
use samebits_tensor_core::geometry::AttentionSizes;
use samebits_tensor_core::ops::{Attention, AttentionDropout, AttentionGrad, AttentionMasks};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Layout, Op, Result, Tensor};

use super::random::draw;
use super::{Element, FLOATS, with_float};
use crate::attention::{Call, Dropout, Matrices, Number, Upstream, attention, attention_backward};
use crate::memory;

const STRIPS: &str = "contractions in blocks of a fixed length and sums in f64 over a tree, both of which depend on \
                      sizes alone";

pub(super) fn register_all() {
    register(Kernel::portable(
        "strips",
        FLOATS,
        STRIPS,
        |op: &Attention, &sizes| with_float!(op.query.dtype(), T => forward::<T>(op, sizes)),
    ));
    register(Kernel::portable(
        "blocks",
        FLOATS,
        STRIPS,
        |op: &AttentionGrad, &sizes| with_float!(op.query.dtype(), T => backward::<T>(op, sizes)),
    ));
}

fn forward<T: Element + Number>(
    op: &Attention,
    sizes: AttentionSizes,
) -> Result<(Tensor, Tensor, Tensor)> {
    let dropout = op.dropout.as_ref();
    let operands = Operands::new([&op.query, &op.key, &op.value], &op.masks, dropout)?;
    let rows = &op.query.shape()[..op.query.rank() - 1];
    let mut out = Tensor::scratch(&[rows, &[sizes.features]].concat(), T::DTYPE)?;
    let mut largest = Tensor::scratch(rows, T::DTYPE)?;
    let mut sums = Tensor::scratch(rows, T::DTYPE)?;
    attention(
        &operands.call::<T>(sizes)?,
        out.as_mut_slice()?,
        largest.as_mut_slice()?,
        sums.as_mut_slice()?,
    )?;
    Ok((out, largest, sums))
}

fn backward<T: Element + Number>(
    op: &AttentionGrad,
    sizes: AttentionSizes,
) -> Result<(Tensor, Tensor, Tensor)> {
    let dropout = op.dropout.as_ref();
    let operands = Operands::new([&op.query, &op.key, &op.value], &op.masks, dropout)?;
    let grad = Operand::new(&op.grad)?;
    let (shared, largest) = (op.shared.contiguous()?, op.largest.contiguous()?);
    let mut outs = [
        Tensor::scratch(op.query.shape(), T::DTYPE)?,
        Tensor::scratch(op.key.shape(), T::DTYPE)?,
        Tensor::scratch(op.value.shape(), T::DTYPE)?,
    ];
    let upstream = Upstream {
        grad: grad.matrices(op.grad.storage_slice::<T>()?)?,
        shared: shared.as_slice()?,
        largest: largest.as_slice()?,
    };
    let [query, key, value] = &mut outs;
    let slices = [query.as_mut_slice()?, key.as_mut_slice()?, value.as_mut_slice()?];
    attention_backward(&operands.call::<T>(sizes)?, upstream, slices)?;
    let [query, key, value] = outs;
    Ok((query, key, value))
}

/// The matrices of the arguments.
struct Operands<'a> {
    inputs: [(&'a Tensor, Operand); 3],
    added: Option<(&'a Tensor, Operand)>,
    hidden: Option<(&'a Tensor, Operand)>,
    causal: Option<usize>,
    dropout: Option<(Draw, f64)>,
}

impl<'a> Operands<'a> {
    fn new(
        [query, key, value]: [&'a Tensor; 3],
        masks: &'a AttentionMasks,
        dropout: Option<&AttentionDropout>,
    ) -> Result<Self> {
        let of = |x: &'a Tensor| Operand::new(x).map(|operand| (x, operand));
        Ok(Operands {
            inputs: [of(query)?, of(key)?, of(value)?],
            added: masks.added.as_ref().map(of).transpose()?,
            hidden: masks.hidden.as_ref().map(of).transpose()?,
            causal: masks.causal,
            dropout: dropout.map(|AttentionDropout { p, generator }| (draw(generator), *p)),
        })
    }

    fn call<T: Element + Number>(&self, sizes: AttentionSizes) -> Result<Call<'_, T>> {
        let [query, key, value] = &self.inputs;
        Ok(Call {
            sizes,
            query: matrices(query)?,
            key: matrices(key)?,
            value: matrices(value)?,
            added: self.added.as_ref().map(matrices).transpose()?,
            hidden: self.hidden.as_ref().map(matrices).transpose()?,
            causal: self.causal,
            dropout: self.dropout.as_ref().map(|(draw, p)| Dropout { draw, p: *p }),
        })
    }
}

fn matrices<'a, T: samebits_tensor_core::Element>(
    (x, operand): &'a (&Tensor, Operand),
) -> Result<Matrices<'a, T>> {
    operand.matrices(x.storage_slice()?)
}

/// The matrices of one argument: their sizes and strides, and the start of each.
struct Operand {
    sizes: [usize; 2],
    strides: [usize; 2],
    starts: Vec<usize>,
}

impl Operand {
    fn new(x: &Tensor) -> Result<Operand> {
        let (shape, strides) = (x.shape(), x.layout().strides());
        let first = x.rank() - 2;
        let outer = Layout::strided(&shape[..first], &strides[..first], x.layout().offset())?;
        let mut starts = memory::with_capacity(Attention::NAME, outer.numel())?;
        starts.extend(outer.positions());
        let pair = |of: &[usize]| [of[first], of[first + 1]];
        Ok(Operand { sizes: pair(shape), strides: pair(strides), starts })
    }

    fn matrices<'a, T: Copy>(&'a self, data: &'a [T]) -> Result<Matrices<'a, T>> {
        Ok(Matrices::new(data, &self.starts, self.sizes, self.strides)?)
    }
}
