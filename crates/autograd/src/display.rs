//! Text form of tensors, in PyTorch's layout.

use std::fmt;

use samebits_tensor_core::scalar::{Exact, Scalar};
use samebits_tensor_core::{DType, Device, Tensor as Value, with_element};

use crate::{Result, Tensor};

/// Tensors with more elements are shortened.
const WHOLE: usize = 1000;
/// The number of slices shown at each end of a shortened dimension.
const EDGE: usize = 3;
const LINE: usize = 80;
const START: &str = "tensor(";

/// Writes `tensor([[1., 2.], [3., 4.]])`, one row per line. Type and device follow if they are not
/// f32, i64 or bool on the CPU. Numbers have four decimals. If there are more than 1000 elements,
/// the first and last three of each dimension are shown.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1.0f32, 2.5], [-3.0, 4.0]])?;
/// assert_eq!(x.to_string(), "tensor([[ 1.0000,  2.5000],\n        [-3.0000,  4.0000]])");
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch/_tensor_str.py`.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match Text::of(self.value()) {
            Ok(text) => text.body(self.value()),
            Err(error) => Ok(error.to_string()),
        };
        let mut text = format!("{START}{}", text.unwrap_or_else(|error| error.to_string()));
        let mut suffixes = Vec::new();
        if self.numel() == 0 && self.rank() != 1 {
            suffixes.push(format!("size={:?}", self.shape()));
        }
        if !matches!(self.dtype(), DType::F32 | DType::I64 | DType::Bool) {
            suffixes.push(format!("dtype={}", self.dtype()));
        }
        if self.device() != Device::Cpu {
            suffixes.push(format!("device={}", self.device()));
        }
        if self.requires_grad() {
            suffixes.push("requires_grad".to_owned());
        }
        for suffix in suffixes {
            let last = text.rsplit('\n').next().map_or(0, str::len);
            let space = if last + suffix.len() + 3 > LINE { "\n       " } else { " " };
            text.push_str(&format!(",{space}{suffix}"));
        }
        write!(f, "{text})")
    }
}

/// The format of a tensor's numbers.
struct Text {
    style: Style,
    width: usize,
    shortened: bool,
}

enum Style {
    Integer,
    Truth,
    /// Whole numbers: `1.`
    Whole,
    Decimals,
    Scientific,
}

impl Text {
    fn of(x: &Value) -> Result<Text> {
        let shortened = x.numel() > WHOLE;
        let mut numbers = Vec::new();
        shown(x, shortened, &mut numbers)?;
        let style = match x.dtype() {
            DType::Bool => Style::Truth,
            dtype if dtype.is_float() => floats(&numbers),
            _ => Style::Integer,
        };
        let mut text = Text { style, width: 0, shortened };
        // Zeros and non-finite numbers do not count.
        let counted = numbers.iter().filter(|number| match number {
            Exact::Integer(_) => true,
            Exact::Float(x) => x.is_finite() && *x != 0.0,
        });
        text.width = counted.map(|number| text.number(*number).len()).max().unwrap_or(1);
        Ok(text)
    }

    fn number(&self, number: Exact) -> String {
        let x = match (&self.style, number) {
            (Style::Truth, Exact::Integer(x)) => {
                return if x == 0 { "False" } else { "True" }.to_owned();
            }
            (_, Exact::Integer(x)) => return x.to_string(),
            (_, Exact::Float(x)) => x,
        };
        if x.is_nan() {
            return "nan".to_owned();
        }
        if x.is_infinite() {
            return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
        }
        match self.style {
            Style::Whole => format!("{x:.0}."),
            Style::Scientific => scientific(x),
            _ => format!("{x:.4}"),
        }
    }

    /// Returns the nested brackets.
    fn body(&self, x: &Value) -> Result<String> {
        self.nested(x, START.len())
    }

    fn nested(&self, x: &Value, indent: usize) -> Result<String> {
        if x.rank() == 0 {
            return Ok(self.number(numbers(x)?[0]));
        }
        if x.numel() == 0 {
            return Ok("[]".to_owned());
        }
        let size = x.shape()[0];
        let split = self.shortened && size > 2 * EDGE;
        let margin = " ".repeat(indent + 1);
        if x.rank() == 1 {
            let padded = |x: Exact| format!("{:>1$}", self.number(x), self.width);
            let mut parts: Vec<String> = Vec::new();
            for (start, length) in ends(size, split) {
                if start > 0 {
                    parts.push(" ...".to_owned());
                }
                let part = x.narrow(0, start, length)?;
                parts.extend(numbers(&part)?.into_iter().map(padded));
            }
            let per_line = (LINE.saturating_sub(indent) / (self.width + 2)).max(1);
            let lines: Vec<String> = parts.chunks(per_line).map(|line| line.join(", ")).collect();
            return Ok(format!("[{}]", lines.join(&format!(",\n{margin}"))));
        }
        let mut parts = Vec::new();
        for (start, length) in ends(size, split) {
            if start > 0 {
                parts.push("...".to_owned());
            }
            for at in start..start + length {
                parts.push(self.nested(&x.select(0, at)?, indent + 1)?);
            }
        }
        let between = format!(",{}{margin}", "\n".repeat(x.rank() - 1));
        Ok(format!("[{}]", parts.join(&between)))
    }
}

/// Returns the elements of a small tensor.
fn numbers(x: &Value) -> Result<Vec<Exact>> {
    with_element!(x.dtype(), T => Ok(x.to_vec::<T>()?.into_iter().map(T::exact).collect()))
}

/// Returns the ranges of a dimension to show, as start and length.
fn ends(size: usize, split: bool) -> Vec<(usize, usize)> {
    if split { vec![(0, EDGE), (size - EDGE, EDGE)] } else { vec![(0, size)] }
}

/// Appends the elements to show.
fn shown(x: &Value, shortened: bool, found: &mut Vec<Exact>) -> Result<()> {
    let Some(&size) = x.shape().first().filter(|_| shortened) else {
        found.extend(numbers(x)?);
        return Ok(());
    };
    for (start, length) in ends(size, size > 2 * EDGE) {
        for at in start..start + length {
            shown(&x.select(0, at)?, shortened, found)?;
        }
    }
    Ok(())
}

/// Returns PyTorch's style for these floats.
fn floats(numbers: &[Exact]) -> Style {
    let sizes: Vec<f64> = numbers
        .iter()
        .filter_map(|number| match number {
            Exact::Float(x) if x.is_finite() && *x != 0.0 => Some(x.abs()),
            _ => None,
        })
        .collect();
    let (low, high) =
        sizes.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &x| (low.min(x), high.max(x)));
    let wide = !sizes.is_empty() && (high / low > 1000.0 || high > 1e8);
    match sizes.iter().all(|x| x.fract() == 0.0) {
        true if wide => Style::Scientific,
        true => Style::Whole,
        false if wide || low < 1e-4 => Style::Scientific,
        false => Style::Decimals,
    }
}

/// Formats `x` with four decimals and an exponent of at least two digits.
fn scientific(x: f64) -> String {
    let text = format!("{x:.4e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, power) = match exponent.strip_prefix('-') {
                Some(power) => ('-', power),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{power:0>2}")
        }
        None => text,
    }
}
