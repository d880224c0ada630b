use samebits_rng::{Draw, Generator};
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::ops::Normal;
use samebits_tensor_core::{DType, Device, Result};

use crate::functional::EmbeddingBagOptions;
use crate::nn::{Context, Module, Slot, join};
use crate::{Tensor, functional, run};

/// A table of rows, looked up by index.
///
/// # Examples
///
/// ```
/// use samebits_autograd::nn::Embedding;
/// use samebits_rng::Generator;
///
/// let mut table = Embedding::new(10, 3, &mut Generator::new(0))?.with_padding_idx(2)?;
/// let y = table.forward(&Tensor::from_slice(&[4i64, 2], &[2])?)?;
/// assert_eq!(y.shape(), [2, 3]);
/// assert_eq!(y.to_vec::<f32>()?[3..], [0.0; 3]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.Embedding`.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[rows, width]`
    pub weight: Tensor,
    /// A row that stays as it is: it has no gradient.
    pub padding_idx: Option<usize>,
    /// What the norm of a row is scaled down to before it is looked up.
    pub max_norm: Option<f64>,
    /// The exponent of that norm: 2 at first.
    pub norm_type: f64,
    /// Divide the gradient of a row by the number of places that hold it.
    pub scale_grad_by_freq: bool,
}

impl Embedding {
    /// Standard normal rows, as PyTorch draws them.
    ///
    /// # Errors
    ///
    /// The table has too many elements.
    pub fn new(rows: usize, width: usize, generator: &mut Generator) -> Result<Embedding> {
        Ok(Embedding {
            weight: normal_rows("Embedding", rows, width, generator)?,
            padding_idx: None,
            max_norm: None,
            norm_type: 2.0,
            scale_grad_by_freq: false,
        })
    }

    /// With row `padding_idx` filled with zeros, which stay.
    ///
    /// # Errors
    ///
    /// There is no such row.
    pub fn with_padding_idx(mut self, padding_idx: usize) -> Result<Embedding> {
        self.weight = clear_row(&self.weight, padding_idx)?;
        self.padding_idx = Some(padding_idx);
        Ok(self)
    }

    /// The rows that `index` names. With a `max_norm` the table is replaced first, by one whose
    /// rows that are looked up are no longer than that.
    ///
    /// # Errors
    ///
    /// An index is out of range.
    pub fn forward(&mut self, index: &Tensor) -> Result<Tensor> {
        shorten(&mut self.weight, index, self.max_norm, self.norm_type)?;
        functional::embedding_with(&self.weight, index, self.padding_idx, self.scale_grad_by_freq)
    }
}

/// The input is the index.
impl Module for Embedding {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        Embedding::forward(self, x)
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
    }
}

/// Sums, means or maxima of bags of rows of a table.
///
/// # Examples
///
/// ```
/// use samebits_autograd::nn::EmbeddingBag;
/// use samebits_rng::Generator;
///
/// let mut bags = EmbeddingBag::new(10, 3, &mut Generator::new(0))?;
/// let index = Tensor::from_slice(&[4i64, 2, 4], &[3])?;
/// let offsets = Tensor::from_slice(&[0i64, 1], &[2])?;
/// assert_eq!(bags.forward(&index, Some(&offsets), None)?.shape(), [2, 3]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.EmbeddingBag`.
#[derive(Clone, Debug)]
pub struct EmbeddingBag {
    /// `[rows, width]`
    pub weight: Tensor,
    /// How the rows of a bag become one, and which places count: the mean of all at first.
    pub options: EmbeddingBagOptions,
    /// What the norm of a row is scaled down to before it is looked up.
    pub max_norm: Option<f64>,
    /// The exponent of that norm: 2 at first.
    pub norm_type: f64,
}

impl EmbeddingBag {
    /// Standard normal rows, as PyTorch draws them.
    ///
    /// # Errors
    ///
    /// The table has too many elements.
    pub fn new(rows: usize, width: usize, generator: &mut Generator) -> Result<EmbeddingBag> {
        Ok(EmbeddingBag {
            weight: normal_rows("EmbeddingBag", rows, width, generator)?,
            options: EmbeddingBagOptions::default(),
            max_norm: None,
            norm_type: 2.0,
        })
    }

    /// With row `padding_idx` filled with zeros, which stay, and left out of every bag.
    ///
    /// # Errors
    ///
    /// There is no such row.
    pub fn with_padding_idx(mut self, padding_idx: usize) -> Result<EmbeddingBag> {
        self.weight = clear_row(&self.weight, padding_idx)?;
        self.options.padding_idx = Some(padding_idx);
        Ok(self)
    }

    /// One row per bag; see [`embedding_bag`](functional::embedding_bag). With a `max_norm` the
    /// table is replaced first, by one whose rows that are looked up are no longer than that.
    ///
    /// # Errors
    ///
    /// As [`embedding_bag`](functional::embedding_bag).
    pub fn forward(
        &mut self,
        index: &Tensor,
        offsets: Option<&Tensor>,
        per_sample_weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        shorten(&mut self.weight, index, self.max_norm, self.norm_type)?;
        functional::embedding_bag(&self.weight, index, offsets, per_sample_weights, self.options)
    }
}

/// The input is the index, one bag per row.
impl Module for EmbeddingBag {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        EmbeddingBag::forward(self, x, None, None)
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        visit(&join(path, "weight"), Slot::Parameter(&mut self.weight));
    }
}

fn normal_rows(
    layer: &'static str,
    rows: usize,
    width: usize,
    generator: &mut Generator,
) -> Result<Tensor> {
    let count = numel(layer, &[rows, width])?;
    let weight = run(&Normal {
        shape: vec![rows, width],
        dtype: DType::F32,
        device: Device::Cpu,
        mean: 0.0,
        std: 1.0,
        generator: generator.clone(),
    })?;
    generator.advance(Draw::blocks_u32(count));
    Ok(Tensor::from(weight).set_requires_grad(true))
}

fn clear_row(weight: &Tensor, row: usize) -> Result<Tensor> {
    let (device, width) = (weight.device(), weight.shape()[1]);
    // A number too large for an index is out of range too.
    let row = i64::try_from(row).unwrap_or(i64::MAX);
    let index = Tensor::from_slice(&[row], &[1])?.to(device)?;
    let zeros = Tensor::zeros(&[1, width], weight.dtype())?.to(device)?;
    let cleared = functional::index_copy(&weight.detach(), 0, &index, &zeros)?;
    Ok(cleared.set_requires_grad(true))
}

fn shorten(
    weight: &mut Tensor,
    index: &Tensor,
    max_norm: Option<f64>,
    norm_type: f64,
) -> Result<()> {
    if let Some(max_norm) = max_norm {
        let value = functional::embedding_renorm(weight, index, max_norm, norm_type)?;
        *weight = value.set_requires_grad(true);
    }
    Ok(())
}
