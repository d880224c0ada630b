use samebits_macros::{Module, layer};
use samebits_tensor_core::ops::IndexCopy;
use samebits_tensor_core::{Error, Result, Tensor as Value};

use crate::functional::BagOptions;
use crate::nn::options::{Place, init_with, place_setters, setters};
use crate::nn::{Layer, TensorCell};
use crate::{Tensor, functional, run};

/// A table of rows, looked up by index.
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
    /// `[rows, width]`, replaced by shorter rows where there is a `max_norm`.
    pub weight: TensorCell,
    /// A row that stays as it is: it has no gradient.
    pub padding_idx: Option<usize>,
    /// What the norm of a row is scaled down to before it is looked up.
    pub max_norm: Option<f64>,
    /// The exponent of that norm.
    pub norm_type: f64,
    /// Whether the gradient of a row is divided by the number of places that hold it.
    pub scale_grad_by_freq: bool,
}

impl Embedding {
    /// Standard normal rows, as PyTorch draws them.
    ///
    /// # Errors
    ///
    /// There is no memory for the table, or no generator to draw from.
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<Embedding> {
        Embedding::options(num_embeddings, embedding_dim).init()
    }

    /// A table with other options than PyTorch's defaults.
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

    /// A table whose rows are those of `weight`, for example a parameter that another layer has
    /// too.
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
    /// The rows that `index` names. With a `max_norm` the table is replaced first, by one whose
    /// rows that are looked up are no longer than that.
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
        /// A row that is filled with zeros and stays: it has no gradient.
        padding_idx: usize => Some(padding_idx);
        /// What the norm of a row is scaled down to before it is looked up.
        max_norm: f64 => Some(max_norm);
        /// The exponent of that norm: 2 if not set.
        norm_type: f64;
        /// Whether the gradient of a row is divided by the number of places that hold it: by
        /// default it is not.
        scale_grad_by_freq: bool;
    }
    place_setters!();
    init_with!(Embedding);

    /// The table.
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

/// Sums, means or maxima of bags of rows of a table.
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
    /// `[rows, width]`, replaced by shorter rows where there is a `max_norm`.
    pub weight: TensorCell,
    /// How the rows of a bag become one, and which places count.
    #[module(skip)]
    pub options: BagOptions,
    /// What the norm of a row is scaled down to before it is looked up.
    pub max_norm: Option<f64>,
    /// The exponent of that norm.
    pub norm_type: f64,
}

impl EmbeddingBag {
    /// Standard normal rows, as PyTorch draws them, and the mean of each bag.
    ///
    /// # Errors
    ///
    /// There is no memory for the table, or no generator to draw from.
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<EmbeddingBag> {
        EmbeddingBag::options(num_embeddings, embedding_dim).init()
    }

    /// A table with other options than PyTorch's defaults.
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

    /// One row per bag; see [`embedding_bag`](functional::embedding_bag). With a `max_norm` the
    /// table is replaced first, by one whose rows that are looked up are no longer than that.
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
        /// How the rows of a bag become one, and which places count: the mean of all if not set.
        bags: BagOptions;
        /// What the norm of a row is scaled down to before it is looked up.
        max_norm: f64 => Some(max_norm);
        /// The exponent of that norm: 2 if not set.
        norm_type: f64;
    }
    place_setters!();
    init_with!(EmbeddingBag);

    /// The table, whose row `padding_idx`, if there is one, is filled with zeros.
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

/// Standard normal rows; row `padding_idx` is zero.
fn rows(
    op: &'static str,
    shape: [usize; 2],
    padding_idx: Option<usize>,
    place: Place,
) -> Result<Tensor> {
    let weight = place.normal(op, &shape)?;
    let Some(row) = padding_idx else { return Ok(weight) };
    let index = i64::try_from(row).ok().filter(|_| row < shape[0]).ok_or_else(|| {
        Error::invalid(op, format!("there is no row {row} for `padding_idx` among {}", shape[0]))
    })?;
    let source = place.full(&[1, shape[1]], 0.0)?.value().clone();
    let index = Value::from_slice(&[index], &[1])?.to(place.device)?;
    let cleared = run(&IndexCopy { input: weight.value().clone(), dim: 0, index, source })?;
    Ok(weight.with_value(cleared))
}

/// The weight, whose rows that `index` names are first scaled down to `max_norm`.
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
