//! Sums of products in Einstein notation.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use samebits_macros::named;
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::{Error, Result};

use super::{bmm, diagonal, each, expand, mul, permute, reshape, sum};
use crate::Tensor;

/// Multiplies the operands and sums over the indices that the result does not name.
///
/// The equation gives each dimension of each operand a letter; a comma separates operands.
/// `"ij,jk->ik"` is the product of two matrices. Spaces are ignored.
///
/// * A letter that several operands share is one index; its sizes must agree, and size 1
///   broadcasts.
/// * A letter repeated within one operand takes the diagonal: `"ii->"` is the trace.
/// * `...` stands for any number of dimensions, which broadcast from the last one on.
/// * Without `->`, the result has the dimensions of `...` first, then the letters that occur once,
///   in the order A to Z, a to z. With `->`, the result has the dimensions listed after it; an
///   unlisted `...` is summed.
///
/// # Determinism
///
/// Portable. The operands are multiplied from left to right. A letter is summed as soon as neither
/// the result nor a later operand needs it. If only one of the two factors has the letter, [`sum`]
/// reduces it before the product; else [`bmm`] reduces all such letters together, in the order of
/// the left factor. If there is no such letter, the product is that of [`mul`].
///
/// # Errors
///
/// The equation is invalid or does not fit the operands, or sizes disagree.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional::einsum};
///
/// let a = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// let x = Tensor::new([1.0f32, 10.0])?;
/// assert_eq!(einsum("ij,j", &[&a, &x])?.to_vec::<f32>()?, [21.0, 43.0]);
/// assert_eq!(einsum("ii->", &[&a])?.item::<f32>()?, 5.0);
/// assert_eq!(einsum("...j,i->...ij", &[&a, &x])?.shape(), [2, 2, 2]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.einsum`.
#[named]
#[track_caller]
pub fn einsum(equation: &str, operands: &[impl Borrow<Tensor>]) -> Result<Tensor> {
    let operands = each(operands);
    let Equation { inputs, output } = Equation::parse(equation, &operands)?;
    let result: BTreeSet<Label> = output.iter().copied().collect();
    // For each operand, the labels needed by the result and later operands.
    let mut needed = Vec::new();
    let mut later = result.clone();
    for labels in inputs.iter().rev() {
        needed.push(later.clone());
        later.extend(labels);
    }
    let mut sizes = BTreeMap::new();
    let mut factors = Vec::new();
    for (i, (x, labels)) in operands.iter().zip(inputs).enumerate() {
        let factor = Factor::new(equation, i, x, labels)?;
        for (&label, &size) in factor.labels.iter().zip(factor.x.shape()) {
            let known = sizes.entry(label).or_insert(size);
            if *known != size && *known != 1 && size != 1 {
                let message = format!("{label} has size {known}, but size {size} in operand {i}");
                return Err(invalid(equation, &message));
            }
            *known = if *known == 1 { size } else { *known };
        }
        factors.push(factor);
    }
    let mut product: Option<Factor> = None;
    for (factor, needed) in factors.into_iter().zip(needed.into_iter().rev()) {
        product = Some(match product {
            Some(product) => product.times(factor, &needed)?,
            None => factor,
        });
    }
    match product {
        Some(product) => product.summed(|label| !result.contains(&label))?.ordered(&output),
        None => Err(invalid(equation, "there are no operands")),
    }
}

/// The label of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    /// A dimension of `...`, counted from the last.
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(char),
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Label::Ellipsis(back) => write!(f, "dimension -{} of `...`", back.0 + 1),
            Label::Letter(letter) => write!(f, "{letter}"),
        }
    }
}

/// A parsed equation for given operands.
struct Equation {
    inputs: Vec<Vec<Label>>,
    output: Vec<Label>,
}

impl Equation {
    fn parse(equation: &str, operands: &[&Tensor]) -> Result<Equation> {
        let text: String = equation.chars().filter(|&c| c != ' ').collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != operands.len().max(1) {
            let message = format!("{} terms for {} operands", terms.len(), operands.len());
            return Err(invalid(equation, &message));
        }
        let mut inputs = Vec::new();
        let mut dots = 0;
        for (i, (term, x)) in terms.into_iter().zip(operands).enumerate() {
            let term = Term::parse(equation, term)?;
            let letters = term.before.len() + term.after.len();
            let rest = x.rank().checked_sub(letters).filter(|&rest| rest == 0 || term.ellipsis);
            let rest = rest.ok_or_else(|| {
                let message = format!("{letters} letters for operand {i} of shape {:?}", x.shape());
                invalid(equation, &message)
            })?;
            dots = dots.max(rest);
            inputs.push(term.labels(rest));
        }
        let output = match right {
            Some(right) => {
                let labels = Term::parse(equation, right)?.labels(dots);
                for (at, label) in labels.iter().enumerate() {
                    if labels[..at].contains(label) {
                        return Err(invalid(equation, &format!("the result has {label} twice")));
                    }
                    if !inputs.iter().any(|labels| labels.contains(label)) {
                        let message = format!("the result has {label}, but no operand has it");
                        return Err(invalid(equation, &message));
                    }
                }
                labels
            }
            None => {
                let mut counts = BTreeMap::new();
                for label in inputs.iter().flatten() {
                    *counts.entry(*label).or_insert(0) += 1;
                }
                let kept = |(label, count)| {
                    (matches!(label, Label::Ellipsis(_)) || count == 1).then_some(label)
                };
                counts.into_iter().filter_map(kept).collect()
            }
        };
        Ok(Equation { inputs, output })
    }
}

/// The letters of an operand or of the result.
struct Term {
    before: Vec<char>,
    ellipsis: bool,
    after: Vec<char>,
}

impl Term {
    fn parse(equation: &str, text: &str) -> Result<Term> {
        let (before, after) = match text.split_once("...") {
            Some((before, after)) => (before, Some(after)),
            None => (text, None),
        };
        let letters = |text: &str| -> Result<Vec<char>> {
            match text.chars().find(|c| !c.is_ascii_alphabetic()) {
                None => Ok(text.chars().collect()),
                Some(c) => Err(invalid(equation, &format!("{c:?} is not a letter"))),
            }
        };
        let ellipsis = after.is_some();
        Ok(Term { before: letters(before)?, ellipsis, after: letters(after.unwrap_or(""))? })
    }

    /// Returns the labels, with the ellipsis standing for `dots` dimensions.
    fn labels(&self, dots: usize) -> Vec<Label> {
        let dots = if self.ellipsis { dots } else { 0 };
        let letters = |letters: &[char]| letters.iter().copied().map(Label::Letter).collect();
        let between = (0..dots).rev().map(|back| Label::Ellipsis(std::cmp::Reverse(back)));
        let [before, after]: [Vec<Label>; 2] = [letters(&self.before), letters(&self.after)];
        before.into_iter().chain(between).chain(after).collect()
    }
}

/// A tensor with distinctly labelled dimensions.
struct Factor {
    x: Tensor,
    labels: Vec<Label>,
}

impl Factor {
    /// Creates the factor of operand `i`, taking the diagonal of repeated labels.
    fn new(equation: &str, i: usize, x: &Tensor, mut labels: Vec<Label>) -> Result<Factor> {
        let mut x = x.clone();
        let twice = |labels: &[Label]| {
            let pair = |(at, label): (usize, &Label)| {
                labels[..at].iter().position(|earlier| earlier == label).map(|first| (first, at))
            };
            labels.iter().enumerate().find_map(pair)
        };
        while let Some((first, second)) = twice(&labels) {
            let (a, b) = (x.shape()[first], x.shape()[second]);
            let label = labels.remove(second);
            if a != b {
                let message = format!("{label} has sizes {a} and {b} in operand {i}");
                return Err(invalid(equation, &message));
            }
            x = diagonal(&x, 0, first, second)?;
            labels.remove(first);
            labels.push(label);
        }
        Ok(Factor { x, labels })
    }

    fn size(&self, label: Label) -> Option<usize> {
        self.labels.iter().position(|&own| own == label).map(|dim| self.x.shape()[dim])
    }

    /// Sums over the labels for which `over` holds.
    #[track_caller]
    fn summed(self, over: impl Fn(Label) -> bool) -> Result<Factor> {
        let (ones, several): (Vec<usize>, Vec<usize>) = (0..self.labels.len())
            .filter(|&dim| over(self.labels[dim]))
            .partition(|&dim| self.x.shape()[dim] == 1);
        let mut x = self.x;
        if !several.is_empty() {
            x = sum(&x, &several, true)?;
        }
        let kept = |dim: &usize| !ones.contains(dim) && !several.contains(dim);
        let dims: Vec<usize> = (0..x.rank()).filter(kept).collect();
        let shape: Vec<usize> = dims.iter().map(|&dim| x.shape()[dim]).collect();
        let labels = dims.iter().map(|&dim| self.labels[dim]).collect();
        Ok(Factor { x: reshape(&x, shape)?, labels })
    }

    /// Permutes the dimensions to the order of `labels`, which lists all of them.
    fn ordered(&self, labels: &[Label]) -> Result<Tensor> {
        let dim = |label| self.labels.iter().position(|own| own == label);
        let order: Vec<usize> = labels.iter().filter_map(dim).collect();
        if order.iter().enumerate().all(|(at, &dim)| at == dim) {
            return Ok(self.x.clone());
        }
        permute(&self.x, order)
    }

    /// Multiplies the factors and sums over the labels that are no longer needed.
    #[track_caller]
    fn times(self, other: Factor, needed: &BTreeSet<Label>) -> Result<Factor> {
        // Labels that only one factor has, or has with size above 1, are summed before the product.
        let alone = |a: &Factor, b: &Factor| -> BTreeSet<Label> {
            let own =
                |label| b.size(label).is_none_or(|size| size == 1) || a.size(label) == Some(1);
            a.labels
                .iter()
                .copied()
                .filter(|&label| !needed.contains(&label) && own(label))
                .collect()
        };
        let (left, right) = (alone(&self, &other), alone(&other, &self));
        let a = self.summed(|label| left.contains(&label))?;
        let b = other.summed(|label| right.contains(&label))?;
        let (mut shared, mut over, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for &label in &a.labels {
            match (b.labels.contains(&label), needed.contains(&label)) {
                (true, true) => shared.push(label),
                (true, false) => over.push(label),
                (false, _) => rows.push(label),
            }
        }
        let columns: Vec<Label> =
            b.labels.iter().copied().filter(|label| !a.labels.contains(label)).collect();
        let size = |label: &Label| match (a.size(*label), b.size(*label)) {
            (Some(1) | None, Some(size)) | (Some(size), _) => size,
            (None, None) => 1,
        };
        let sizes = |labels: &[Label]| labels.iter().map(size).collect::<Vec<usize>>();
        let of = |factor: &Factor, labels: [&[Label]; 3]| factor.ordered(&labels.concat());
        let labels = [&shared[..], &rows, &columns].concat();
        let x = of(&a, [&shared, &rows, &over])?;
        let y = of(&b, [&shared, &over, &columns])?;
        if over.is_empty() {
            let x = reshape(&x, [x.shape(), &vec![1; columns.len()]].concat())?;
            let (batch, own) = y.shape().split_at(shared.len());
            let y = reshape(&y, [batch, &vec![1; rows.len()], own].concat())?;
            return Ok(Factor { x: mul(&x, &y)?, labels });
        }
        let batch = sizes(&shared);
        let count = |labels: &[Label]| numel("einsum", &sizes(labels));
        let (n, m, k, l) = (count(&shared)?, count(&rows)?, count(&over)?, count(&columns)?);
        let x =
            reshape(&expand(&x, &[&batch[..], &x.shape()[batch.len()..]].concat())?, [n, m, k])?;
        let y =
            reshape(&expand(&y, &[&batch[..], &y.shape()[batch.len()..]].concat())?, [n, k, l])?;
        let x = reshape(&bmm(&x, &y)?, sizes(&labels))?;
        Ok(Factor { x, labels })
    }
}

fn invalid(equation: &str, message: &str) -> Error {
    Error::invalid("einsum", format!("{equation:?}: {message}"))
}
