use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;

use crate::nn::{Layer, is_training};
use crate::{Tensor, functional};

macro_rules! dropouts {
    ($($(#[$doc:meta])* $name:ident $function:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// # References
        ///
        #[doc = concat!("`torch.nn.", stringify!($name), "`.")]
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $name {
            /// The probability of dropping.
            pub p: f64,
        }

        impl $name {
            /// With a probability of dropping; one outside `[0, 1]` is an error of `forward`.
            pub fn new(p: f64) -> $name {
                $name { p }
            }
        }

        /// A probability of 0.5, PyTorch's default.
        impl Default for $name {
            fn default() -> $name {
                $name::new(0.5)
            }
        }

        impl Layer for $name {
            #[layer]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                if !is_training() {
                    return Ok(x.clone());
                }
                functional::$function(x, self.p)
            }
        }
    )* };
}

dropouts! {
    /// Drops elements while training.
    Dropout dropout;
    /// Drops rows of `[n, channels, length]` while training.
    Dropout1d dropout1d;
    /// Drops planes of `[n, channels, height, width]` while training.
    Dropout2d dropout2d;
    /// Drops volumes of `[n, channels, depth, height, width]` while training.
    Dropout3d dropout3d;
    /// Drops elements to the negative limit of SELU while training, keeping mean and variance.
    AlphaDropout alpha_dropout;
    /// Drops whole channels to the negative limit of SELU while training.
    FeatureAlphaDropout feature_alpha_dropout;
}
