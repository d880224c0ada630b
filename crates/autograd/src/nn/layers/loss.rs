//! Losses with their options, as in `torch.nn`.

use samebits_macros::Module;
use samebits_tensor_core::Result;

use crate::Tensor;
use crate::functional::{self, BatchReduction, ClassLoss, CtcOptions, Reduction};

/// Defines losses whose options are public fields with PyTorch's defaults. Each entry gives the
/// name, the options, the inputs and the function.
macro_rules! losses {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr,)* }
        ($($input:ident),+) => |$this:ident| $function:expr;
    )*) => { $(
        $(#[$doc])*
        ///
        /// # References
        ///
        #[doc = concat!("`torch.nn.", stringify!($name), "`.")]
        #[derive(Clone, Debug, Module)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
            /// The reduction over all losses: the mean by default.
            #[module(skip)]
            pub reduction: Reduction,
        }

        /// Returns PyTorch's defaults.
        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* reduction: Reduction::Mean }
            }
        }

        impl $name {
            /// Computes the loss.
            ///
            /// # Errors
            ///
            /// Errors of the function.
            #[track_caller]
            pub fn forward(&self, $($input: &Tensor),+) -> Result<Tensor> {
                let $this = self;
                $function
            }
        }
    )* };
}

losses! {
    /// The squared error; see [`functional::mse_loss`].
    MSELoss {} (input, target) => |this| functional::mse_loss(input, target, this.reduction);
    /// The absolute error; see [`functional::l1_loss`].
    L1Loss {} (input, target) => |this| functional::l1_loss(input, target, this.reduction);
    /// The absolute error, squared near 0; see [`functional::smooth_l1_loss`].
    SmoothL1Loss {
        /// The error below which the loss is quadratic: 1 by default.
        beta: f64 = 1.0,
    } (input, target) => |this| {
        functional::smooth_l1_loss(input, target, this.beta, this.reduction)
    };
    /// The Huber loss; see [`functional::huber_loss`].
    HuberLoss {
        /// The error below which the loss is quadratic: 1 by default.
        delta: f64 = 1.0,
    } (input, target) => |this| functional::huber_loss(input, target, this.delta, this.reduction);
    /// The cross entropy of classes or class probabilities; see [`functional::cross_entropy_with`].
    CrossEntropyLoss {
        /// The weight of each class, `[classes]`.
        #[module(buffer)]
        weight: Option<Tensor> = None,
        /// A target class that is ignored: −100 by default.
        ignore_index: i64 = -100,
        /// The share of each target that is spread evenly over all classes: 0 by default.
        label_smoothing: f64 = 0.0,
    } (input, target) => |this| {
        let options = ClassLoss {
            weight: this.weight.as_ref(),
            ignore_index: this.ignore_index,
            label_smoothing: this.label_smoothing,
            reduction: this.reduction,
        };
        functional::cross_entropy_with(input, target, &options)
    };
    /// The negative log-likelihood; see [`functional::nll_loss_with`].
    NLLLoss {
        /// The weight of each class, `[classes]`.
        #[module(buffer)]
        weight: Option<Tensor> = None,
        /// A target class that is ignored: −100 by default.
        ignore_index: i64 = -100,
    } (input, target) => |this| {
        let (weight, ignore_index) = (this.weight.as_ref(), this.ignore_index);
        let options =
            ClassLoss { weight, ignore_index, reduction: this.reduction, ..ClassLoss::default() };
        functional::nll_loss_with(input, target, &options)
    };
    /// The binary cross entropy of probabilities; see [`functional::binary_cross_entropy`].
    BCELoss {
        /// A weight that broadcasts to the losses.
        #[module(buffer)]
        weight: Option<Tensor> = None,
    } (input, target) => |this| {
        functional::binary_cross_entropy(input, target, this.weight.as_ref(), this.reduction)
    };
    /// The binary cross entropy of logits; see [`functional::binary_cross_entropy_with_logits`].
    BCEWithLogitsLoss {
        /// A weight that broadcasts to the losses.
        #[module(buffer)]
        weight: Option<Tensor> = None,
        /// The weight of positive targets; broadcasts to the shape of the targets.
        #[module(buffer)]
        pos_weight: Option<Tensor> = None,
    } (input, target) => |this| {
        let (weight, pos_weight) = (this.weight.as_ref(), this.pos_weight.as_ref());
        functional::binary_cross_entropy_with_logits(
            input, target, weight, pos_weight, this.reduction,
        )
    };
    /// The Poisson negative log-likelihood; see [`functional::poisson_nll_loss`].
    PoissonNLLLoss {
        /// True if the input is a logarithm (default true).
        log_input: bool = true,
        /// If true, adds Stirling's approximation (default false).
        full: bool = false,
        /// A small number added to an input that is not a logarithm: 1e-8 by default.
        eps: f64 = 1e-8,
    } (input, target) => |this| {
        functional::poisson_nll_loss(
            input, target, this.log_input, this.full, this.eps, this.reduction,
        )
    };
    /// The Gaussian negative log-likelihood; see [`functional::gaussian_nll_loss`].
    GaussianNLLLoss {
        /// If true, adds the constant term (default false).
        full: bool = false,
        /// The smallest variance: 1e-6 by default.
        eps: f64 = 1e-6,
    } (input, target, var) => |this| {
        functional::gaussian_nll_loss(input, target, var, this.full, this.eps, this.reduction)
    };
    /// The hinge embedding loss; see [`functional::hinge_embedding_loss`].
    HingeEmbeddingLoss {
        /// The margin: 1 by default.
        margin: f64 = 1.0,
    } (input, target) => |this| {
        functional::hinge_embedding_loss(input, target, this.margin, this.reduction)
    };
    /// The margin ranking loss; see [`functional::margin_ranking_loss`].
    MarginRankingLoss {
        /// The margin: 0 by default.
        margin: f64 = 0.0,
    } (a, b, target) => |this| {
        functional::margin_ranking_loss(a, b, target, this.margin, this.reduction)
    };
    /// The cosine embedding loss; see [`functional::cosine_embedding_loss`].
    CosineEmbeddingLoss {
        /// The margin: 0 by default.
        margin: f64 = 0.0,
    } (a, b, target) => |this| {
        functional::cosine_embedding_loss(a, b, target, this.margin, this.reduction)
    };
    /// The triplet margin loss; see [`functional::triplet_margin_loss`].
    TripletMarginLoss {
        /// The margin: 1 by default.
        margin: f64 = 1.0,
        /// The exponent of the norm: 2 by default.
        p: f64 = 2.0,
        /// A small number added to each difference: 1e-6 by default.
        eps: f64 = 1e-6,
        /// If true, uses the distance from positive to negative if it is smaller than that from
        /// anchor to negative (default false).
        swap: bool = false,
    } (anchor, positive, negative) => |this| {
        let (margin, p, eps, swap) = (this.margin, this.p, this.eps, this.swap);
        functional::triplet_margin_loss(
            anchor, positive, negative, margin, p, eps, swap, this.reduction,
        )
    };
    /// The logistic loss of targets ±1; see [`functional::soft_margin_loss`].
    SoftMarginLoss {} (input, target) => |this| {
        functional::soft_margin_loss(input, target, this.reduction)
    };
    /// The multi-class hinge loss; see [`functional::multi_margin_loss`].
    MultiMarginLoss {
        /// The exponent, 1 or 2: 1 by default.
        p: u32 = 1,
        /// The margin: 1 by default.
        margin: f64 = 1.0,
        /// The weight of each class, `[classes]`.
        #[module(buffer)]
        weight: Option<Tensor> = None,
    } (input, target) => |this| {
        let (p, margin, weight) = (this.p, this.margin, this.weight.as_ref());
        functional::multi_margin_loss(input, target, p, margin, weight, this.reduction)
    };
    /// The multi-label hinge loss; see [`functional::multilabel_margin_loss`].
    MultiLabelMarginLoss {} (input, target) => |this| {
        functional::multilabel_margin_loss(input, target, this.reduction)
    };
    /// The multi-label logistic loss; see [`functional::multilabel_soft_margin_loss`].
    MultiLabelSoftMarginLoss {
        /// A weight that broadcasts to the inputs.
        #[module(buffer)]
        weight: Option<Tensor> = None,
    } (input, target) => |this| {
        functional::multilabel_soft_margin_loss(
            input, target, this.weight.as_ref(), this.reduction,
        )
    };
}

/// The Kullback–Leibler divergence; see [`functional::kl_div`].
///
/// # References
///
/// `torch.nn.KLDivLoss`.
#[derive(Clone, Copy, Debug, Module)]
pub struct KLDivLoss {
    /// The reduction: the mean over all elements by default, as in PyTorch.
    #[module(skip)]
    pub reduction: BatchReduction,
    /// True if the target is a logarithm (default false).
    pub log_target: bool,
}

impl Default for KLDivLoss {
    fn default() -> KLDivLoss {
        KLDivLoss { reduction: BatchReduction::Of(Reduction::Mean), log_target: false }
    }
}

impl KLDivLoss {
    /// Computes the loss.
    ///
    /// # Errors
    ///
    /// Errors of the function.
    #[track_caller]
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        functional::kl_div(input, target, self.reduction, self.log_target)
    }
}

/// The connectionist temporal classification loss; see [`functional::ctc_loss`].
///
/// # References
///
/// `torch.nn.CTCLoss`.
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct CTCLoss {
    /// The options; by default PyTorch's.
    #[module(skip)]
    pub options: CtcOptions,
}

impl CTCLoss {
    /// Computes the loss.
    ///
    /// # Errors
    ///
    /// Errors of the function.
    #[track_caller]
    pub fn forward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &[usize],
        target_lengths: &[usize],
    ) -> Result<Tensor> {
        functional::ctc_loss(log_probs, targets, input_lengths, target_lengths, self.options)
    }
}
