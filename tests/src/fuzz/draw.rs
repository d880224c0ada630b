//! The source of a case's choices.

use samebits::DType;
use samebits::ops::Cast;
use samebits::rng::Pcg64;
use samebits::rng::numpy::Generator;
use samebits::tensor_core::{Tensor as Value, dispatch};

/// The choices of one case.
#[derive(Clone, Debug)]
pub struct Draw {
    words: Generator<Pcg64>,
    /// One choice in this many is hostile; 0 means none.
    hostility: usize,
    /// The number of elements of a tensor that is expanded beyond memory.
    expansion: usize,
}

/// The maximum number of elements of a tensor to compute with.
const MOST_ELEMENTS: usize = 2000;

/// A number of elements that, at eight bytes each, fills [`MEMORY_LIMIT`](super::MEMORY_LIMIT), so
/// that an operation cannot copy them.
const NOT_COPIED: usize = 1 << 29;

/// Slightly more than the 2^20 elements from which on a reduction walks repeated elements without a
/// copy. In a norm each takes two powers, which are microseconds on a loaded machine.
const WALKED: usize = 5 << 18;

/// Sizes beyond memory, and the limits of integers.
const HUGE: [usize; 10] = [
    1 << 33,
    (1 << 33) + 1,
    1 << 40,
    1 << 60,
    1 << 62,
    isize::MAX as usize,
    isize::MAX as usize + 1,
    usize::MAX / 2 - 1,
    usize::MAX - 1,
    usize::MAX,
];

/// Numbers at which arithmetic changes its behaviour.
const SPECIAL: [f64; 18] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    -5e-324,
    1e-40,
    3.4e38,
    -3.4e38,
    1e19,
    -1e19,
];

impl Draw {
    /// Creates the choices of this case.
    pub fn new(seed: u64, target: &str, case: u64) -> Draw {
        // FNV-1a: adding a target must not change another target's cases.
        let stream = target.bytes().fold(0xcbf29ce484222325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3)
        });
        let bits = Pcg64::with_parts(seed.into(), stream.into()).fold_in(case);
        let mut draw = Draw { words: Generator::new(bits), hostility: 0, expansion: NOT_COPIED };
        draw.hostility = draw.pick(&[0, 0, 5, 20]);
        draw
    }

    /// Returns 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.words.next_u64()
    }

    /// Returns a number below `n`, which must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    /// Returns a number in `from..=to`.
    pub fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from + 1)
    }

    /// Returns true once in `n` times.
    pub fn chance(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of these.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Returns whether the next choice is hostile.
    pub fn hostile(&mut self) -> bool {
        self.hostility > 0 && self.chance(self.hostility)
    }

    /// Returns `valid`, or a number that does not belong there.
    pub fn count(&mut self, valid: usize) -> usize {
        if !self.hostile() {
            return valid;
        }
        match self.below(4) {
            0 => self.pick(&HUGE),
            1 => valid.wrapping_add(1),
            2 => valid.wrapping_sub(1),
            _ => self.below(4),
        }
    }

    /// Returns [`count`](Draw::count) of each of these, and sometimes another number of them.
    pub fn counts(&mut self, valid: &[usize]) -> Vec<usize> {
        let mut counts: Vec<usize> = valid.iter().map(|&n| self.count(n)).collect();
        if self.hostile() {
            match self.below(3) {
                0 => counts.clear(),
                1 => drop(counts.pop()),
                _ => counts.push(1),
            }
        }
        counts
    }

    /// Returns `valid`, or an integer that does not belong there.
    pub fn int(&mut self, valid: i64) -> i64 {
        if !self.hostile() {
            return valid;
        }
        let huge = self.pick(&HUGE) as i64;
        self.pick(&[0, 1, -1, -2, i64::MIN, i64::MIN + 1, i64::MAX, huge, -valid, valid + 1])
    }

    /// Returns `valid`, or a number that does not belong there.
    pub fn real(&mut self, valid: f64) -> f64 {
        if self.hostile() { self.pick(&SPECIAL) } else { valid }
    }

    /// Returns true or false.
    pub fn flag(&mut self) -> bool {
        self.chance(2)
    }

    /// Returns a dimension of a tensor of this rank.
    pub fn dim(&mut self, rank: usize) -> usize {
        let valid = self.below(rank.max(1));
        self.count(valid)
    }

    /// Returns some distinct dimensions of a tensor of this rank, possibly none.
    pub fn dims(&mut self, rank: usize) -> Vec<usize> {
        let dims: Vec<usize> = (0..rank).filter(|_| self.flag()).collect();
        self.counts(&dims)
    }

    /// Returns a small size: sometimes 0 or 1, sometimes longer than a vector register.
    pub fn size(&mut self) -> usize {
        match self.below(14) {
            0 => 0,
            1 | 2 => 1,
            3 => self.between(13, 70),
            _ => self.between(2, 9),
        }
    }

    /// Returns a shape with `rank` dimensions and few elements.
    pub fn shape(&mut self, rank: usize) -> Vec<usize> {
        let mut shape: Vec<usize> = (0..rank).map(|_| self.size()).collect();
        while shape.iter().product::<usize>() > MOST_ELEMENTS {
            let largest = (0..rank).max_by_key(|&dim| shape[dim]).expect("more than one element");
            shape[largest] /= 2;
        }
        shape
    }

    /// Returns a shape of 0 to 5 dimensions.
    pub fn any_shape(&mut self) -> Vec<usize> {
        let rank = self.below(6);
        self.shape(rank)
    }

    /// Returns a shape that broadcasts to `shape`.
    pub fn broadcastable(&mut self, shape: &[usize]) -> Vec<usize> {
        let from = if self.chance(3) { self.below(shape.len() + 1) } else { 0 };
        shape[from..].iter().map(|&size| if self.chance(5) { 1 } else { size }).collect()
    }

    /// Returns a floating-point type.
    pub fn float(&mut self) -> DType {
        self.pick(&[DType::F32, DType::F64])
    }

    /// Returns a numeric type.
    pub fn number(&mut self) -> DType {
        self.pick(&[DType::F32, DType::F64, DType::I64])
    }

    /// Returns any type.
    pub fn any_type(&mut self) -> DType {
        self.pick(&DType::ALL)
    }

    /// Returns a tensor of this shape and type with values of every kind, in any layout.
    pub fn tensor(&mut self, shape: &[usize], dtype: DType) -> Value {
        let range = 100;
        self.tensor_below(shape, dtype, range)
    }

    /// Returns indices below `bound`, with a few that are not.
    pub fn indices(&mut self, shape: &[usize], bound: usize) -> Value {
        self.tensor_below(shape, DType::I64, bound)
    }

    /// Returns a tensor; if its type is an integer, the numbers are below `bound`.
    fn tensor_below(&mut self, shape: &[usize], dtype: DType, bound: usize) -> Value {
        let (mut shape, mut dtype) = (shape.to_vec(), dtype);
        if self.hostile() {
            match self.below(4) {
                0 => dtype = self.any_type(),
                1 => shape = self.any_shape(),
                2 => return self.expanded(&shape, dtype),
                _ => {
                    if let Some(last) = shape.last_mut() {
                        *last += 1;
                    }
                }
            }
        }
        self.laid_out(&shape, dtype, bound)
    }

    /// Limits expanded tensors, from here on, to as many elements as can be visited one by one.
    pub fn expand_less(&mut self) {
        self.expansion = WALKED;
    }

    /// Returns a tensor that repeats its elements along a dimension of this shape.
    fn expanded(&mut self, shape: &[usize], dtype: DType) -> Value {
        let mut shape = shape.to_vec();
        if shape.is_empty() {
            shape.push(1);
        }
        let dim = self.below(shape.len());
        let mut stored = shape.clone();
        stored[dim] = 1;
        shape[dim] = self.expansion / stored.iter().product::<usize>().max(1);
        let stored = self.dense(&stored, dtype, 3);
        stored.expand(&shape).unwrap_or(stored)
    }

    /// Returns a tensor of exactly this shape and type in one of many layouts.
    fn laid_out(&mut self, shape: &[usize], dtype: DType, bound: usize) -> Value {
        let rank = shape.len();
        let valid = "a valid view";
        match self.below(if rank == 0 { 1 } else { 5 }) {
            // Its dimensions in another order.
            1 => {
                let mut order: Vec<usize> = (0..rank).collect();
                for last in (1..rank).rev() {
                    order.swap(last, self.below(last + 1));
                }
                let mut stored = vec![0; rank];
                for (dim, &place) in order.iter().enumerate() {
                    stored[place] = shape[dim];
                }
                self.dense(&stored, dtype, bound).permute(&order).expect(valid)
            }
            // A part of a larger tensor.
            2 => {
                let (dim, before) = (self.below(rank), self.between(0, 2));
                let mut stored = shape.to_vec();
                stored[dim] += before + self.between(0, 2);
                let whole = self.dense(&stored, dtype, bound);
                whole.narrow(dim, before, shape[dim]).expect(valid)
            }
            // Every second slice of a larger tensor.
            3 => {
                let dim = self.below(rank);
                let mut stored = shape.to_vec();
                stored[dim] *= 2;
                self.dense(&stored, dtype, bound).stepped(dim, 0, 2).expect(valid)
            }
            // The same along some dimension.
            4 => {
                let mut stored = shape.to_vec();
                stored[self.below(rank)] = 1;
                self.dense(&stored, dtype, bound).expand(shape).expect(valid)
            }
            _ => self.dense(shape, dtype, bound),
        }
    }

    fn dense(&mut self, shape: &[usize], dtype: DType, bound: usize) -> Value {
        let count: usize = shape.iter().product();
        if count > 8 * MOST_ELEMENTS {
            let one = self.dense(&vec![1; shape.len()], dtype, bound);
            return one.expand(shape).expect("ones expand to any size");
        }
        let tensor = match dtype {
            DType::F32 => {
                let values: Vec<f32> = self.reals(count).iter().map(|&x| x as f32).collect();
                Value::from_slice(&values, shape)
            }
            DType::F64 => Value::from_slice(&self.reals(count), shape),
            DType::I64 => Value::from_slice(&self.integers(count, bound), shape),
            DType::U8 => {
                let values: Vec<u8> = (0..count).map(|_| self.word() as u8).collect();
                Value::from_slice(&values, shape)
            }
            DType::Bool => {
                let values: Vec<bool> = (0..count).map(|_| self.flag()).collect();
                Value::from_bools(&values, shape)
            }
            _ => {
                let wide = if dtype.is_float() { DType::F64 } else { DType::I64 };
                let x = self.dense(shape, wide, bound);
                dispatch(&Cast { x, to: dtype })
            }
        };
        tensor.expect("as many values as the shape says")
    }

    /// Returns ordinary numbers, small integers with many ties, or numbers of every kind.
    fn reals(&mut self, count: usize) -> Vec<f64> {
        let kind = self.below(4);
        let ordinary = |draw: &mut Draw| (draw.word() >> 11) as f64 / (1u64 << 51) as f64 - 2.0;
        (0..count)
            .map(|_| match kind {
                0 => self.below(5) as f64 - 2.0,
                1 if self.chance(6) => self.pick(&SPECIAL),
                // Any exponent.
                2 => f64::from(f32::from_bits(self.word() as u32)),
                _ => ordinary(self),
            })
            .collect()
    }

    fn integers(&mut self, count: usize, bound: usize) -> Vec<i64> {
        let mut values: Vec<i64> = (0..count).map(|_| self.below(bound.max(1)) as i64).collect();
        if count > 0 && self.hostile() {
            let (at, valid) = (self.below(count), bound as i64);
            values[at] = self.pick(&[-1, valid, valid.wrapping_neg(), i64::MIN, i64::MAX]);
        }
        values
    }
}
