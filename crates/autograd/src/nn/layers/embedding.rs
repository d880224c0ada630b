use samebits_macros::{Module, layer};
use samebits_tensor_core::ops::IndexCopy;
use samebits_tensor_core::{Error, Result, Tensor as Value};

use crate::functional::BagOptions;
use crate::nn::options::{Place, init_with, place_setters, setters};
use crate::nn::{Layer, TensorCell};
use crate::{Tensor, functional, run};

/// A table of embedding vectors, looked up by index.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Embedding, Layer};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let table = Embedding::options(10, 3).padding_idx(2).init()?;
/// let y = table.forward(&Tensor::from_slice(&[4i64, 2], &[2])?)?;
/// assert_eq!(y.shape(), [2, 3]);
/// assert_eq!(y.to_vec::<f32>()?[3..], [0.0; 3]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.Embedding`.
#[derive(Clone, Debug, Module)]
pub struct Embedding {
    /// The table, `[rows, width]`. With a `max_norm`, `forward` replaces it.
    pub weight: TensorCell,
    /// A row that receives no gradient.
    pub padding_idx: Option<usize>,
    /// The maximum norm of a row; longer rows are scaled down before the lookup.
    pub max_norm: Option<f64>,
    /// The exponent of the norm that `max_norm` bounds.
    pub norm_type: f64,
    /// If true, divides the gradient of a row by the number of positions that look it up.
    pub scale_grad_by_freq: bool,
}

impl Embedding {
    /// Creates a table of standard normal rows, as PyTorch does.
    ///
    /// # Errors
    ///
    /// Memory runs out, or there is no generator to draw from.
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<Embedding> {
        Embedding::options(num_embeddings, embedding_dim).init()
    }

    /// Returns options for a table, starting from PyTorch's defaults.
    pub fn options(num_embeddings: usize, embedding_dim: usize) -> EmbeddingOptions {
        EmbeddingOptions {
            num_embeddings,
            embedding_dim,
            padding_idx: None,
            max_norm: None,
            norm_type: 2.0,
            scale_grad_by_freq: false,
            place: Place::default(),
        }
    }

    /// Creates a layer with table `weight`, for example a parameter shared with another layer.
    pub fn from_weight(weight: Tensor) -> Embedding {
        Embedding {
            weight: weight.into(),
            padding_idx: None,
            max_norm: None,
            norm_type: 2.0,
            scale_grad_by_freq: false,
        }
    }
}

impl Layer for Embedding {
    /// Looks up the rows named by `index`. With a `max_norm`, first replaces the table, scaling
    /// down those of its rows that are longer.
    #[layer]
    fn forward(&self, index: &Tensor) -> Result<Tensor> {
        let weight = shortened(&self.weight, index, self.max_norm, self.norm_type)?;
        functional::embedding_with(&weight, index, self.padding_idx, self.scale_grad_by_freq)
    }
}

/// Options of an [`Embedding`].
#[derive(Clone, Debug)]
pub struct EmbeddingOptions {
    num_embeddings: usize,
    embedding_dim: usize,
    padding_idx: Option<usize>,
    max_norm: Option<f64>,
    norm_type: f64,
    scale_grad_by_freq: bool,
    place: Place,
}

impl EmbeddingOptions {
    setters! {
        /// Names a row that is filled with zeros and receives no gradient (default: none).
        padding_idx: usize => Some(padding_idx);
        /// Sets the maximum norm of a row; longer rows are scaled down before the lookup (default:
        /// none).
        max_norm: f64 => Some(max_norm);
        /// Sets the exponent of the norm that `max_norm` bounds (default 2).
        norm_type: f64;
        /// Sets whether the gradient of a row is divided by the number of positions that look it up
        /// (default false).
        scale_grad_by_freq: bool;
    }
    place_setters!();
    init_with!(Embedding);

    /// Builds the table.
    ///
    /// # Errors
    ///
    /// There is no row `padding_idx`; else as [`Embedding::new`].
    pub fn init(&self) -> Result<Embedding> {
        let shape = [self.num_embeddings, self.embedding_dim];
        Ok(Embedding {
            weight: rows("Embedding", shape, self.padding_idx, self.place)?.into(),
            padding_idx: self.padding_idx,
            max_norm: self.max_norm,
            norm_type: self.norm_type,
            scale_grad_by_freq: self.scale_grad_by_freq,
        })
    }
}

/// A table whose rows are combined by bag: sums, means or maxima.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::EmbeddingBag;
///
/// samebits_tensor_core::random::manual_seed(0);
/// let bags = EmbeddingBag::new(10, 3)?;
/// let index = Tensor::from_slice(&[4i64, 2, 4], &[3])?;
/// let offsets = Tensor::from_slice(&[0i64, 1], &[2])?;
/// assert_eq!(bags.forward(&index, Some(&offsets), None)?.shape(), [2, 3]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.EmbeddingBag`.
#[derive(Clone, Debug, Module)]
pub struct EmbeddingBag {
    /// The table, `[rows, width]`. With a `max_norm`, `forward` replaces it.
    pub weight: TensorCell,
    /// The mode (sum, mean or maximum) and the positions that count.
    #[module(skip)]
    pub options: BagOptions,
    /// The maximum norm of a row; longer rows are scaled down before the lookup.
    pub max_norm: Option<f64>,
    /// The exponent of the norm that `max_norm` bounds.
    pub norm_type: f64,
}

impl EmbeddingBag {
    /// Creates a table of standard normal rows, as PyTorch does; bags are averaged.
    ///
    /// # Errors
    ///
    /// Memory runs out, or there is no generator to draw from.
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<EmbeddingBag> {
        EmbeddingBag::options(num_embeddings, embedding_dim).init()
    }

    /// Returns options for a table, starting from PyTorch's defaults.
    pub fn options(num_embeddings: usize, embedding_dim: usize) -> EmbeddingBagOptions {
        EmbeddingBagOptions {
            num_embeddings,
            embedding_dim,
            bags: BagOptions::default(),
            max_norm: None,
            norm_type: 2.0,
            place: Place::default(),
        }
    }

    /// Returns one row per bag; see [`embedding_bag`](functional::embedding_bag). With a
    /// `max_norm`, first replaces the table, scaling down those of its looked-up rows that are
    /// longer.
    ///
    /// # Errors
    ///
    /// As [`embedding_bag`](functional::embedding_bag).
    #[layer]
    pub fn forward(
        &self,
        index: &Tensor,
        offsets: Option<&Tensor>,
        per_sample_weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let weight = shortened(&self.weight, index, self.max_norm, self.norm_type)?;
        functional::embedding_bag(&weight, index, offsets, per_sample_weights, self.options)
    }
}

/// Options of an [`EmbeddingBag`].
#[derive(Clone, Debug)]
pub struct EmbeddingBagOptions {
    num_embeddings: usize,
    embedding_dim: usize,
    bags: BagOptions,
    max_norm: Option<f64>,
    norm_type: f64,
    place: Place,
}

impl EmbeddingBagOptions {
    setters! {
        /// Sets the mode and the positions that count (default: the mean of all positions).
        bags: BagOptions;
        /// Sets the maximum norm of a row; longer rows are scaled down before the lookup (default:
        /// none).
        max_norm: f64 => Some(max_norm);
        /// Sets the exponent of the norm that `max_norm` bounds (default 2).
        norm_type: f64;
    }
    place_setters!();
    init_with!(EmbeddingBag);

    /// Builds the table; row `padding_idx`, if given, is filled with zeros.
    ///
    /// # Errors
    ///
    /// There is no row `padding_idx`; else as [`EmbeddingBag::new`].
    pub fn init(&self) -> Result<EmbeddingBag> {
        let shape = [self.num_embeddings, self.embedding_dim];
        Ok(EmbeddingBag {
            weight: rows("EmbeddingBag", shape, self.bags.padding_idx, self.place)?.into(),
            options: self.bags,
            max_norm: self.max_norm,
            norm_type: self.norm_type,
        })
    }
}

/// Draws standard normal rows; row `padding_idx` is zero.
fn rows(
    op: &'static str,
    shape: [usize; 2],
    padding_idx: Option<usize>,
    place: Place,
) -> Result<Tensor> {
    let weight = place.normal(op, &shape)?;
    let Some(row) = padding_idx else { return Ok(weight) };
    let index = i64::try_from(row).ok().filter(|_| row < shape[0]).ok_or_else(|| {
        Error::invalid(
            op,
            format!("padding_idx {row} is not a row of a table with {} rows", shape[0]),
        )
    })?;
    let source = place.full(&[1, shape[1]], 0.0)?.value().clone();
    let index = Value::from_slice(&[index], &[1])?.to(place.device)?;
    let cleared = run(&IndexCopy { input: weight.value().clone(), dim: 0, index, source })?;
    Ok(weight.with_value(cleared))
}

/// Returns the weight, after scaling down the rows in `index` that exceed `max_norm`.
fn shortened(
    weight: &TensorCell,
    index: &Tensor,
    max_norm: Option<f64>,
    norm_type: f64,
) -> Result<Tensor> {
    let Some(max_norm) = max_norm else { return Ok(weight.get()) };
    weight.update(|old| {
        let new = functional::embedding_renorm(&old.detach(), index, max_norm, norm_type)?;
        Ok(old.with_value(new.into()))
    })
}
