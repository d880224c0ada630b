use samebits_macros::Module;
use samebits_tensor_core::{Error, Result};

use super::{Linear, LinearOptions};
use crate::memory::room;
use crate::nn::options::{Place, init_with, place_setters, setters};
use crate::nn::{Layer, Sequential};
use crate::{Tensor, functional, sequential};

/// A softmax over many classes of which few are frequent, with its loss.
///
/// The head predicts the classes below the first cutoff, plus one entry for each cluster of rarer
/// classes. A cluster is computed only for samples whose target lies in it.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::AdaptiveLogSoftmaxWithLoss;
/// use samebits::{DType, Tensor};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let layer = AdaptiveLogSoftmaxWithLoss::new(16, 1000, [100, 400])?;
/// let x = Tensor::ones(&[3, 16], DType::F32)?;
/// let (output, loss) = layer.forward(&x, &Tensor::new([7i64, 150, 999])?)?;
/// assert_eq!((output.shape(), loss.shape()), (&[3][..], &[][..]));
/// assert_eq!(layer.log_prob(&x)?.shape(), [3, 1000]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.AdaptiveLogSoftmaxWithLoss`. E. Grave et al., *Efficient softmax approximation for
/// GPUs*, 2016.
#[derive(Clone, Debug, Module)]
pub struct AdaptiveLogSoftmaxWithLoss {
    /// The projection to the frequent classes and the clusters.
    pub head: Linear,
    /// For each cluster, a projection to fewer features followed by one to its classes.
    pub tail: Vec<Sequential>,
    /// The first class of each cluster, then the number of classes.
    #[module(skip)]
    cutoffs: Vec<usize>,
}

impl AdaptiveLogSoftmaxWithLoss {
    /// Creates a layer with PyTorch's defaults: a `div_value` of 4 and no bias in the head.
    ///
    /// # Errors
    ///
    /// The cutoffs do not ascend or do not lie between 0 and the last class, memory runs out, or
    /// there is no generator to draw from.
    pub fn new(
        in_features: usize,
        n_classes: usize,
        cutoffs: impl Into<Vec<usize>>,
    ) -> Result<AdaptiveLogSoftmaxWithLoss> {
        AdaptiveLogSoftmaxWithLoss::options(in_features, n_classes, cutoffs).init()
    }

    /// Returns options for a layer, starting from PyTorch's defaults.
    pub fn options(
        in_features: usize,
        n_classes: usize,
        cutoffs: impl Into<Vec<usize>>,
    ) -> AdaptiveLogSoftmaxWithLossOptions {
        AdaptiveLogSoftmaxWithLossOptions {
            in_features,
            n_classes,
            cutoffs: cutoffs.into(),
            div_value: 4.0,
            head_bias: false,
            place: Place::default(),
        }
    }

    /// Returns the log-probability of each target, and the loss: the negative of their mean.
    ///
    /// # Shapes
    ///
    /// `input` is `[n, in]` and `target` `[n]` of type i64, or `[in]` and `[]`. The first result has
    /// the shape of the target.
    ///
    /// # Errors
    ///
    /// The shapes are incompatible, or a target is not a class.
    #[track_caller]
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
        self.run(input, target).map_err(|error| error.called(OP))
    }

    #[track_caller]
    fn run(&self, input: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
        if let &[features] = input.shape() {
            let (output, loss) = self.run(&input.reshape([1, features])?, &target.reshape([1])?)?;
            return Ok((output.reshape(())?, loss));
        }
        let n = match (input.shape(), target.shape()) {
            (&[n, _], &[targets]) if n == targets => n,
            (input, target) => {
                let message =
                    format!("expected shapes [n, in] and [n], got {input:?} and {target:?}");
                return Err(Error::invalid(OP, message));
            }
        };
        let mut entries = target.to_vec::<i64>()?;
        if let Some(bad) = entries.iter().find(|class| !(0..self.classes() as i64).contains(class))
        {
            let message = format!("expected targets in 0..{}, got {bad}", self.classes());
            return Err(Error::invalid(OP, message));
        }
        let on_device = |list: &[i64]| Tensor::from_slice(list, &[list.len()])?.to(input.device());
        let mut output = Tensor::zeros(&[n], input.dtype())?.to(input.device())?;
        for (i, cluster) in self.tail.iter().enumerate() {
            let classes = self.cutoffs[i] as i64..self.cutoffs[i + 1] as i64;
            let (mut rows, mut places) = (room(OP, n)?, room(OP, n)?);
            for (row, class) in entries.iter().enumerate().filter(|(_, c)| classes.contains(c)) {
                rows.push(row as i64);
                places.push(class - classes.start);
            }
            if rows.is_empty() {
                continue;
            }
            let (rows, places) = (on_device(&rows)?, on_device(&places)?);
            let found = cluster.forward(&functional::index_select(input, 0, &rows)?)?;
            let found = functional::log_softmax(&found, 1)?.gather(1, &places.unsqueeze(1)?)?;
            output = functional::index_copy(&output, 0, &rows, &found.reshape([-1])?)?;
        }
        for entry in &mut entries {
            let cluster = self.cutoffs.iter().rposition(|&cutoff| *entry >= cutoff as i64);
            *entry = cluster.map_or(*entry, |cluster| (self.cutoffs[0] + cluster) as i64);
        }
        let head = functional::log_softmax(&self.head.forward(input)?, 1)?;
        let head = head.gather(1, &on_device(&entries)?.unsqueeze(1)?)?.reshape([n])?;
        let output = functional::add(&output, &head)?;
        let loss = functional::neg(&output)?.mean(())?;
        Ok((output, loss))
    }

    /// Returns the log-probabilities of all classes.
    ///
    /// # Shapes
    ///
    /// `input` is `[n, in]`, the result `[n, classes]`.
    ///
    /// # Errors
    ///
    /// The input has another shape.
    #[track_caller]
    pub fn log_prob(&self, input: &Tensor) -> Result<Tensor> {
        let run = || {
            let head = functional::log_softmax(&self.head.forward(input)?, 1)?;
            let mut parts = vec![head.narrow(1, 0, self.cutoffs[0])?];
            for (i, cluster) in self.tail.iter().enumerate() {
                let own = functional::log_softmax(&cluster.forward(input)?, 1)?;
                parts.push(functional::add(&own, &head.narrow(1, self.cutoffs[0] + i, 1)?)?);
            }
            functional::cat(&parts, 1)
        };
        run().map_err(|error| error.called(OP))
    }

    /// Returns the most probable class of each sample; ties go to the lowest class.
    ///
    /// # Errors
    ///
    /// As [`log_prob`](AdaptiveLogSoftmaxWithLoss::log_prob).
    #[track_caller]
    pub fn predict(&self, input: &Tensor) -> Result<Tensor> {
        self.log_prob(input)?.argmax(1)
    }

    fn classes(&self) -> usize {
        self.cutoffs[self.tail.len()]
    }
}

const OP: &str = "AdaptiveLogSoftmaxWithLoss";

/// Options of an [`AdaptiveLogSoftmaxWithLoss`].
#[derive(Clone, Debug)]
pub struct AdaptiveLogSoftmaxWithLossOptions {
    in_features: usize,
    n_classes: usize,
    cutoffs: Vec<usize>,
    div_value: f64,
    head_bias: bool,
    place: Place,
}

impl AdaptiveLogSoftmaxWithLossOptions {
    setters! {
        /// Sets the divisor of the number of features from one cluster to the next (default 4).
        div_value: f64;
        /// Sets whether the head has a bias (default false).
        head_bias: bool;
    }
    place_setters!();
    init_with!(AdaptiveLogSoftmaxWithLoss);

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// As [`AdaptiveLogSoftmaxWithLoss::new`].
    pub fn init(&self) -> Result<AdaptiveLogSoftmaxWithLoss> {
        let mut cutoffs = self.cutoffs.clone();
        cutoffs.push(self.n_classes);
        let ascends = cutoffs.windows(2).all(|pair| pair[0] < pair[1]);
        if cutoffs.len() < 2 || cutoffs[0] == 0 || !ascends {
            let (cutoffs, classes) = (&self.cutoffs, self.n_classes);
            let message = format!(
                "expected ascending cutoffs between 0 and {classes} classes, got {cutoffs:?}"
            );
            return Err(Error::invalid(OP, message));
        }
        let clusters = cutoffs.len() - 1;
        let linear = |from, to| -> LinearOptions {
            let Place { dtype, device } = self.place;
            Linear::options(from, to).bias(false).dtype(dtype).device(device)
        };
        let head = linear(self.in_features, cutoffs[0] + clusters).bias(self.head_bias).init()?;
        let (mut divisor, mut tail) = (1.0, Vec::new());
        for classes in cutoffs.windows(2).map(|pair| pair[1] - pair[0]) {
            divisor *= self.div_value;
            let width = (self.in_features as f64 / divisor) as usize;
            let narrow = linear(self.in_features, width).init()?;
            tail.push(sequential![narrow, linear(width, classes).init()?]);
        }
        Ok(AdaptiveLogSoftmaxWithLoss { head, tail, cutoffs })
    }
}
