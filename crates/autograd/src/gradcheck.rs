//! A check of gradients: what a backward pass computes, against finite differences in f64.

use std::fmt;

use samebits_tensor_core::{DType, Error as CallError};

use crate::{Tensor, backward, enable_grad, no_grad};

/// Checks the gradients of `function` by its `inputs` that require one, with the tolerances of
/// PyTorch; see [`Gradcheck::first`].
///
/// # Errors
///
/// As [`Gradcheck::first`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::gradcheck::Error;
/// use samebits_autograd::{Tensor, gradcheck};
///
/// let x = Tensor::new([1.0f64, 2.0])?.set_requires_grad(true)?;
/// gradcheck(|x| x[0].square(), &[&x])?;
///
/// // A gradient that stops on its way is too small.
/// let error = gradcheck(|x| x[0].mul(&x[0].detach()), &[&x]).unwrap_err();
/// let Error::Differs { input, element, backward, .. } = error else { panic!("{error}") };
/// assert_eq!((input, element, backward), (0, vec![0], 1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn gradcheck<R: Results>(
    function: impl Fn(&[Tensor]) -> Result<R, CallError>,
    inputs: &[&Tensor],
) -> Result<(), Error> {
    Gradcheck::default().first(function, inputs)
}

/// Checks the second derivatives of `function` by its `inputs` that require a gradient, with the
/// tolerances of PyTorch; see [`Gradcheck::second`].
///
/// # Errors
///
/// As [`Gradcheck::first`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, gradgradcheck};
///
/// let x = Tensor::new([1.0f64, 2.0])?.set_requires_grad(true)?;
/// gradgradcheck(|x| x[0].exp(), &[&x])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn gradgradcheck<R: Results>(
    function: impl Fn(&[Tensor]) -> Result<R, CallError>,
    inputs: &[&Tensor],
) -> Result<(), Error> {
    Gradcheck::default().second(function, inputs)
}

/// The step and the tolerances of a check. [`default`](Gradcheck::default) has PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradcheck {
    /// The distance to each side in the differences.
    pub step: f64,
    /// The permitted difference, whatever the slope.
    pub absolute: f64,
    /// The permitted difference as a share of the slope.
    pub relative: f64,
}

impl Default for Gradcheck {
    fn default() -> Gradcheck {
        Gradcheck { step: 1e-6, absolute: 1e-5, relative: 1e-3 }
    }
}

impl Gradcheck {
    /// Compares the gradient of every element of every result by every element of the inputs that
    /// require one with central differences. The inputs are of type f64, and so are the results
    /// that hold floats; others are not checked. `function` gets variables with the values of
    /// `inputs`, and is called three times and twice for each of their elements: it has to give the
    /// same bits for the same values, so it draws from generators of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Differs`] with the first element that differs, [`Error::Varies`] if results or
    /// gradients do not repeat, [`Error::NothingToCheck`] and [`Error::NotF64`] for inputs and
    /// results that cannot be checked, and the errors of `function`.
    pub fn first<R: Results>(
        &self,
        function: impl Fn(&[Tensor]) -> Result<R, CallError>,
        inputs: &[&Tensor],
    ) -> Result<(), Error> {
        self.compare(&|inputs| function(inputs).map(R::list), inputs)
    }

    /// Checks the gradients of the gradients: of the sum of all results, each element by a weight
    /// of its own, by inputs and weights.
    ///
    /// # Errors
    ///
    /// As [`first`](Gradcheck::first).
    pub fn second<R: Results>(
        &self,
        function: impl Fn(&[Tensor]) -> Result<R, CallError>,
        inputs: &[&Tensor],
    ) -> Result<(), Error> {
        let function = |inputs: &[Tensor]| function(inputs).map(R::list);
        let checked: Vec<usize> =
            (0..inputs.len()).filter(|&input| inputs[input].requires_grad()).collect();
        let mut all: Vec<Tensor> = inputs.iter().map(|&x| x.clone()).collect();
        let slopes = |function: &Function<'_>, given: &[Tensor], weights: &[Tensor]| {
            enable_grad(|| {
                let results = function(given)?;
                let wanted = results.iter().filter(|y| y.requires_grad());
                let pairs: Vec<_> = wanted.zip(weights.iter().cloned()).collect();
                let gradients = backward(&pairs, true)?;
                let gradient = |&input: &usize| gradients.of(&given[input]).cloned();
                Ok(checked.iter().filter_map(gradient).collect())
            })
        };
        for result in function(&variables(inputs)?)?.iter().filter(|y| y.requires_grad()) {
            // Any weights but equal ones would do.
            let weight = |i: usize| ((i * 37 % 19) as f64 - 9.5) / 8.0;
            let weights: Vec<f64> = (0..result.numel()).map(weight).collect();
            let weights = Tensor::from_vec(weights, result.shape())?.to(result.device())?;
            all.push(weights.set_requires_grad(true)?);
        }
        if all.len() == inputs.len() {
            return Err(Error::NothingToCheck);
        }
        let all: Vec<&Tensor> = all.iter().collect();
        let count = inputs.len();
        self.compare(&|given| slopes(&function, &given[..count], &given[count..]), &all)
    }

    fn compare(&self, function: &Function<'_>, inputs: &[&Tensor]) -> Result<(), Error> {
        let leaves = variables(inputs)?;
        let results = function(&leaves)?;
        let again = function(&leaves)?;
        if results.len() != again.len() {
            return Err(Error::Varies { result: 0, element: Vec::new(), gradient: None });
        }
        for (number, (result, again)) in results.iter().zip(&again).enumerate() {
            if let Some(element) = first_difference(result, again)? {
                return Err(Error::Varies { result: number, element, gradient: None });
            }
            if result.dtype().is_float() && result.dtype() != DType::F64 {
                let (place, got) = (Place::Result(number), result.dtype());
                return Err(Error::NotF64 { place, got });
            }
        }
        let sides = self.differences(function, inputs, &leaves)?;
        for (number, result) in results.iter().enumerate() {
            if result.dtype() == DType::F64 {
                self.compare_result(number, result, &leaves, &sides)?;
            }
        }
        Ok(())
    }

    /// Computes the slopes by central differences: for each input that is checked and each of its
    /// elements, those of every result.
    fn differences(
        &self,
        function: &Function<'_>,
        inputs: &[&Tensor],
        leaves: &[Tensor],
    ) -> Result<Vec<Slopes>, Error> {
        let mut found = Vec::new();
        for (input, x) in leaves.iter().enumerate().filter(|(_, x)| x.requires_grad()) {
            let values = x.to_vec::<f64>()?;
            for element in 0..values.len() {
                let [above, below] = [1.0, -1.0].map(|sign| values[element] + sign * self.step);
                let at = |value: f64| -> Result<Vec<Option<Vec<f64>>>, Error> {
                    let mut moved = values.clone();
                    moved[element] = value;
                    let mut given = variables(inputs)?;
                    let moved = Tensor::from_vec(moved, x.shape())?.to(x.device())?;
                    given[input] = moved.set_requires_grad(true)?;
                    let results = no_grad(|| function(&given))?;
                    let read = |y: &Tensor| -> Result<_, Error> {
                        Ok(match y.dtype() {
                            DType::F64 => Some(y.to_vec::<f64>()?),
                            _ => None,
                        })
                    };
                    results.iter().map(read).collect()
                };
                let (high, low) = (at(above)?, at(below)?);
                let slope = |high: &[f64], low: &[f64]| -> Vec<f64> {
                    let pairs = high.iter().zip(low);
                    pairs.map(|(high, low)| (high - low) / (above - below)).collect()
                };
                let results = high.iter().zip(&low);
                let of_result = |(high, low): (&Option<Vec<f64>>, &Option<Vec<f64>>)| {
                    Some(slope(high.as_deref()?, low.as_deref()?))
                };
                found.push(Slopes { input, element, of: results.map(of_result).collect() });
            }
        }
        Ok(found)
    }

    /// Compares the gradients of one result with the slopes.
    fn compare_result(
        &self,
        number: usize,
        result: &Tensor,
        leaves: &[Tensor],
        slopes: &[Slopes],
    ) -> Result<(), Error> {
        for at in 0..result.numel() {
            let gradients = || -> Result<Vec<Option<Tensor>>, Error> {
                if !result.requires_grad() {
                    return Ok(vec![None; leaves.len()]);
                }
                let mut unit = vec![0.0; result.numel()];
                unit[at] = 1.0;
                let unit = Tensor::from_vec(unit, result.shape())?.to(result.device())?;
                let found = result.backward_from(unit, false)?;
                Ok(leaves.iter().map(|x| found.of(x).cloned()).collect())
            };
            let found = gradients()?;
            for (input, pair) in found.iter().zip(gradients()?).enumerate() {
                if let (Some(first), Some(second)) = pair
                    && let Some(element) = first_difference(first, &second)?
                {
                    let result_element = place(at, result.shape());
                    let gradient = Some((input, element));
                    let element = result_element;
                    return Err(Error::Varies { result: number, element, gradient });
                }
            }
            let mut values = Vec::new();
            for gradient in &found {
                values.push(gradient.as_ref().map(Tensor::to_vec::<f64>).transpose()?);
            }
            for Slopes { input, element, of } in slopes {
                let Some(difference) = of.get(number).and_then(Option::as_ref) else { continue };
                let Some(&difference) = difference.get(at) else { continue };
                let backward = values[*input].as_ref().map_or(0.0, |values| values[*element]);
                let tolerance = self.absolute + self.relative * difference.abs();
                let is_close = (backward - difference).abs() <= tolerance;
                if !is_close {
                    return Err(Error::Differs {
                        result: number,
                        result_element: place(at, result.shape()),
                        input: *input,
                        element: place(*element, leaves[*input].shape()),
                        backward,
                        difference,
                        tolerance,
                    });
                }
            }
        }
        Ok(())
    }
}

/// The slopes of all results by one element of one input.
struct Slopes {
    input: usize,
    element: usize,
    of: Vec<Option<Vec<f64>>>,
}

type Function<'a> = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>, CallError> + 'a;

/// The results of a checked function: a tensor, or several.
pub trait Results {
    /// Returns the results in order.
    fn list(self) -> Vec<Tensor>;
}

impl Results for Tensor {
    fn list(self) -> Vec<Tensor> {
        vec![self]
    }
}

impl Results for Vec<Tensor> {
    fn list(self) -> Vec<Tensor> {
        self
    }
}

impl<const N: usize> Results for [Tensor; N] {
    fn list(self) -> Vec<Tensor> {
        self.into()
    }
}

/// The error of a check.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A gradient differs from the differences, or one of them is not a number.
    #[error(
        "gradcheck: result {result} at {result_element:?} by input {input} at {element:?}: the \
         backward pass gives {backward}, differences give {difference}, tolerance {tolerance}"
    )]
    Differs {
        /// The number of the result.
        result: usize,
        /// The indices of its element.
        result_element: Vec<usize>,
        /// The number of the input.
        input: usize,
        /// The indices of its element.
        element: Vec<usize>,
        /// The gradient.
        backward: f64,
        /// The slope by differences.
        difference: f64,
        /// The permitted difference of the two.
        tolerance: f64,
    },
    /// Two calls with the same values differ.
    #[error(
        "gradcheck: {} of result {result} at {element:?} differs between two calls with the same \
         values; draw random numbers from a generator of the function's own",
        Varying(gradient)
    )]
    Varies {
        /// The number of the result.
        result: usize,
        /// The indices of its first element that differs, or whose gradient does.
        element: Vec<usize>,
        /// For a gradient, the number of the input and the indices of its element.
        gradient: Option<(usize, Vec<usize>)>,
    },
    /// No input requires a gradient, or no result depends on one that does.
    #[error(
        "gradcheck: no input requires a gradient (see `set_requires_grad`), or no result depends \
         on one that does"
    )]
    NothingToCheck,
    /// An input that requires a gradient, or a result, is of another float type.
    #[error("gradcheck: expected {place} of type f64, got {got}; differences need its precision")]
    NotF64 {
        /// The tensor.
        place: Place,
        /// Its type.
        got: DType,
    },
    /// The function failed, or its backward pass.
    #[error(transparent)]
    Call(#[from] CallError),
}

samebits_numerics::debug_is_message!(Error);

/// An input or a result of a checked function, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An input.
    Input(usize),
    /// A result.
    Result(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Input(number) => write!(f, "input {number}"),
            Place::Result(number) => write!(f, "result {number}"),
        }
    }
}

/// Names the value that varies.
struct Varying<'a>(&'a Option<(usize, Vec<usize>)>);

impl fmt::Display for Varying<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("the value"),
            Some((input, element)) => {
                write!(f, "the gradient by input {input} at {element:?}")
            }
        }
    }
}

/// Returns fresh variables with the values of the inputs.
fn variables(inputs: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
    if !inputs.iter().any(|x| x.requires_grad()) {
        return Err(Error::NothingToCheck);
    }
    let variable = |(number, x): (usize, &&Tensor)| -> Result<Tensor, Error> {
        if !x.requires_grad() {
            return Ok(x.detach());
        }
        if x.dtype() != DType::F64 {
            return Err(Error::NotF64 { place: Place::Input(number), got: x.dtype() });
        }
        Ok(x.detach().set_requires_grad(true)?)
    };
    inputs.iter().enumerate().map(variable).collect()
}

/// Returns the indices of the first element whose bits differ.
fn first_difference(a: &Tensor, b: &Tensor) -> Result<Option<Vec<usize>>, Error> {
    if a.shape() != b.shape() || a.dtype() != b.dtype() {
        return Ok(Some(Vec::new()));
    }
    let (size, first, second) = (a.dtype().size(), a.to_bytes()?, b.to_bytes()?);
    let mut pairs = first.chunks(size).zip(second.chunks(size));
    Ok(pairs.position(|(a, b)| a != b).map(|flat| place(flat, a.shape())))
}

/// Returns the indices of an element by its position in row-major order.
fn place(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut indices = vec![0; shape.len()];
    for (index, &size) in indices.iter_mut().zip(shape).rev() {
        *index = flat % size;
        flat /= size;
    }
    indices
}
