//! Formulas in one pass have the bits of their operations one by one, and so have their gradients.

use samebits_autograd::functional::{self as f, Reduction};
use samebits_autograd::{DType, Result, Tensor};
use samebits_rng::Generator;

/// A function of three tensors.
type Function = fn(&[Tensor; 3]) -> Result<Tensor>;

/// Returns numbers of all magnitudes; the first ones are special.
fn varied(shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    let x = f::randn_with(shape, &mut Generator::new(seed)).unwrap();
    let mut values: Vec<f64> = x.to(DType::F64).unwrap().to_vec().unwrap();
    for (i, x) in values.iter_mut().enumerate() {
        *x *= [1.0, 1e-3, 4.0, 1e-30, 60.0][(i + seed as usize) % 5];
    }
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-320, 3e38, -1e300];
    let turned = special.iter().cycle().skip(seed as usize);
    values.iter_mut().zip(turned.take(3 * special.len())).for_each(|(x, &special)| *x = special);
    Tensor::from_slice(&values, shape).unwrap().to(dtype).unwrap()
}

fn same(a: &Tensor, b: &Tensor, what: &str) {
    assert_eq!(a.shape(), b.shape(), "{what}");
    assert!(a.to_bytes().unwrap() == b.to_bytes().unwrap(), "{what}: {a}\n{b}");
}

fn times(x: &Tensor, factor: f64) -> Result<Tensor> {
    f::affine(x, factor, -0.0)
}

fn filled(x: &Tensor, value: f64) -> Result<Tensor> {
    Tensor::full(&[], value, x.dtype())
}

/// Computes Huber's loss from its definition, with its scales.
fn bowl(x: &Tensor, t: &Tensor, bound: f64, scale: f64, slope: f64) -> Result<Tensor> {
    let d = f::abs(&f::sub(x, t)?)?;
    let near = f::lt(&d, bound)?;
    let inside = f::where_(&near, &d, &filled(&d, 0.0)?)?;
    let mut line = f::affine(&d, 1.0, -0.5 * bound)?;
    if slope != 1.0 {
        line = times(&line, slope)?;
    }
    f::where_(&near, &times(&f::square(&inside)?, scale)?, &line)
}

fn lerp(start: &Tensor, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let zero = filled(start, 0.0)?;
    let equal = f::logical_and(&f::isinf(start)?, &f::eq(start, end)?)?;
    let way = f::where_(&equal, &zero, &f::sub(end, start)?)?;
    let near = f::lt(&f::abs(weight)?, 0.5)?;
    let part = f::where_(&near, weight, &f::affine(weight, 1.0, -1.0)?)?;
    let along = f::add(&f::where_(&near, start, end)?, &f::mul(&part, &way)?)?;
    let share = |weight: &Tensor, end: &Tensor| {
        f::where_(&f::eq(weight, 0.0)?, &zero, &f::mul(weight, end)?)
    };
    let mixed = f::add(&share(&f::affine(weight, -1.0, 1.0)?, start)?, &share(weight, end)?)?;
    f::where_(&f::isinf(&way)?, &mixed, &along)
}

/// Compares values; of the functions of `DIFFERENTIATED`, also gradients.
const VALUES: [(&str, Function, Function); 3] = [
    ("lerp", |[a, b, c]| f::lerp(a, b, c), |[a, b, c]| lerp(a, b, c)),
    (
        "elu",
        |[a, ..]| f::elu(a, 0.7),
        |[a, ..]| f::where_(&f::gt(a, 0.0)?, a, &times(&f::expm1(a)?, 0.7)?),
    ),
    (
        "binary_cross_entropy",
        |[a, b, _]| {
            f::binary_cross_entropy(
                &f::sigmoid(&f::nan_to_num(a, 0.0, None, None)?)?,
                b,
                None,
                Reduction::None,
            )
        },
        |[a, b, _]| {
            let x = f::sigmoid(&f::nan_to_num(a, 0.0, None, None)?)?;
            let floor = |x: Tensor| f::maximum(&x, &filled(&x, -100.0)?);
            let miss = floor(f::log1p(&f::neg(&x)?)?)?;
            let hit = floor(f::log(&x)?)?;
            f::sub(&f::mul(&f::affine(b, 1.0, -1.0)?, &miss)?, &f::mul(b, &hit)?)
        },
    ),
];

const DIFFERENTIATED: [(&str, Function, Function); 8] = [
    (
        "mse_loss",
        |[a, b, _]| f::mse_loss(a, b, Reduction::None),
        |[a, b, _]| f::square(&f::sub(a, b)?),
    ),
    ("l1_loss", |[a, b, _]| f::l1_loss(a, b, Reduction::None), |[a, b, _]| f::abs(&f::sub(a, b)?)),
    (
        "smooth_l1_loss",
        |[a, b, _]| f::smooth_l1_loss(a, b, 0.3, Reduction::None),
        |[a, b, _]| bowl(a, b, 0.3, 0.5 / 0.3, 1.0),
    ),
    (
        "smooth_l1_loss with 0",
        |[a, b, _]| f::smooth_l1_loss(a, b, 0.0, Reduction::None),
        |[a, b, _]| f::abs(&f::sub(a, b)?),
    ),
    (
        "huber_loss",
        |[a, b, _]| f::huber_loss(a, b, 1.7, Reduction::None),
        |[a, b, _]| bowl(a, b, 1.7, 0.5, 1.7),
    ),
    (
        "addcmul",
        |[a, b, c]| f::addcmul(a, b, c, 0.3),
        |[a, b, c]| f::add(a, &f::mul(&f::mul(b, &filled(b, 0.3)?)?, c)?),
    ),
    ("addcmul with 1", |[a, b, c]| f::addcmul(a, b, c, 1.0), |[a, b, c]| f::add(a, &f::mul(b, c)?)),
    (
        "addcdiv",
        |[a, b, c]| f::addcdiv(a, b, c, -2.5),
        |[a, b, c]| f::add(a, &f::div(&f::mul(b, &filled(b, -2.5)?)?, c)?),
    ),
];

/// Shapes of three inputs: more than a piece of work, small ones, empty ones, and broadcast ones.
fn shapes() -> Vec<[Vec<usize>; 3]> {
    let one = |shape: &[usize]| [shape.to_vec(), shape.to_vec(), shape.to_vec()];
    vec![one(&[40_003]), one(&[3, 17]), one(&[]), one(&[2, 0, 3])]
}

fn broadcast_shapes() -> Vec<[Vec<usize>; 3]> {
    vec![
        [vec![5, 1, 70], vec![5, 33, 70], vec![70]],
        [vec![], vec![9000, 3], vec![9000, 1]],
        [vec![4, 1], vec![1, 6], vec![]],
        [vec![7, 300], vec![7, 300], vec![1]],
        [vec![2, 3, 40], vec![40], vec![2, 1, 1]],
    ]
}

fn inputs(shapes: &[Vec<usize>; 3], dtype: DType) -> [Tensor; 3] {
    std::array::from_fn(|i| varied(&shapes[i], dtype, i as u64 + 1))
}

#[test]
fn values_are_those_of_the_steps() {
    for dtype in [DType::F32, DType::F64] {
        for (name, fused, steps) in VALUES.into_iter().chain(DIFFERENTIATED) {
            let broadcasts = name.starts_with("add") || name == "lerp";
            let more = if broadcasts { broadcast_shapes() } else { Vec::new() };
            for shapes in shapes().into_iter().chain(more) {
                let what = format!("{name} of {dtype} {shapes:?}");
                let inputs = inputs(&shapes, dtype);
                same(&fused(&inputs).unwrap(), &steps(&inputs).unwrap(), &what);
                // Views: one input repeats an element, one is transposed.
                if let [rows, columns] = shapes[0][..]
                    && broadcasts
                {
                    let [_, b, c] = &inputs;
                    let a = filled(b, 0.4).unwrap().expand(&[rows, columns]).unwrap();
                    let turned = |x: &Tensor| -> Result<_> { f::cat(&[x.t()?], 0)?.t() };
                    let inputs = [a, turned(b).unwrap(), c.clone()];
                    same(&fused(&inputs).unwrap(), &steps(&inputs).unwrap(), &what);
                }
            }
        }
    }
}

#[test]
fn gradients_are_those_of_the_steps() {
    for dtype in [DType::F32, DType::F64] {
        for (name, fused, steps) in DIFFERENTIATED {
            let more = if name.starts_with("add") { broadcast_shapes() } else { Vec::new() };
            for shapes in shapes().into_iter().chain(more) {
                let run = |function: Function, create_graph| {
                    let inputs = inputs(&shapes, dtype).map(|x| x.set_requires_grad(true).unwrap());
                    // Gradients of an input from elsewhere, before and after.
                    let before = f::sigmoid(&inputs[0]).unwrap();
                    let y = function(&inputs).unwrap();
                    let sum = f::add(&before, &f::add(&y, &f::tanh(&inputs[0]).unwrap()).unwrap());
                    let sum = sum.unwrap();
                    let grad = varied(sum.shape(), dtype, 9);
                    let gradients = sum.backward_from(grad, create_graph).unwrap();
                    inputs.map(|x| gradients.of(&x).cloned())
                };
                let expected = run(steps, false);
                for create_graph in [false, true] {
                    let what = format!("{name} of {dtype} {shapes:?}, {create_graph}");
                    for (found, expected) in run(fused, create_graph).iter().zip(&expected) {
                        match (found, expected) {
                            (Some(found), Some(expected)) => same(found, expected, &what),
                            _ => assert!(found.is_none() && expected.is_none(), "{what}"),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn integers_and_unlike_types_are_as_in_the_steps() {
    let [a, b] = [[1i64, 2], [3, 4]].map(|x| Tensor::new(x).unwrap());
    assert_eq!(f::addcmul(&a, &a, &b, 1.0).unwrap().to_vec::<i64>().unwrap(), [4, 10]);
    let x = Tensor::new([1.0f32, 2.0]).unwrap();
    let error = f::addcmul(&x, &a, &b, 1.0).unwrap_err().to_string();
    assert!(error.contains("addcmul"), "{error}");
    let error =
        f::addcmul(&x, &x, &Tensor::new([1.0f32; 3]).unwrap(), 1.0).unwrap_err().to_string();
    assert!(error.contains("addcmul") && error.contains('2') && error.contains('3'), "{error}");
}
