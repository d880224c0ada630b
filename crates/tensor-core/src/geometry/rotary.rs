//! The sizes of a rotation of pairs of features.

use crate::{Error, Result};

/// The sizes of a rotary position embedding of `[.., length, width]` with tables `[length, half]`.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::Rotation;
///
/// let sizes = Rotation::new("rotary", &[2, 3, 5, 8], &[5, 4], &[5, 4])?;
/// assert_eq!((sizes.length, sizes.width, sizes.half), (5, 8, 4));
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The number of positions.
    pub length: usize,
    /// The number of features.
    pub width: usize,
    /// The number of pairs that turn.
    pub half: usize,
}

impl Rotation {
    /// Checks the shapes of the input and of the tables of cosines and sines.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if they do not fit together.
    pub fn new(op: &'static str, x: &[usize], cos: &[usize], sin: &[usize]) -> Result<Rotation> {
        match (x, cos) {
            (&[.., length, width], &[positions, half])
                if cos == sin && positions == length && half > 0 && half <= width / 2 =>
            {
                Ok(Rotation { length, width, half })
            }
            _ => {
                let message = format!(
                    "expected [.., length, width] and two tables [length, half] with 1 <= half <= \
                     width / 2, got {x:?}, {cos:?} and {sin:?}"
                );
                Err(Error::invalid(op, message))
            }
        }
    }
}
