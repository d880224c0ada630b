//! Cases, and the numbers that they are drawn with.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The largest number of elements of a drawn tensor.
pub(crate) const MOST: usize = 1 << 25;

/// One call of an operation, or one step of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Case {
    /// Its number in the list of its seed.
    pub(crate) id: u64,
    pub(crate) family: &'static str,
    pub(crate) op: String,
    /// `f32` or `f64`.
    pub(crate) dtype: &'static str,
    /// The backward pass is timed too.
    pub(crate) both: bool,
    pub(crate) inputs: Vec<Input>,
    pub(crate) params: Map<String, Value>,
    /// Multiplications with an addition that both passes cannot do without; 0 if memory limits.
    pub(crate) fmas: f64,
}

/// A tensor: a dense one of `shape`, then each view of it in turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Input {
    pub(crate) shape: Vec<usize>,
    pub(crate) views: Vec<View>,
    pub(crate) fill: Fill,
    /// Has a gradient if the backward pass is timed.
    pub(crate) grad: bool,
}

/// A view of a tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum View {
    Permute(Vec<usize>),
    /// Dimension, start, length.
    Narrow(usize, usize, usize),
    Expand(Vec<usize>),
}

/// The kind of the values of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fill {
    Normal,
    /// Between 0 and 1.
    Unit,
    /// Between 0.5 and 1.5.
    Positive,
    /// Booleans.
    Mask,
    /// Integers below a number, each as likely as another.
    Uniform(usize),
    /// Integers below a number, of which the low ones are far more likely.
    Skewed(usize),
}

impl Case {
    /// Returns a forward case without parameters.
    pub(crate) fn new(op: &str, inputs: Vec<Input>) -> Case {
        Case {
            id: 0,
            family: "",
            op: op.to_owned(),
            dtype: "f32",
            both: false,
            inputs,
            params: Map::new(),
            fmas: 0.0,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Case {
        self.params.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn fmas(self, fmas: f64) -> Case {
        Case { fmas, ..self }
    }

    /// One line for people.
    pub(crate) fn title(&self) -> String {
        let mut title = format!("{} {}", self.op, self.dtype);
        if self.both {
            title.push_str(" both");
        }
        for input in &self.inputs {
            let shape: Vec<String> = input.shape.iter().map(usize::to_string).collect();
            title.push_str(&format!(" [{}]", shape.join(" ")));
            for view in &input.views {
                title.push_str(&match view {
                    View::Permute(order) => format!(".permute{order:?}"),
                    View::Narrow(dim, start, length) => {
                        format!(".narrow({dim}, {start}, {length})")
                    }
                    View::Expand(shape) => format!(".expand{shape:?}"),
                });
            }
            match input.fill {
                Fill::Uniform(high) => title.push_str(&format!(" < {high}")),
                Fill::Skewed(high) => title.push_str(&format!(" < {high} skewed")),
                _ => {}
            }
        }
        for (name, value) in &self.params {
            title.push_str(&format!(" {name}={value}"));
        }
        title.replace(", ", ",")
    }
}

impl Input {
    pub(crate) fn dense(shape: &[usize]) -> Input {
        Input { shape: shape.to_vec(), views: Vec::new(), fill: Fill::Normal, grad: true }
    }

    pub(crate) fn fill(self, fill: Fill) -> Input {
        let grad = self.grad && !matches!(fill, Fill::Mask | Fill::Uniform(_) | Fill::Skewed(_));
        Input { fill, grad, ..self }
    }

    /// Returns a tensor that has no gradient.
    pub(crate) fn constant(self) -> Input {
        Input { grad: false, ..self }
    }
}

/// Random numbers that are a function of a seed and a case number: `SplitMix64`.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64, case: u64) -> Draw {
        let mut draw = Draw(seed);
        let mixed = draw.bits() ^ case.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Draw(mixed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 on, below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an integer of `low..=high`.
    pub(crate) fn int(&mut self, low: usize, high: usize) -> usize {
        low + (self.bits() % (high - low + 1) as u64) as usize
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.int(0, of.len() - 1)]
    }

    /// Returns an integer of `low..=high`, each power of two as likely as another.
    pub(crate) fn log(&mut self, low: usize, high: usize) -> usize {
        let (from, to) = (log2(low as f64), log2((high + 1) as f64));
        let drawn = exp2(from + (to - from) * self.unit()) as usize;
        let drawn = drawn.clamp(low, high);
        // Users like round numbers.
        let round = drawn.next_power_of_two();
        if self.chance(0.25) && round <= high { round } else { drawn }
    }

    /// Returns a number of elements from 10 on.
    pub(crate) fn elements(&mut self) -> usize {
        self.log(10, MOST)
    }

    /// Returns sizes of `rank` dimensions of about `elements` elements.
    pub(crate) fn shape(&mut self, rank: usize, elements: usize) -> Vec<usize> {
        let weights: Vec<f64> = (0..rank).map(|_| 0.05 + self.unit()).collect();
        let total: f64 = weights.iter().sum();
        let bits = log2(elements as f64);
        let size = |weight: &f64| (exp2(bits * weight / total) as usize).max(1);
        weights.iter().map(size).collect()
    }

    /// Returns a shape of 1 to 5 dimensions of any size.
    pub(crate) fn any_shape(&mut self) -> Vec<usize> {
        let (rank, elements) = (self.pick(&[1, 2, 2, 3, 3, 4, 4, 5]), self.elements());
        self.shape(rank, elements)
    }

    /// Returns a tensor of this shape in some layout: two thirds are dense.
    pub(crate) fn laid_out(&mut self, shape: &[usize]) -> Input {
        let dense = Input::dense(shape);
        let rank = shape.len();
        match self.int(0, 8) {
            0 | 1 if rank > 1 => {
                let order = self.order(rank);
                let mut base = vec![0; rank];
                for (&from, &size) in order.iter().zip(shape) {
                    base[from] = size;
                }
                Input { shape: base, views: vec![View::Permute(order)], ..dense }
            }
            2 if rank > 0 => {
                let dim = self.int(0, rank - 1);
                let (mut base, start) = (shape.to_vec(), self.int(0, 3));
                base[dim] += start + self.int(0, 3);
                if base.iter().product::<usize>() > MOST {
                    return dense;
                }
                Input { shape: base, views: vec![View::Narrow(dim, start, shape[dim])], ..dense }
            }
            3 if rank > 1 => {
                let mut base = shape.to_vec();
                base[self.int(0, rank - 1)] = 1;
                Input { shape: base, views: vec![View::Expand(shape.to_vec())], ..dense }
            }
            _ => dense,
        }
    }

    /// Returns the numbers below `n` in some order.
    pub(crate) fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.int(0, i));
        }
        order
    }

    /// Some of the numbers below `n`, at least one.
    pub(crate) fn some_of(&mut self, n: usize) -> Vec<usize> {
        let count = self.int(1, n);
        let mut some = self.order(n);
        some.truncate(count);
        some.sort_unstable();
        some
    }

    /// Integers below `high`, in half of the cases with few that are likely.
    pub(crate) fn indices(&mut self, shape: &[usize], high: usize) -> Input {
        let fill = if self.chance(0.5) { Fill::Uniform(high) } else { Fill::Skewed(high) };
        Input::dense(shape).fill(fill)
    }
}

fn log2(x: f64) -> f64 {
    samebits_numerics::math::f64::log2(x)
}

fn exp2(x: f64) -> f64 {
    samebits_numerics::math::f64::exp2(x)
}

/// Returns a list as JSON.
pub(crate) fn list(values: &[usize]) -> Value {
    json!(values)
}
