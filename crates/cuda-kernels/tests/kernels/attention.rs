//! Attention: scores, weights, averages and gradients in the written order.

use samebits_cuda_kernels::Variant::{self, Atomic, Deterministic};
use samebits_cuda_kernels::attention::{Call, Dropout, Upstream, attention, attention_grad};
use samebits_cuda_kernels::matmul::Matrix;
use samebits_cuda_kernels::{Buffer, Device};
use samebits_numerics::reduce::sum_by;
use samebits_numerics::{extrema, math};
use samebits_rng::Draw;
use samebits_tensor_core::geometry::AttentionSizes;

use crate::data::{Source, bits, clean, same};
use crate::device::{on_device, under_schedules, varies};

/// The sizes of a call, and the numbers of which its arguments are made.
#[derive(Clone, Copy)]
struct Form {
    sizes: AttentionSizes,
    causal: Option<usize>,
    added: bool,
    hidden: bool,
    /// The probability of dropping a weight.
    dropout: f64,
    /// If true, numbers of every magnitude, infinities and NaN.
    broken: bool,
}

/// Returns the draw of all dropout.
fn draw() -> Draw {
    Draw::new(5, 6, 7)
}

fn form([count, queries, keys, width, features]: [usize; 5], causal: Option<usize>) -> Form {
    let sizes = AttentionSizes { count, queries, keys, width, features };
    Form { sizes, causal, added: false, hidden: false, dropout: 0.0, broken: false }
}

/// The arguments of a call, dense.
struct Arguments {
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    grad: Vec<f32>,
    shared: Vec<f32>,
    added: Vec<f32>,
    hidden: Vec<u8>,
}

impl Arguments {
    fn new(form: &Form) -> Arguments {
        let AttentionSizes { count, queries, keys, width, features } = form.sizes;
        let mut source = Source::new((queries * keys + width) as u64);
        let mut numbers = |len: usize| match form.broken {
            true => {
                let mut numbers = source.plain(len);
                let broken = source.broken(len);
                for i in (0..len).filter(|i| i % 97 == 5) {
                    numbers[i] = broken[i];
                }
                numbers
            }
            false => source.plain(len).iter().map(|x| x * 3.0).collect(),
        };
        let (query, key) = (numbers(count * queries * width), numbers(count * keys * width));
        let (value, grad) = (numbers(count * keys * features), numbers(count * queries * features));
        let (shared, mut added) = (numbers(count * queries), numbers(count * queries * keys));
        let mut hidden = vec![0; count * queries * keys];
        for i in 0..hidden.len() {
            // Query 1 sees nothing.
            let none = i / keys % queries == 1;
            if source.below(4) == 0 || none {
                added[i] = f32::NEG_INFINITY;
            }
            hidden[i] = u8::from(source.below(4) == 0 || none);
        }
        Arguments { query, key, value, grad, shared, added, hidden }
    }
}

/// The results of both passes.
#[derive(Default)]
struct Results {
    out: Vec<f32>,
    largest: Vec<f32>,
    sums: Vec<f32>,
    grads: [Vec<f32>; 3],
}

/// Adds products in ascending order within blocks of 256 steps, then the blocks.
fn chain(steps: usize, factors: impl Fn(usize) -> (f32, f32)) -> f32 {
    let block = |start: usize| {
        (start..steps.min(start + 256)).fold(0.0f32, |acc, step| {
            let (a, b) = factors(step);
            a.mul_add(b, acc)
        })
    };
    let mut total = if steps == 0 { 0.0 } else { block(0) };
    for start in (256..steps).step_by(256) {
        total += block(start);
    }
    total
}

fn definition(form: &Form, x: &Arguments) -> Results {
    let AttentionSizes { count, queries, keys, width, features } = form.sizes;
    let mut all = Results::default();
    let mut kept = vec![1; count * queries * keys];
    if form.dropout > 0.0 {
        draw().dropout_mask(0, form.dropout, &mut kept).unwrap();
    }
    let scale = if form.dropout == 1.0 { 0.0 } else { (1.0 / (1.0 - form.dropout)) as f32 };
    for matrix in 0..count {
        let q = |i: usize, w: usize| x.query[(matrix * queries + i) * width + w];
        let k = |j: usize, w: usize| x.key[(matrix * keys + j) * width + w];
        let v = |j: usize, f: usize| x.value[(matrix * keys + j) * features + f];
        let g = |i: usize, f: usize| x.grad[(matrix * queries + i) * features + f];
        let drop = |pair: usize, x: f32| match kept[matrix * queries * keys + pair] {
            0 => 0.0,
            _ if form.dropout == 0.0 => x,
            _ => clean(x * scale),
        };
        let (mut weights, mut scores) = (vec![0.0; queries * keys], vec![0.0; queries * keys]);
        for i in 0..queries {
            let row = matrix * queries + i;
            let seen = form.sizes.seen(i, form.causal);
            let hidden = |j: usize| {
                j >= seen
                    || form.added && x.added[row * keys + j] == f32::NEG_INFINITY
                    || form.hidden && x.hidden[row * keys + j] != 0
            };
            let shown: Vec<f32> = (0..keys)
                .map(|j| {
                    let score = chain(width, |w| (q(i, w), k(j, w)));
                    let added = if form.added { x.added[row * keys + j] } else { -0.0 };
                    if hidden(j) { f32::NEG_INFINITY } else { score + added }
                })
                .collect();
            let largest = extrema::max(&shown).unwrap_or(f32::NEG_INFINITY);
            all.largest.push(largest);
            for j in 0..keys {
                weights[i * keys + j] = if hidden(j) { 0.0 } else { math::exp(shown[j] - largest) };
                let through = chain(features, |f| (g(i, f), v(j, f)));
                let through = drop(i * keys + j, through) - x.shared[row];
                let score = weights[i * keys + j] * through;
                scores[i * keys + j] = if hidden(j) { 0.0 } else { score };
            }
            let weights = &mut weights[i * keys..][..keys];
            let sum = sum_by(keys, |j| f64::from(weights[j])) as f32;
            let sum = if sum == 0.0 { 1.0 } else { clean(sum) };
            all.sums.push(sum);
            for (j, weight) in weights.iter_mut().enumerate() {
                *weight = drop(i * keys + j, *weight);
            }
            for f in 0..features {
                all.out.push(clean(chain(keys, |j| (weights[j], v(j, f))) / sum));
            }
        }
        let [of_query, of_key, of_value] = &mut all.grads;
        for i in 0..queries {
            let scores = &scores[i * keys..][..keys];
            of_query.extend((0..width).map(|w| clean(chain(keys, |j| (scores[j], k(j, w))))));
        }
        for j in 0..keys {
            let of = |w: usize| chain(queries, |i| (scores[i * keys + j], q(i, w)));
            of_key.extend((0..width).map(|w| clean(of(w))));
            let of = |f: usize| chain(queries, |i| (weights[i * keys + j], g(i, f)));
            of_value.extend((0..features).map(|f| clean(of(f))));
        }
    }
    all
}

/// Returns where the matrices start, of `rows` rows of `columns` elements.
fn starts(count: usize, rows: usize, columns: usize) -> Vec<usize> {
    (0..count).map(|matrix| matrix * rows * columns).collect()
}

fn computed(device: &Device, form: &Form, x: &Arguments, variant: Variant) -> Results {
    let AttentionSizes { count, queries, keys, width, features } = form.sizes;
    let draw = draw();
    let up = |numbers: &[f32]| device.upload(numbers).unwrap();
    let [query, key, value, grad, added] =
        [&x.query, &x.key, &x.value, &x.grad, &x.added].map(|numbers| up(numbers));
    let (shared, hidden) = (up(&x.shared), device.upload(&x.hidden).unwrap());
    let of_queries = [starts(count, queries, width), starts(count, queries, features)];
    let of_keys = [starts(count, keys, width), starts(count, keys, features)];
    let pairs = starts(count, queries, keys);
    fn dense<'a, T>(data: &'a Buffer<T>, row: usize, offsets: &'a [usize]) -> Matrix<'a, T> {
        Matrix { data, row, column: 1, offsets }
    }
    let call = Call {
        sizes: form.sizes,
        query: dense(&query, width, &of_queries[0]),
        key: dense(&key, width, &of_keys[0]),
        value: dense(&value, features, &of_keys[1]),
        added: form.added.then(|| dense(&added, keys, &pairs)),
        hidden: form.hidden.then(|| dense(&hidden, keys, &pairs)),
        causal: form.causal,
        dropout: (form.dropout > 0.0).then_some(Dropout { draw: &draw, p: form.dropout }),
    };
    let averages = attention(device, &call).unwrap();
    let down = |x: &Buffer<f32>, len: usize| {
        let mut numbers = device.download(x).unwrap();
        // No buffer is empty.
        numbers.truncate(len);
        numbers
    };
    let rows = count * queries;
    let lens = [rows * width, count * keys * width, count * keys * features];
    let grad = dense(&grad, features, &of_queries[1]);
    let upstream = Upstream { grad, shared: &shared, largest: &averages.largest };
    let grads = attention_grad(device, &call, upstream, variant).unwrap();
    Results {
        out: down(&averages.out, rows * features),
        largest: down(&averages.largest, rows),
        sums: down(&averages.sums, rows),
        grads: [0, 1, 2].map(|i| down(&grads[i], lens[i])),
    }
}

fn compare(device: &Device, form: Form) -> Vec<u32> {
    let arguments = Arguments::new(&form);
    let (got, expected) =
        (computed(device, &form, &arguments, Deterministic), definition(&form, &arguments));
    let what = |of: &str| {
        let Form { sizes, causal, added, hidden, dropout, broken } = form;
        format!("{of}, {sizes:?}, {causal:?}, masks {added} {hidden}, {dropout}, {broken}")
    };
    same(&what("largest"), &got.largest, &expected.largest);
    same(&what("sums"), &got.sums, &expected.sums);
    same(&what("averages"), &got.out, &expected.out);
    for (of, (got, expected)) in
        ["query", "key", "value"].iter().zip(got.grads.iter().zip(&expected.grads))
    {
        same(&what(of), got, expected);
    }
    [&got.out, &got.grads[0], &got.grads[1], &got.grads[2]].iter().flat_map(|x| bits(x)).collect()
}

#[test]
fn attention_follows_the_written_order() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for form in [
            form([2, 5, 7, 3, 4], None),
            form([1, 70, 66, 17, 65], Some(0)),
            form([1, 3, 300, 5, 2], Some(250)),
            form([1, 300, 9, 2, 5], None),
            form([1, 4, 5, 1, 0], None),
        ] {
            for kind in 0..4 {
                let (added, hidden) = (kind == 1, kind == 2);
                let small = form.sizes.queries < 70;
                if small || kind == 0 {
                    let dropout = [0.4, 0.0, 1.0, 0.2][kind];
                    let broken = kind == 3;
                    all.extend(compare(device, Form { added, hidden, dropout, broken, ..form }));
                }
            }
        }
        all
    });
}

/// The sum of more than 4096 weights, products of more than 256 features, no keys, no queries.
#[test]
fn attention_of_extreme_sizes() {
    on_device(|device| {
        for sizes in [[1, 2, 4100, 2, 1], [1, 2, 3, 259, 260], [2, 3, 0, 4, 5], [2, 0, 3, 4, 5]] {
            compare(device, form(sizes, None));
        }
        // Both masks, and more than either excludes.
        let both = Form { added: true, hidden: true, ..form([2, 6, 40, 5, 5], Some(3)) };
        compare(device, both);
    });
}

#[test]
fn atomics_add_the_gradients_of_queries_in_any_order() {
    varies(|device| {
        let form = form([1, 5, 300, 4, 3], None);
        let arguments = Arguments::new(&form);
        let got = computed(device, &form, &arguments, Atomic);
        let expected = computed(device, &form, &arguments, Deterministic);
        same("key", &got.grads[1], &expected.grads[1]);
        same("value", &got.grads[2], &expected.grads[2]);
        for (a, b) in got.grads[0].iter().zip(&expected.grads[0]) {
            assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{a}, {b}");
        }
        bits(&got.grads[0])
    });
}

#[test]
fn matrices_that_do_not_fit_are_refused() {
    on_device(|device| {
        let data = device.upload(&[0.0f32; 12]).unwrap();
        let matrix = |offsets| Matrix { data: &data, row: 2, column: 1, offsets };
        let sizes = AttentionSizes { count: 1, queries: 3, keys: 3, width: 2, features: 2 };
        let good = matrix(&[0]);
        let call = Call {
            sizes,
            query: good,
            key: good,
            value: good,
            added: None,
            hidden: None,
            causal: None,
            dropout: None,
        };
        attention(device, &call).unwrap();
        let refused = |call: Call<'_, f32>, expected: &str| {
            let error = attention(device, &call).unwrap_err().to_string();
            assert!(error.starts_with("scaled_dot_product_attention: "), "{error}");
            assert!(error.contains(expected), "{error}");
        };
        refused(Call { key: matrix(&[7]), ..call }, "the key (3 x 2");
        refused(Call { value: matrix(&[0, 0]), ..call }, "expected 1 matrices of the value, got 2");
        refused(Call { added: Some(matrix(&[9])), ..call }, "the mask of numbers");
        let dropout = Some(Dropout { draw: &draw(), p: 1.5 });
        refused(Call { dropout, ..call }, "expected a probability in [0, 1], got 1.5");
    });
}
