//! Losses with their options, as `torch.nn` has them.

use samebits_macros::Module;
use samebits_tensor_core::Result;

use crate::Tensor;
use crate::functional::{self, BatchReduction, ClassLoss, CtcOptions, Reduction};

/// Losses whose options are public fields, with PyTorch's defaults: the name, the options, and the
/// function with its tensors.
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
            /// How the losses are put together: their mean by default.
            #[module(skip)]
            pub reduction: Reduction,
        }

        /// PyTorch's defaults.
        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* reduction: Reduction::Mean }
            }
        }

        impl $name {
            /// The loss.
            ///
            /// # Errors
            ///
            /// As those of the function.
            #[track_caller]
            pub fn forward(&self, $($input: &Tensor),+) -> Result<Tensor> {
                let $this = self;
                $function
            }
        }
    )* };
}

losses! {
    /// [`functional::mse_loss`].
    MSELoss {} (input, target) => |this| functional::mse_loss(input, target, this.reduction);
    /// [`functional::l1_loss`].
    L1Loss {} (input, target) => |this| functional::l1_loss(input, target, this.reduction);
    /// [`functional::smooth_l1_loss`].
    SmoothL1Loss {
        /// Where the parabola ends: 1 by default.
        beta: f64 = 1.0,
    } (input, target) => |this| {
        functional::smooth_l1_loss(input, target, this.beta, this.reduction)
    };
    /// [`functional::huber_loss`].
    HuberLoss {
        /// Where the parabola ends: 1 by default.
        delta: f64 = 1.0,
    } (input, target) => |this| functional::huber_loss(input, target, this.delta, this.reduction);
    /// [`functional::cross_entropy_with`], whose target holds classes or probabilities.
    CrossEntropyLoss {
        /// `[classes]`: what each class counts.
        #[module(buffer)]
        weight: Option<Tensor> = None,
        /// A target class that has no loss: −100 by default.
        ignore_index: i64 = -100,
        /// How much of each target goes to all classes evenly: nothing by default.
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
    /// [`functional::nll_loss_with`].
    NLLLoss {
        /// `[classes]`: what each class counts.
        #[module(buffer)]
        weight: Option<Tensor> = None,
        /// A target class that has no loss: −100 by default.
        ignore_index: i64 = -100,
    } (input, target) => |this| {
        let (weight, ignore_index) = (this.weight.as_ref(), this.ignore_index);
        let options =
            ClassLoss { weight, ignore_index, reduction: this.reduction, ..ClassLoss::default() };
        functional::nll_loss_with(input, target, &options)
    };
    /// [`functional::binary_cross_entropy`].
    BCELoss {
        /// Broadcasts to the losses.
        #[module(buffer)]
        weight: Option<Tensor> = None,
    } (input, target) => |this| {
        functional::binary_cross_entropy(input, target, this.weight.as_ref(), this.reduction)
    };
    /// [`functional::binary_cross_entropy_with_logits`].
    BCEWithLogitsLoss {
        /// Broadcasts to the losses.
        #[module(buffer)]
        weight: Option<Tensor> = None,
        /// Broadcasts to the targets: what a positive one counts.
        #[module(buffer)]
        pos_weight: Option<Tensor> = None,
    } (input, target) => |this| {
        let (weight, pos_weight) = (this.weight.as_ref(), this.pos_weight.as_ref());
        functional::binary_cross_entropy_with_logits(
            input, target, weight, pos_weight, this.reduction,
        )
    };
    /// [`functional::poisson_nll_loss`].
    PoissonNLLLoss {
        /// Whether the input is a logarithm: by default it is.
        log_input: bool = true,
        /// Whether Stirling's approximation is added: by default it is not.
        full: bool = false,
        /// Added to an input that is no logarithm: 1e-8 by default.
        eps: f64 = 1e-8,
    } (input, target) => |this| {
        functional::poisson_nll_loss(
            input, target, this.log_input, this.full, this.eps, this.reduction,
        )
    };
    /// [`functional::gaussian_nll_loss`].
    GaussianNLLLoss {
        /// Whether the constant term is added: by default it is not.
        full: bool = false,
        /// The smallest variance: 1e-6 by default.
        eps: f64 = 1e-6,
    } (input, target, var) => |this| {
        functional::gaussian_nll_loss(input, target, var, this.full, this.eps, this.reduction)
    };
    /// [`functional::hinge_embedding_loss`].
    HingeEmbeddingLoss {
        /// 1 by default.
        margin: f64 = 1.0,
    } (input, target) => |this| {
        functional::hinge_embedding_loss(input, target, this.margin, this.reduction)
    };
    /// [`functional::margin_ranking_loss`].
    MarginRankingLoss {
        /// 0 by default.
        margin: f64 = 0.0,
    } (a, b, target) => |this| {
        functional::margin_ranking_loss(a, b, target, this.margin, this.reduction)
    };
    /// [`functional::cosine_embedding_loss`].
    CosineEmbeddingLoss {
        /// 0 by default.
        margin: f64 = 0.0,
    } (a, b, target) => |this| {
        functional::cosine_embedding_loss(a, b, target, this.margin, this.reduction)
    };
    /// [`functional::triplet_margin_loss`].
    TripletMarginLoss {
        /// 1 by default.
        margin: f64 = 1.0,
        /// The exponent of the norm: 2 by default.
        p: f64 = 2.0,
        /// Added to each difference: 1e-6 by default.
        eps: f64 = 1e-6,
        /// Whether the distance of the positive from the negative counts, too: by default it does
        /// not.
        swap: bool = false,
    } (anchor, positive, negative) => |this| {
        let (margin, p, eps, swap) = (this.margin, this.p, this.eps, this.swap);
        functional::triplet_margin_loss(
            anchor, positive, negative, margin, p, eps, swap, this.reduction,
        )
    };
    /// [`functional::soft_margin_loss`].
    SoftMarginLoss {} (input, target) => |this| {
        functional::soft_margin_loss(input, target, this.reduction)
    };
    /// [`functional::multi_margin_loss`].
    MultiMarginLoss {
        /// The exponent, 1 or 2: 1 by default.
        p: u32 = 1,
        /// 1 by default.
        margin: f64 = 1.0,
        /// `[classes]`: what each class counts.
        #[module(buffer)]
        weight: Option<Tensor> = None,
    } (input, target) => |this| {
        let (p, margin, weight) = (this.p, this.margin, this.weight.as_ref());
        functional::multi_margin_loss(input, target, p, margin, weight, this.reduction)
    };
    /// [`functional::multilabel_margin_loss`].
    MultiLabelMarginLoss {} (input, target) => |this| {
        functional::multilabel_margin_loss(input, target, this.reduction)
    };
    /// [`functional::multilabel_soft_margin_loss`].
    MultiLabelSoftMarginLoss {
        /// Broadcasts to the inputs.
        #[module(buffer)]
        weight: Option<Tensor> = None,
    } (input, target) => |this| {
        functional::multilabel_soft_margin_loss(
            input, target, this.weight.as_ref(), this.reduction,
        )
    };
}

/// [`functional::kl_div`].
///
/// # References
///
/// `torch.nn.KLDivLoss`.
#[derive(Clone, Copy, Debug, Module)]
pub struct KLDivLoss {
    /// How the losses are put together: the mean over all elements by default, as in PyTorch.
    #[module(skip)]
    pub reduction: BatchReduction,
    /// Whether the target is a logarithm: by default it is not.
    pub log_target: bool,
}

impl Default for KLDivLoss {
    fn default() -> KLDivLoss {
        KLDivLoss { reduction: BatchReduction::Of(Reduction::Mean), log_target: false }
    }
}

impl KLDivLoss {
    /// The loss.
    ///
    /// # Errors
    ///
    /// As those of the function.
    #[track_caller]
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        functional::kl_div(input, target, self.reduction, self.log_target)
    }
}

/// [`functional::ctc_loss`].
///
/// # References
///
/// `torch.nn.CTCLoss`.
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct CTCLoss {
    /// The options, by default PyTorch's.
    #[module(skip)]
    pub options: CtcOptions,
}

impl CTCLoss {
    /// The loss.
    ///
    /// # Errors
    ///
    /// As those of the function.
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
