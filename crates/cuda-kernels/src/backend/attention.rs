use samebits_rng::Draw;
use samebits_tensor_core::geometry::AttentionSizes;
use samebits_tensor_core::ops::{Attention, AttentionDropout, AttentionGrad, AttentionMasks};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{Layout, Op, Tensor};

use super::memory::{Input, on_host, storage};
use super::random::draw;
use super::{ARRIVAL, F32, FLOATS, Failure, Real, Tensors, atomic, on, portable, with_float};
use crate::Variant;
use crate::attention::{Call, Dropout, Upstream, attention, attention_grad};
use crate::device::Word;
use crate::matmul::Matrix;

const TILES: &str = "contractions in blocks of a fixed length and sums in f64 over a tree, both of which depend on \
                     sizes alone";

pub(super) fn register_all() {
    register(portable(
        "tiles",
        FLOATS,
        TILES,
        |op: &Attention, &sizes| with_float!(op.query.dtype(), T => forward::<T>(op, sizes)),
    ));
    register(atomic(F32, ARRIVAL, |op, &sizes| backward::<f32>(op, sizes, Variant::Atomic)));
    register(portable(
        "tiles",
        FLOATS,
        TILES,
        |op: &AttentionGrad, &sizes| with_float!(op.query.dtype(), T => backward::<T>(op, sizes, Variant::Deterministic)),
    ));
}

fn forward<T: Real>(op: &Attention, sizes: AttentionSizes) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let dropout = op.dropout.as_ref();
        let operands = Operands::<T>::new([&op.query, &op.key, &op.value], &op.masks, dropout)?;
        let found = attention(gpu.device, &operands.call(sizes))?;
        let rows = &op.query.shape()[..op.query.rank() - 1];
        Ok((
            gpu.tensor(found.out, &[rows, &[sizes.features]].concat())?,
            gpu.tensor(found.largest, rows)?,
            gpu.tensor(found.sums, rows)?,
        ))
    })
}

fn backward<T: Real>(
    op: &AttentionGrad,
    sizes: AttentionSizes,
    variant: Variant,
) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let dropout = op.dropout.as_ref();
        let operands = Operands::<T>::new([&op.query, &op.key, &op.value], &op.masks, dropout)?;
        let grad = Operand::<T>::new(&op.grad)?;
        let (shared, largest) = (gpu.input::<T>(&op.shared)?, gpu.input::<T>(&op.largest)?);
        let upstream = Upstream { grad: grad.matrix(), shared: &shared, largest: &largest };
        let [query, key, value] =
            attention_grad(gpu.device, &operands.call(sizes), upstream, variant)?;
        Ok((
            gpu.tensor(query, op.query.shape())?,
            gpu.tensor(key, op.key.shape())?,
            gpu.tensor(value, op.value.shape())?,
        ))
    })
}

/// The matrices of the arguments.
struct Operands<T> {
    inputs: [Operand<T>; 3],
    added: Option<Operand<T>>,
    hidden: Option<Operand<u8>>,
    causal: Option<usize>,
    dropout: Option<(Draw, f64)>,
}

impl<T: Real> Operands<T> {
    fn new(
        [query, key, value]: [&Tensor; 3],
        masks: &AttentionMasks,
        dropout: Option<&AttentionDropout>,
    ) -> Result<Self, Failure> {
        Ok(Operands {
            inputs: [Operand::new(query)?, Operand::new(key)?, Operand::new(value)?],
            added: masks.added.as_ref().map(Operand::new).transpose()?,
            hidden: masks.hidden.as_ref().map(Operand::new).transpose()?,
            causal: masks.causal,
            dropout: dropout.map(|AttentionDropout { p, generator }| (draw(generator), *p)),
        })
    }

    fn call(&self, sizes: AttentionSizes) -> Call<'_, T> {
        let [query, key, value] = &self.inputs;
        Call {
            sizes,
            query: query.matrix(),
            key: key.matrix(),
            value: value.matrix(),
            added: self.added.as_ref().map(Operand::matrix),
            hidden: self.hidden.as_ref().map(Operand::matrix),
            causal: self.causal,
            dropout: self.dropout.as_ref().map(|(draw, p)| Dropout { draw, p: *p }),
        }
    }
}

/// The matrices of one argument.
struct Operand<T> {
    data: Input<T>,
    offsets: Vec<usize>,
    row: usize,
    column: usize,
}

impl<T: Word> Operand<T> {
    fn new(x: &Tensor) -> Result<Operand<T>, Failure> {
        let (shape, strides) = (x.shape(), x.layout().strides());
        let first = x.rank() - 2;
        let outer = Layout::strided(&shape[..first], &strides[..first], x.layout().offset())?;
        let mut offsets = on_host(Attention::NAME, outer.numel())?;
        offsets.extend(outer.positions());
        let (row, column) = (strides[first], strides[first + 1]);
        Ok(Operand { data: storage::<T>(x)?, offsets, row, column })
    }

    fn matrix(&self) -> Matrix<'_, T> {
        let Operand { data, offsets, row, column } = self;
        Matrix { data, row: *row, column: *column, offsets }
    }
}
