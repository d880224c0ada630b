//! Attention has the bits of its written definition, a composition of public operators.

use rayon::ThreadPoolBuilder;
use samebits::functional::{self as f, AttentionOptions};
use samebits::ops::Cast;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Generator, Result, Tensor, dispatch, nn};
use samebits_numerics::simd::Level;
use workspace_tests::normal_of;

/// The arguments of one call.
struct Call {
    name: String,
    /// Query, key, value.
    inputs: [Tensor; 3],
    grad: Tensor,
    /// Numbers to add to the scores.
    added: Option<Tensor>,
    /// True for the keys that a query attends to.
    shown: Option<Tensor>,
    causal: Option<usize>,
    /// The probability of dropping a weight.
    dropout: f64,
}

impl Call {
    /// Returns the number of products of the forward pass.
    fn products(&self) -> usize {
        let [query, key, value] = self.inputs.each_ref().map(Tensor::shape);
        query[0] * query[1] * query[2] * key[2] * (query[3] + value[3])
    }
}

/// Returns the result and the gradients of query, key, value and, if it has one, the mask.
fn attention(call: &Call) -> Result<Vec<Value>> {
    let [q, k, v] = call.inputs.clone().map(|x| x.set_requires_grad(true).unwrap());
    let added = call.added.clone().map(|x| x.set_requires_grad(true).unwrap());
    let run = |added: Option<&Tensor>| -> Result<Vec<Value>> {
        let options = AttentionOptions {
            attn_mask: added.or(call.shown.as_ref()),
            causal_offset: call.causal,
            scale: Some(SCALE),
            enable_gqa: q.shape()[1] != k.shape()[1],
            dropout_p: call.dropout,
        };
        let y = nn::draw_from(&mut generator(), || {
            f::scaled_dot_product_attention_with(&q, &k, &v, &options)
        })?;
        let gradients = y.backward_from(call.grad.clone(), false)?;
        let of = [Some(&q), Some(&k), Some(&v), added.filter(|x| x.requires_grad())];
        let of = of.into_iter().flatten().map(|x| gradients.of(x).unwrap().value().clone());
        Ok([y.value().clone()].into_iter().chain(of).collect())
    };
    let found = run(added.as_ref())?;
    if let Some(added) = &call.added {
        // A mask without a gradient may take another path.
        for (found, again) in found.iter().zip(run(Some(added))?) {
            assert!(samebits::rerun::same_bits(found, &again)?, "{}: constant mask", call.name);
        }
    }
    Ok(found)
}

const SCALE: f64 = 0.37;

/// Returns the generator of all dropout, in the middle of a draw.
fn generator() -> Generator {
    let mut generator = Generator::new(7);
    generator.advance(3);
    generator
}

/// The definition of `docs/book/numerics.md`.
fn defined(call: &Call) -> Result<Vec<Value>> {
    let [q, k, v] = &call.inputs;
    let (heads, shared) = (q.shape()[1], k.shape()[1]);
    let (queries, keys) = (q.shape()[2], k.shape()[2]);
    let groups = |x: &Tensor| {
        let shape = x.shape();
        f::reshape(x, [shape[0], shared, heads / shared, shape[2], shape[3]])
    };
    let (grad, q) = (groups(&call.grad)?, groups(q)?.affine(SCALE, -0.0)?);
    let (k, v) = (f::unsqueeze(k, 2)?, f::unsqueeze(v, 2)?);
    let mask = |x: &Tensor| if x.rank() < 3 { Ok(x.clone()) } else { f::unsqueeze(x, 2) };
    let mut s = f::matmul(&q, &f::transpose(&k, -2, -1)?)?;
    let hidden: Vec<bool> = (0..queries * keys)
        .map(|at| call.causal.is_some_and(|offset| at % keys > at / keys + offset))
        .collect();
    let mut hidden = Tensor::from_bools(&hidden, &[queries, keys])?;
    if let Some(added) = &call.added {
        hidden = f::logical_or(&hidden, &mask(added)?.eq(f64::NEG_INFINITY)?)?;
        s = (s + mask(added)?)?;
    }
    if let Some(shown) = &call.shown {
        hidden = f::logical_or(&hidden, &f::logical_not(&mask(shown)?)?)?;
    }
    let s = s.masked_fill(&hidden, f64::NEG_INFINITY)?;
    let m = f::amax(&s, [-1], true)?;
    let p = (s - m)?.exp()?.masked_fill(&hidden, 0.0)?;
    let l = f::sum(&p, [-1], true)?;
    let l = l.masked_fill(&l.eq(0.0)?, 1.0)?;
    let dropout = |x: &Tensor| f::dropout_with(x, call.dropout, &mut generator());
    let dropped = dropout(&p)?;
    let o = (f::matmul(&dropped, &v)? / &l)?;
    let g = (grad / &l)?;
    let d = f::sum(&(&g * &o)?, [-1], true)?;
    let through = dropout(&f::matmul(&g, &f::transpose(&v, -2, -1)?)?)?;
    let ds = (&p * (through - d)?)?.masked_fill(&hidden, 0.0)?;
    let dq = f::matmul(&ds, &k)?.affine(SCALE, -0.0)?;
    let dk = f::matmul(&f::transpose(&ds, -2, -1)?, &q)?;
    let dv = f::matmul(&f::transpose(&dropped, -2, -1)?, &g)?;
    let over_group = |x: &Tensor, like: &Tensor| -> Result<Tensor> {
        let x = if heads == shared { x.clone() } else { f::sum(x, [2], true)? };
        f::reshape(&x, like.shape())
    };
    let mut all = vec![
        f::reshape(&o, call.grad.shape())?,
        f::reshape(&dq, call.inputs[0].shape())?,
        over_group(&dk, &call.inputs[1])?,
        over_group(&dv, &call.inputs[2])?,
    ];
    if let Some(added) = &call.added {
        all.push(match added.rank() {
            2 => f::reshape(&f::sum(&ds, [0, 1, 2, 3], false)?, added.shape())?,
            _ => f::reshape(&f::sum(&ds, [2, 3], false)?, added.shape())?,
        });
    }
    Ok(all.into_iter().map(|x| x.value().clone()).collect())
}

/// Returns normal numbers; some become `odd`.
fn numbers(shape: &[usize], dtype: DType, seed: u64, odd: &[f64]) -> Tensor {
    let x = normal_of(shape, DType::F64, seed);
    let mut x: Vec<f64> = x.to_vec().unwrap();
    let n = x.len();
    for (i, &odd) in odd.iter().enumerate() {
        x[(seed as usize * 7919 + i * 104_729) % n] = odd;
    }
    let x = Value::from_slice(&x, shape).unwrap();
    Tensor::from(dispatch(&Cast { x, to: dtype }).unwrap())
}

/// Numbers that show skipped products: their product with 0 is NaN, or a zero with a sign.
const ODD: [f64; 4] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];

fn calls(dtype: DType) -> Vec<Call> {
    // Batch, heads, heads of keys, queries, keys, width, features.
    let sizes: [[usize; 7]; _] = [
        [1, 1, 1, 1, 1, 1, 1],
        [2, 2, 2, 7, 9, 5, 4],
        [1, 4, 2, 33, 270, 16, 8],
        [1, 1, 1, 300, 531, 40, 33],
        [1, 2, 1, 70, 33, 256, 3],
        [1, 1, 1, 257, 513, 1, 1],
        [2, 3, 3, 64, 64, 32, 64],
        [1, 1, 1, 600, 600, 8, 16],
        [1, 1, 1, 3, 4200, 4, 4],
        [2, 4, 2, 1, 77, 300, 8],
        // One key.
        [5, 3, 3, 1, 1, 300, 8],
        [1, 2, 2, 300, 1, 264, 16],
        // Few keys: lanes are queries.
        [2, 3, 3, 1, 1, 96, 40],
        [2, 2, 1, 130, 1, 40, 24],
        [2, 3, 3, 14, 14, 96, 96],
        [1, 2, 2, 300, 33, 300, 40],
        [2, 2, 2, 65, 64, 8, 130],
        // Few queries: keys are packed tile by tile.
        [2, 3, 3, 5, 70, 40, 40],
        [2, 2, 2, 13, 300, 264, 72],
        [3, 2, 2, 2, 15, 64, 64],
        // Few queries: keys row by row, and rows of several matrices together.
        [20, 2, 2, 1, 41, 64, 100],
        [2, 2, 1, 3, 30, 300, 7],
        [2, 2, 2, 3, 600, 20, 3],
        // More than one strip, and more keys and values than are packed together.
        [3, 1, 1, 65, 260, 200, 20],
        // Few products: chains side by side.
        [3, 2, 2, 2, 2, 64, 300],
        [2, 2, 2, 2, 2, 300, 40],
        [2, 2, 2, 1, 3, 300, 40],
        [1, 2, 2, 258, 2, 40, 40],
    ];
    let mut calls = Vec::new();
    for (number, [n, heads, shared, queries, keys, width, features]) in
        sizes.into_iter().enumerate()
    {
        let masks = ["none", "causal", "cache", "truth", "numbers", "rows"];
        for (kind, mask) in masks.into_iter().enumerate() {
            for odd in [0, 1, 2, 3, 4] {
                if odd > 0 && (number % 3 != kind % 3 || keys > 1000) {
                    continue;
                }
                let seed = (number * 100 + kind * 10 + odd) as u64;
                let make = |shape: &[usize], which: usize| {
                    let odd = if odd == which + 1 { &ODD[..] } else { &[] };
                    let seed = 5 * seed + which as u64;
                    if number % 2 == 0 {
                        return numbers(shape, dtype, seed, odd);
                    }
                    // Heads are a view of `[n, length, heads, width]`.
                    let shape = [shape[0], shape[2], shape[1], shape[3]];
                    f::transpose(&numbers(&shape, dtype, seed, odd), 1, 2).unwrap()
                };
                let mut call = Call {
                    name: format!("{:?} {dtype} {mask} odd {odd}", sizes[number]),
                    inputs: [
                        make(&[n, heads, queries, width], 0),
                        make(&[n, shared, keys, width], 1),
                        make(&[n, shared, keys, features], 2),
                    ],
                    grad: make(&[n, heads, queries, features], 3),
                    added: None,
                    shown: None,
                    causal: None,
                    dropout: [0.0, 0.3, 0.0, 0.7, 0.0, 1.0, 0.1][(number + 3 * kind + odd) % 7],
                };
                match mask {
                    "causal" => call.causal = Some(0),
                    "cache" => call.causal = Some(keys / 2),
                    "truth" => {
                        let shown = numbers(&[queries, keys], dtype, seed + 1, &[]).gt(0.4);
                        (call.shown, call.causal) = (Some(shown.unwrap()), Some(keys / 3));
                    }
                    "numbers" => {
                        let x = numbers(&[keys], dtype, seed + 1, &[f64::NEG_INFINITY; 9]);
                        call.added = Some(f::reshape(&x, [1, keys]).unwrap());
                    }
                    "rows" => {
                        // One number for each key of each head; all keys of head 0 are hidden.
                        let x = numbers(&[n, shared, 1, keys], dtype, seed + 1, &[]);
                        let x = x.to_vec_f64();
                        let hidden = |at: usize| (at / keys).is_multiple_of(shared);
                        let x: Vec<f64> = x
                            .iter()
                            .enumerate()
                            .map(|(at, &x)| if hidden(at) { f64::NEG_INFINITY } else { x })
                            .collect();
                        let x = Value::from_slice(&x, &[n, shared, 1, keys]).unwrap();
                        let x = dispatch(&Cast { x, to: dtype }).unwrap();
                        if heads == shared {
                            call.added = Some(Tensor::from(x));
                        }
                    }
                    _ => {}
                }
                calls.push(call);
            }
        }
    }
    calls.extend(short_causal_calls(dtype));
    calls
}

/// Causal calls of few keys, of which whole vectors are hidden, with odd numbers in what is hidden.
fn short_causal_calls(dtype: DType) -> impl Iterator<Item = Call> {
    // Queries, keys, width, features, offset.
    let sizes = [
        [32, 32, 32, 32, 0],
        [64, 64, 40, 24, 0],
        [41, 64, 5, 33, 3],
        [64, 50, 300, 1, 20],
        [300, 33, 16, 16, 0],
        [20, 60, 8, 8, 0],
    ];
    let all = sizes.into_iter().flat_map(|sizes| (0..5).map(move |odd| (sizes, odd)));
    all.enumerate().map(move |(number, ([queries, keys, width, features, offset], odd))| {
        let make = |length: usize, width: usize, which: usize| {
            let odd = if odd == which + 1 { &ODD[..] } else { &[] };
            numbers(&[2, 1, length, width], dtype, (9000 + 5 * number + which) as u64, odd)
        };
        Call {
            name: format!("{queries}x{keys} {width}x{features} {dtype} from {offset}, odd {odd}"),
            inputs: [make(queries, width, 0), make(keys, width, 1), make(keys, features, 2)],
            grad: make(queries, features, 3),
            added: None,
            shown: None,
            causal: Some(offset),
            dropout: 0.0,
        }
    })
}

trait Wide {
    fn to_vec_f64(&self) -> Vec<f64>;
}

impl Wide for Tensor {
    fn to_vec_f64(&self) -> Vec<f64> {
        let x = dispatch(&Cast { x: self.value().clone(), to: DType::F64 }).unwrap();
        x.to_vec().unwrap()
    }
}

/// One function, because the SIMD level applies to the process.
#[test]
fn attention_has_the_bits_of_its_definition() {
    for dtype in [DType::F32, DType::F64] {
        let calls = calls(dtype);
        let expected: Vec<Vec<Value>> = calls.iter().map(|call| defined(call).unwrap()).collect();
        let check = |setting: &str, most: usize| {
            for (call, expected) in calls.iter().zip(&expected) {
                if call.products() > most {
                    continue;
                }
                let found = attention(call).unwrap();
                assert_eq!(found.len(), expected.len());
                let names = ["result", "query", "key", "value", "mask"];
                for ((found, expected), what) in found.iter().zip(expected).zip(names) {
                    if samebits::rerun::same_bits(found, expected).unwrap() {
                        continue;
                    }
                    let [a, b] = [found, expected].map(|x| Tensor::from(x.clone()).to_vec_f64());
                    let at = (0..a.len()).find(|&i| a[i].to_bits() != b[i].to_bits());
                    panic!(
                        "{} at {setting}: {what} differs at {at:?}: {:?} and not {:?}",
                        call.name,
                        at.map(|i| a[i]),
                        at.map(|i| b[i])
                    );
                }
            }
        };
        for threads in [1, 3, 7] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| check(&format!("{threads} threads"), usize::MAX));
        }
        test_support::at_every_level(|level| {
            // Without an instruction for fused multiply-add, large calls take seconds each.
            let most = if level == Level::Portable { 1 << 20 } else { usize::MAX };
            check(level.name(), most);
        });
    }
}

/// A hidden key's value of −0, or products that underflow, decide the sign of a zero: it is that of
/// the definition.
#[test]
fn zeros_have_the_signs_of_the_definition() {
    for dtype in [DType::F32, DType::F64] {
        let tiny = if dtype == DType::F32 { 1e-40 } else { 1e-310 };
        let constant = |shape: &[usize], of: &dyn Fn(usize) -> f64| {
            let x: Vec<f64> = (0..shape.iter().product()).map(of).collect();
            let x = Value::from_slice(&x, shape).unwrap();
            Tensor::from(dispatch(&Cast { x, to: dtype }).unwrap())
        };
        for (queries, keys) in [(5, 8), (33, 20), (40, 40), (40, 300), (300, 700)] {
            for causal in [Some(0), Some(1), None] {
                let shape = |length: usize, width: usize| [1, 1, length, width];
                // Products of the gradients of scores with keys that underflow, with one sign for each query.
                let alternate = |x: f64| move |i: usize| if i.is_multiple_of(2) { x } else { -x };
                let small = if dtype == DType::F32 { 1e-25 } else { 1e-200 };
                let small = Call {
                    name: format!("small keys {dtype} {queries}x{keys} {causal:?}"),
                    inputs: [
                        constant(&shape(queries, 1), &|_| 1.0),
                        constant(&shape(keys, 1), &alternate(small)),
                        constant(&shape(keys, 1), &alternate(1.0)),
                    ],
                    grad: constant(&shape(queries, 1), &|i| alternate(small)(i / 2)),
                    added: None,
                    shown: None,
                    causal,
                    dropout: 0.0,
                };
                // Scores of which the first are far below the largest.
                let call = Call {
                    name: format!("zeros {dtype} {queries}x{keys} {causal:?}"),
                    inputs: [
                        constant(&shape(queries, 1), &|i| if i % 3 == 0 { 30.0 } else { 1.0 }),
                        constant(&shape(keys, 1), &|j| if j % 2 == 0 { -2.0 } else { 2.0 }),
                        constant(&shape(keys, 6), &|j| match (j / 6 % 2, j % 6) {
                            // Positive where the first queries see no key.
                            (_, 4) if j / 6 >= 16 => 1.0,
                            (_, 5) if j / 6 >= 64 => 1.0,
                            (0, 0 | 4 | 5) => -tiny,
                            (_, 0 | 1 | 4 | 5) => -0.0,
                            (0, 2) => -tiny,
                            (_, 2) => tiny,
                            _ => -1.0,
                        }),
                    ],
                    grad: constant(&shape(queries, 6), &|i| match i % 6 {
                        0 => -tiny,
                        1 => -0.0,
                        2 => tiny,
                        _ => -tiny,
                    }),
                    added: None,
                    shown: None,
                    causal,
                    dropout: 0.0,
                };
                for call in [call, small] {
                    let (found, expected) = (attention(&call).unwrap(), defined(&call).unwrap());
                    for (found, expected) in found.iter().zip(&expected) {
                        let same = samebits::rerun::same_bits(found, expected).unwrap();
                        assert!(same, "{}", call.name);
                    }
                }
            }
        }
    }
}
