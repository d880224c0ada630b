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
            /// The probability of dropping an element or channel.
            pub p: f64,
        }

        impl $name {
            /// Creates the layer with drop probability `p`; if it is outside `[0, 1]`, `forward`
            /// returns an error.
            pub fn new(p: f64) -> $name {
                $name { p }
            }
        }

        /// Returns PyTorch's default, a probability of 0.5.
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
    /// A layer that drops elements while training.
    Dropout dropout;
    /// A layer that drops rows of `[n, channels, length]` while training.
    Dropout1d dropout1d;
    /// A layer that drops planes of `[n, channels, height, width]` while training.
    Dropout2d dropout2d;
    /// A layer that drops volumes of `[n, channels, depth, height, width]` while training.
    Dropout3d dropout3d;
    /// A layer that sets elements to the negative limit of SELU while training, keeping mean and
    /// variance.
    AlphaDropout alpha_dropout;
    /// A layer that sets whole channels to the negative limit of SELU while training.
    FeatureAlphaDropout feature_alpha_dropout;
}
