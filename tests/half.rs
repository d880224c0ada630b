//! Half precision: each function has the bits of f32 on its exact arguments, rounded once; and so has
//! each gradient.

use samebits::functional as f;
use samebits::nn::{
    self, BatchNorm1d, Conv2d, Dropout, Gpt, LSTM, Layer, LayerNorm, Linear, MaxPool2d, Module,
    RMSNorm,
};
use samebits::optim::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, GradScaler, Optimizer, RAdam, RmsProp, Sgd,
};
use samebits::tensor_core::Tensor as Value;
use samebits::{
    DType, Generator, Gradients, Result, Tensor, autocast, autocast_dtype, backward, bf16, f16,
};
use workspace_tests::{Gradient, Make, Sample, normal_of, samples};

const HALVES: [DType; 2] = [DType::BF16, DType::F16];

/// Samples, without their reduction, that call several functions: each of these rounds.
const COMPOSED: [&str; 10] = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "gaussian_nll_loss",
    "mul, reused",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "poisson_nll_loss of rates",
    "q and r",
    "triplet_margin_loss",
    "u, s and v",
];

/// Parts of the names of samples whose function takes no halves: there are no sparse tensors of
/// them.
const REFUSED: [&str; 3] = ["sparse_", "from_dense", "to_dense"];

/// Samples that draw numbers, others in f64 than in f32.
const DRAWN: &str = "fractional_max_pool of";

/// Rounds f32 to nearest even, by the crate `half`; other types stay.
fn rounded(x: &Tensor, half: DType) -> Tensor {
    if x.dtype() != DType::F32 {
        return x.detach();
    }
    let values: Vec<f32> = x.to_vec().unwrap();
    match half {
        DType::BF16 => {
            let halves: Vec<bf16> = values.iter().map(|&x| bf16::from_f32(x)).collect();
            Tensor::from_slice(&halves, x.shape()).unwrap()
        }
        _ => {
            let halves: Vec<f16> = values.iter().map(|&x| f16::from_f32(x)).collect();
            Tensor::from_slice(&halves, x.shape()).unwrap()
        }
    }
}

/// Returns the same numbers in f32.
fn widened(x: &Tensor, half: DType) -> Tensor {
    let values: Vec<f32> = match x.dtype() {
        dtype if dtype != half => return x.detach(),
        DType::BF16 => x.to_vec::<bf16>().unwrap().into_iter().map(f32::from).collect(),
        _ => x.to_vec::<f16>().unwrap().into_iter().map(f32::from).collect(),
    };
    Tensor::from_slice(&values, x.shape()).unwrap()
}

/// Results, and the gradients of the variables.
type Found = (Vec<Tensor>, Vec<Option<Tensor>>);

/// Computes results, and gradients under `seeds`; the first call makes the seeds.
fn computed(
    sample: &Sample,
    gradient: &Gradient,
    x: &[Tensor],
    seeds: &mut Vec<Tensor>,
    half: DType,
) -> Result<Found> {
    let variable = |(x, input): (&Tensor, &workspace_tests::Input)| {
        let wanted = x.dtype().is_float() && !input.constant;
        x.detach().set_requires_grad(wanted)
    };
    let x: Vec<Tensor> = x.iter().zip(&gradient.inputs).map(variable).collect::<Result<_>>()?;
    let results = sample.apply(&x, &(0..0))?;
    if seeds.is_empty() {
        let seed = |(i, y): (usize, &Tensor)| {
            rounded(&normal_of(y.shape(), DType::F32, 70 + i as u64).into(), half)
        };
        *seeds = results.iter().enumerate().map(seed).collect();
    }
    let pairs = results.iter().zip(seeds.iter()).filter(|(y, _)| y.requires_grad());
    let pairs: Vec<(&Tensor, Tensor)> =
        pairs.map(|(y, seed)| Ok((y, seed.to_dtype(y.dtype())?))).collect::<Result<_>>()?;
    let grads = if pairs.is_empty() { Default::default() } else { backward(&pairs, false)? };
    Ok((results, x.iter().map(|x| grads.of(x).cloned()).collect()))
}

/// Returns the arguments of a sample in half precision.
fn prepared(gradient: &Gradient, half: DType) -> Result<Vec<Tensor>> {
    let inputs = gradient.inputs.iter().enumerate();
    let made = inputs.map(|(i, input)| {
        let x = rounded(&Value::into(input.make(Make::HOST, DType::F32, i)), half);
        input.prepared(&x)
    });
    made.collect()
}

/// Returns the positions at which halves differ from rounded results of f32.
fn differences(sample: &Sample, gradient: &Gradient, half: DType) -> Vec<String> {
    let name = format!("{} {half}", sample.name);
    let x = match prepared(gradient, half) {
        Ok(x) => x,
        Err(error) => return vec![format!("{name}: preparation: {error}")],
    };
    let mut seeds = Vec::new();
    let found = match computed(sample, gradient, &x, &mut seeds, half) {
        Ok(found) => found,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let wide: Vec<Tensor> = x.iter().map(|x| widened(x, half)).collect();
    let expected = match computed(sample, gradient, &wide, &mut seeds, half) {
        Ok(expected) => expected,
        Err(error) => return vec![format!("{name}: f32: {error}")],
    };
    let differs = |what: String, found: &Tensor, expected: &Tensor| {
        let same = found.to_bytes() == rounded(expected, half).to_bytes();
        (!same).then(|| format!("{name}: {what}: {found} {expected}"))
    };
    let results = found.0.iter().zip(&expected.0).enumerate();
    let results = results.filter_map(|(i, (a, b))| differs(format!("result {i}"), a, b));
    let gradients = found.1.iter().zip(&expected.1).enumerate();
    let gradients = gradients.filter_map(|(i, pair)| match pair {
        (Some(a), Some(b)) => differs(format!("gradient {i}"), a, b),
        (None, None) => None,
        _ => Some(format!("{name}: gradient {i} is missing")),
    });
    results.chain(gradients).collect()
}

fn is_composed(sample: &Sample) -> bool {
    let name = sample.name.as_str();
    let reductions = [" None", " Mean", " Sum"];
    let without = reductions.iter().find_map(|reduction| name.strip_suffix(reduction));
    // The name may end in a shape.
    let name = name.split(" [").next().unwrap_or(name);
    COMPOSED.contains(&without.unwrap_or(name)) || name.starts_with("var_mean")
}

#[test]
fn halves_are_f32_rounded_once() {
    let samples = samples();
    let samples: Vec<&Sample> = samples.iter().flat_map(|(_, samples)| &samples.all).collect();
    let (mut different, mut count) = (Vec::new(), 0);
    for sample in samples.iter().filter(|sample| !is_composed(sample)) {
        for gradient in &sample.gradients {
            for half in HALVES {
                let found = differences(sample, gradient, half);
                if REFUSED.iter().any(|name| sample.name.contains(name)) {
                    assert!(found[0].contains("of type f32, got"), "{found:?}");
                    continue;
                }
                count += 1;
                different.extend(found);
            }
        }
    }
    assert!(different.is_empty(), "{} of {count}: {different:#?}", different.len());
    assert!(count > 1100, "only {count} samples");
}

/// The largest error of a result of f32, in half units in the last place of the largest element of
/// the result, or of 1.
const UNITS: f64 = 128.0;

/// Returns the results and gradients whose error exceeds one rounding to the half and [`UNITS`] of
/// f32. The expected ones are computed in f64 from the same halves.
fn errors(sample: &Sample, gradient: &Gradient, half: DType) -> Result<Vec<String>> {
    let x = prepared(gradient, half)?;
    let mut seeds = Vec::new();
    let found = computed(sample, gradient, &x, &mut seeds, half)?;
    let wide = |x: &Tensor| match x.dtype() == half {
        true => x.detach().to_dtype(DType::F64),
        false => Ok(x.detach()),
    };
    let x = x.iter().map(wide).collect::<Result<Vec<_>>>()?;
    let expected = computed(sample, gradient, &x, &mut seeds, half)?;
    let results = found.0.iter().zip(&expected.0).map(|(a, b)| ("result", a, b));
    let gradients = found.1.iter().zip(&expected.1);
    let gradients = gradients.filter_map(|(a, b)| Some(("gradient", a.as_ref()?, b.as_ref()?)));
    let mut errors = Vec::new();
    for (i, (what, found, expected)) in results.chain(gradients).enumerate() {
        if found.dtype() != half {
            continue;
        }
        let found: Vec<f64> = found.to_dtype(DType::F64)?.to_vec()?;
        let expected: Vec<f64> = expected.to_vec()?;
        let finite = expected.iter().filter(|x| x.is_finite());
        let largest = finite.fold(1.0f64, |largest, x| largest.max(x.abs()));
        let inside = UNITS * largest * power_of_two(-24);
        let beyond = |&(&a, &b): &(&f64, &f64)| {
            let same = a == b || (a.is_nan() && b.is_nan());
            let overflows = a.is_infinite() && half == DType::F16 && b.abs() + inside >= 65520.0;
            let near = (a - b).abs() <= half_ulp(a, half) + inside;
            !(same || overflows || near)
        };
        if let Some((a, b)) = found.iter().zip(&expected).find(beyond) {
            errors.push(format!("{} {half}: {what} {i}: {a:e} for {b:e}", sample.name));
        }
    }
    Ok(errors)
}

/// Returns half the distance between neighbouring halves at `x`.
fn half_ulp(x: f64, half: DType) -> f64 {
    let (digits, least) = if half == DType::BF16 { (8, -133) } else { (11, -24) };
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    0.5 * power_of_two((exponent - digits + 1).max(least))
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Every differentiable operation. `conformance.rs` compares many of them with figures of PyTorch.
#[test]
fn halves_are_within_their_bound_of_f64() {
    let samples = samples();
    let samples = samples.iter().flat_map(|(_, samples)| &samples.all);
    let (mut beyond, mut count) = (Vec::new(), 0);
    for sample in samples.filter(|sample| !is_composed(sample)) {
        if REFUSED.iter().chain([&DRAWN]).any(|name| sample.name.contains(name)) {
            continue;
        }
        for gradient in &sample.gradients {
            for half in HALVES {
                count += 1;
                match errors(sample, gradient, half) {
                    Ok(errors) => beyond.extend(errors),
                    Err(error) => beyond.push(format!("{} {half}: {error}", sample.name)),
                }
            }
        }
    }
    assert!(beyond.is_empty(), "{} of {count}: {beyond:#?}", beyond.len());
    assert!(count > 1100, "only {count} samples");
}

type Function = fn(&Tensor) -> Result<Tensor>;

/// Every half, subnormals, infinities and NaN with any payload among them.
#[test]
fn functions_of_one_element_are_right_for_every_half() {
    let functions: [(&str, Function); 10] = [
        ("neg", f::neg),
        ("square", f::square),
        ("exp", f::exp),
        ("log", f::log),
        ("tanh", f::tanh),
        ("sqrt", f::sqrt),
        ("reciprocal", f::reciprocal),
        ("gelu", f::gelu),
        ("silu", f::silu),
        ("affine", |x| f::affine(x, 3.1, 1e-6)),
    ];
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    for half in HALVES {
        let x = match half {
            DType::BF16 => {
                let all: Vec<bf16> = bits.iter().map(|&bits| bf16::from_bits(bits)).collect();
                Tensor::from_slice(&all, &[all.len()]).unwrap()
            }
            _ => {
                let all: Vec<f16> = bits.iter().map(|&bits| f16::from_bits(bits)).collect();
                Tensor::from_slice(&all, &[all.len()]).unwrap()
            }
        };
        for (name, function) in functions {
            let found = function(&x).unwrap();
            let expected = rounded(&function(&widened(&x, half)).unwrap(), half);
            let [a, b] = [&found, &expected].map(|y| y.to_bytes().unwrap());
            let differs = |i: &usize| a[2 * i..2 * i + 2] != b[2 * i..2 * i + 2];
            let different: Vec<usize> = (0..bits.len()).filter(differs).collect();
            // Moving keeps the bits of a NaN; computing makes it canonical.
            let nan = |&i: &usize| x.i(i as i64).unwrap().isnan().unwrap().to_bools().unwrap()[0];
            let different: Vec<usize> = different.into_iter().filter(|i| !nan(i)).collect();
            assert!(different.is_empty(), "{name} {half}: {different:?}");
        }
    }
}

#[test]
fn halves_and_other_floats_do_not_mix() {
    let halves = Tensor::ones(&[2], DType::BF16).unwrap();
    for other in [DType::F16, DType::F32, DType::F64] {
        let other = Tensor::ones(&[2], other).unwrap();
        for error in [f::add(&halves, &other).unwrap_err(), f::mul(&other, &halves).unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains("of type") && text.contains("bf16"), "{text}");
        }
    }
}

/// A variable that is used several times: its gradients are added one by one, each sum rounded.
#[test]
fn gradients_of_a_reused_variable_are_sums_of_halves() {
    for half in HALVES {
        let x = rounded(&normal_of(&[64], DType::F32, 1).into(), half);
        let x = x.set_requires_grad(true).unwrap();
        let y = x.square().unwrap().add(&x.exp().unwrap()).unwrap();
        let found = y.sum(()).unwrap().backward().unwrap().of(&x).unwrap().clone();
        let wide = widened(&x, half);
        let square = rounded(&wide.affine(2.0, 0.0).unwrap(), half);
        let exp = rounded(&wide.exp().unwrap(), half);
        let sum = widened(&exp, half).add(&widened(&square, half)).unwrap();
        assert_eq!(found.to_bytes(), rounded(&sum, half).to_bytes(), "{half}");
    }
}

type LayerAndShape = (Box<dyn Layer>, Vec<usize>);

/// Returns layers, and the shape of their input.
fn layers() -> Result<Vec<LayerAndShape>> {
    Ok(vec![
        (Box::new(Linear::new(6, 5)?), vec![4, 6]),
        (Box::new(Conv2d::new(3, 4, 3)?), vec![2, 3, 6, 7]),
        (Box::new(BatchNorm1d::new(6)?), vec![5, 6]),
        (Box::new(LayerNorm::new(6)?), vec![4, 6]),
        (Box::new(RMSNorm::new(6)?), vec![4, 6]),
        (
            Box::new(nn::Sequential::new().append(MaxPool2d::new(2)).append(Dropout::new(0.3))),
            vec![1, 2, 6, 6],
        ),
    ])
}

/// Results, gradients and running statistics of all layers, as bytes.
fn trained(half: DType) -> Result<Vec<Vec<u8>>> {
    samebits::manual_seed(3);
    let mut found = Vec::new();
    for (mut layer, shape) in layers()? {
        layer.to_dtype(half)?;
        let x = rounded(&normal_of(&shape, DType::F32, 4).into(), half).set_requires_grad(true)?;
        let y = nn::train(|| layer.forward(&x))?;
        assert_eq!(y.dtype(), half);
        let grads = y.square()?.sum(())?.backward()?;
        found.push(y.to_bytes()?);
        for variable in layer.parameters().iter().chain([&x]) {
            let grad = grads.of(variable).expect("a gradient");
            assert_eq!(grad.dtype(), half);
            found.push(grad.to_bytes()?);
        }
        for (_, state) in layer.state_dict() {
            assert!(state.dtype() == half || !state.dtype().is_float());
            found.push(state.to_bytes()?);
        }
    }
    let mut model = Gpt::options(31, 16, 4, 2).context(8).init()?;
    model.to_dtype(half)?;
    let logits = model.forward(&Tensor::new([[3i64, 1, 4, 1, 5]])?)?;
    let targets = Tensor::new([1i64, 4, 1, 5, 9])?;
    let loss = f::cross_entropy(&logits.flatten(0, 1)?, &targets)?;
    assert_eq!(loss.dtype(), half);
    let grads = loss.backward()?;
    found.push(loss.to_bytes()?);
    found.extend(model.parameters().iter().map(|x| grads.of(x).unwrap().to_bytes().unwrap()));
    let mut lstm = LSTM::options(5, 4).num_layers(2).init()?;
    lstm.to_dtype(half)?;
    let x = rounded(&normal_of(&[6, 2, 5], DType::F32, 4).into(), half);
    let (y, _) = lstm.forward(&x, None)?;
    let grads = y.square()?.sum(())?.backward()?;
    found.push(y.to_bytes()?);
    found.extend(lstm.parameters().iter().map(|x| grads.of(x).unwrap().to_bytes().unwrap()));
    Ok(found)
}

#[test]
fn models_compute_in_half_precision_with_the_same_bits_on_any_threads() {
    for half in HALVES {
        let [one, three] = [1, 3].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| trained(half)).unwrap()
        });
        assert_eq!(one, three, "{half}");
    }
}

#[test]
fn autocast_rounds_what_products_take_and_leaves_sums_in_f32() {
    let x: Tensor = normal_of(&[5, 7], DType::F32, 1).into();
    let weight: Tensor = normal_of(&[3, 7], DType::F32, 2).into();
    let bias: Tensor = normal_of(&[3], DType::F32, 3).into();
    for half in HALVES {
        let [a, b, c] = [&x, &weight, &bias].map(|x| widened(&rounded(x, half), half));
        let expected = rounded(&f::linear(&a, &b, Some(&c)).unwrap(), half);
        let bits = |x: &Tensor| (x.dtype(), x.to_bytes().unwrap());
        let covariance = f::cov(&x, 1, None, None).unwrap();
        let product = f::dot(&bias, &bias).unwrap();
        autocast(half, || {
            let y = f::linear(&x, &weight, Some(&bias)).unwrap();
            assert_eq!(bits(&y), bits(&expected));
            // Mixed arguments: f32. Exponentials, sums and losses: f32.
            let wide = widened(&y, half);
            let mixed = f::add(&y, &bias).unwrap();
            assert_eq!(bits(&mixed), bits(&f::add(&wide, &bias).unwrap()));
            assert_eq!(bits(&f::exp(&y).unwrap()), bits(&f::exp(&wide).unwrap()));
            assert_eq!(bits(&f::softmax(&y, 1).unwrap()), bits(&f::softmax(&wide, 1).unwrap()));
            let joined = f::cat(&[&y, &y.to_dtype(DType::F32).unwrap()], 0).unwrap();
            assert_eq!(joined.dtype(), DType::F32);
            // All others: the type of the arguments.
            assert_eq!(f::relu(&y).unwrap().dtype(), half);
            assert_eq!(f::relu(&x).unwrap().dtype(), DType::F32);
            let double = x.to_dtype(DType::F64).unwrap();
            assert_eq!(f::matmul(&double, &double.t().unwrap()).unwrap().dtype(), DType::F64);
            // Nothing is rounded inside a function, nor is an f64 that stands among other types.
            assert_eq!(bits(&f::cov(&x, 1, None, None).unwrap()), bits(&covariance));
            assert_eq!(bits(&f::dot(&bias, &bias).unwrap()), bits(&product));
            let [wide_weight, low_bias] =
                [(&weight, DType::F64), (&bias, half)].map(|(x, dtype)| x.to_dtype(dtype).unwrap());
            let refused = f::linear(&x, &wide_weight, Some(&low_bias));
            assert!(refused.is_err(), "{refused:?}");
            // Off inside.
            let plain = autocast(DType::F32, || f::linear(&x, &weight, Some(&bias)).unwrap());
            let outside = autocast_dtype();
            assert_eq!((plain.unwrap().dtype(), outside), (DType::F32, Some(half)));
        })
        .unwrap();
        assert_eq!(autocast_dtype(), None);
    }
    let error = autocast(DType::F64, || ()).unwrap_err().to_string();
    assert_eq!(error, "autocast: expected the type of mixed precision of type bf16, got f64");
}

/// The losses of a training, and the weights at its end.
fn classifier(half: Option<DType>, checkpointed: bool) -> (Vec<f32>, Vec<Vec<u8>>) {
    samebits::manual_seed(1);
    let block = nn::Sequential::new()
        .append(Linear::new(8, 32).unwrap())
        .append(nn::GELU::default())
        .append(LayerNorm::new(32).unwrap())
        .append(Linear::new(32, 3).unwrap());
    let mut model = nn::Sequential::new();
    model = match checkpointed {
        true => model.append(nn::Checkpoint(block)),
        false => model.append(block),
    };
    let mut optimizer = AdamW::options(0.01).init().unwrap();
    let x: Tensor = normal_of(&[96, 8], DType::F32, 5).into();
    let targets = x.narrow(1, 0, 3).unwrap().argmax(1).unwrap();
    let losses = (0..60).map(|_| {
        let loss = || {
            let logits = nn::train(|| model.forward(&x)).unwrap();
            f::cross_entropy(&logits, &targets).unwrap()
        };
        let loss = half.map_or_else(loss, |half| autocast(half, loss).unwrap());
        let grads = loss.backward().unwrap();
        assert!(model.parameters().iter().all(|w| grads.of(w).unwrap().dtype() == DType::F32));
        optimizer.step(&mut model, &grads).unwrap();
        loss.item::<f32>().unwrap()
    });
    let losses = losses.collect();
    (losses, model.parameters().iter().map(|w| w.to_bytes().unwrap()).collect())
}

#[test]
fn mixed_precision_trains_as_f32_does() {
    let (plain, _) = classifier(None, false);
    let first = plain[0];
    let last = *plain.last().unwrap();
    assert!(last < 0.3 * first, "{first} {last}");
    for half in HALVES {
        let found = classifier(Some(half), false);
        let mixed = *found.0.last().unwrap();
        assert!((mixed - last).abs() < 0.02, "{half}: {mixed} {last}");
        assert_ne!(found.0, plain, "{half}: nothing was rounded");
        assert_eq!(classifier(Some(half), true), found, "{half}: computed again");
    }
}

/// The same training with a factor that is too large at first: steps are skipped, then it is that
/// of a smaller factor.
#[test]
fn gradients_of_f16_are_scaled_and_steps_that_overflow_are_skipped() {
    let run = |mut scaler: GradScaler, steps: usize| {
        samebits::manual_seed(1);
        let mut model = Linear::new(8, 4).unwrap();
        let mut optimizer = AdamW::options(0.01).init().unwrap();
        let x: Tensor = normal_of(&[16, 8], DType::F32, 5).into();
        let mut taken = Vec::new();
        for _ in 0..steps {
            let loss = autocast(DType::F16, || model.forward(&x)?.square()?.sum(()));
            let scaled = scaler.scale(&loss.unwrap().unwrap()).unwrap();
            let gradients = scaler.unscale(&scaled.backward().unwrap()).unwrap();
            taken.push(scaler.step(&mut optimizer, &mut model, &gradients).unwrap());
        }
        let weights: Vec<_> = model.parameters().iter().map(|w| w.to_bytes().unwrap()).collect();
        (taken, weights, scaler)
    };
    let large = GradScaler::new((1u64 << 40) as f64, 2.0, 0.25, 3).unwrap();
    let (taken, weights, scaler) = run(large, 40);
    let skipped = taken.iter().take_while(|&&taken| !taken).count();
    assert!((3..20).contains(&skipped) && taken[skipped..].contains(&true), "{taken:?}");
    assert!(scaler.factor() < (1u64 << 40) as f64);
    // Resumed from its serialised state.
    let text = serde_json::to_string(&scaler).unwrap();
    assert_eq!(serde_json::from_str::<GradScaler>(&text).unwrap(), scaler);
    // Powers of two change no bit: as many steps, with a factor that never overflows.
    let count = taken.iter().filter(|&&taken| taken).count();
    let small = GradScaler::new(16.0, 2.0, 0.5, u64::MAX).unwrap();
    let (all, expected, _) = run(small, count);
    assert!(all.iter().all(|&taken| taken));
    assert_eq!(weights, expected);
    // A file may hold anything.
    for (part, other) in
        [("65536.0", "-1.0"), ("\"growth_interval\":2000", "\"growth_interval\":0")]
    {
        let text = serde_json::to_string(&GradScaler::default()).unwrap();
        assert!(text.contains(part), "{text}");
        let error = serde_json::from_str::<GradScaler>(&text.replace(part, other)).unwrap_err();
        assert!(error.to_string().starts_with("GradScaler: expected "), "{error}");
    }
    for (scale, growth, backoff, interval) in
        [(0.0, 2.0, 0.5, 1), (1.0, 1.0, 0.5, 1), (1.0, 2.0, 1.0, 1), (1.0, 2.0, 0.5, 0)]
    {
        let error = GradScaler::new(scale, growth, backoff, interval).unwrap_err().to_string();
        assert!(error.starts_with("GradScaler: expected "), "{error}");
    }
}

type MakeOptimizer = fn() -> Result<Box<dyn Optimizer>>;

const OPTIMIZERS: [MakeOptimizer; 9] = [
    || Ok(Box::new(Sgd::options(0.01).momentum(0.9).weight_decay(0.1).init()?)),
    || Ok(Box::new(Adam::options(0.01).amsgrad(true).init()?)),
    || Ok(Box::new(AdamW::options(0.01).maximize(true).init()?)),
    || Ok(Box::new(RmsProp::new(0.01)?)),
    || Ok(Box::new(RAdam::new(0.01)?)),
    || Ok(Box::new(Adamax::new(0.01)?)),
    || Ok(Box::new(Adagrad::new(0.01)?)),
    || Ok(Box::new(Adadelta::new(0.1)?)),
    || Ok(Box::new(Sgd::new(1e-5)?)),
];

/// Returns the gradients of a model's parameters, drawn in half precision, and the same of a model
/// in f32.
fn drawn(model: &Linear, wide: &Linear, half: DType, step: u64) -> [Gradients; 2] {
    let mut both = [Gradients::default(), Gradients::default()];
    for (i, (x, y)) in model.parameters().iter().zip(wide.parameters()).enumerate() {
        let grad = rounded(&normal_of(x.shape(), DType::F32, 10 * step + i as u64).into(), half);
        both[1].set(&y, Some(widened(&grad, half))).unwrap();
        both[0].set(x, Some(grad)).unwrap();
    }
    both
}

/// Steps of f32 weights in f32, of which the parameter is the rounded copy; before and after a load.
#[test]
fn half_parameters_are_rounded_from_masters() {
    for half in HALVES {
        for (number, make) in OPTIMIZERS.into_iter().enumerate() {
            let [mut model, mut wide] = [(); 2].map(|()| {
                let mut model = Linear::options(3, 2).init_with(&mut Generator::new(1)).unwrap();
                model.to_dtype(half).unwrap();
                model
            });
            wide.to_dtype(DType::F32).unwrap();
            let (mut found, mut expected) = (make().unwrap(), make().unwrap());
            for step in 0..20 {
                let [gradients, same] = drawn(&model, &wide, half, step);
                found.step(&mut model, &gradients).unwrap();
                expected.step(&mut wide, &same).unwrap();
                for (x, y) in model.parameters().iter().zip(wide.parameters()) {
                    let y = rounded(&y, half);
                    assert_eq!(x.to_bytes(), y.to_bytes(), "{half}, {number}, step {step}");
                }
                if step == 9 {
                    let state = found.state().unwrap();
                    let floats =
                        state.iter().filter(|(name, x)| name.contains('.') && x.rank() > 0);
                    assert!(floats.clone().all(|(_, x)| x.dtype() == DType::F32), "{state:?}");
                    assert!(floats.clone().any(|(name, _)| name == "weight.master"), "{state:?}");
                    found = make().unwrap();
                    found.load_state(state).unwrap();
                }
            }
            // Weights that are replaced begin anew: with no rate they stay.
            let zeros = model.named_parameters().into_iter();
            let zeros = zeros.map(|(name, x)| (name, x.zeros_like().unwrap()));
            model.load_state_dict(&zeros.collect::<Vec<_>>(), true).unwrap();
            found.set_lr(0.0);
            let [gradients, _] = drawn(&model, &wide, half, 20);
            found.step(&mut model, &gradients).unwrap();
            for x in model.parameters() {
                let x = widened(&x, half).to_vec::<f32>().unwrap();
                assert!(x.iter().all(|&x| x == 0.0), "{half}, {number}: {x:?}");
            }
        }
    }
}

/// A model in which only the norm is in f32: its state is saved in both types, and loaded again by
/// a model of the same types or of f32.
#[test]
fn a_state_of_several_types_is_saved_and_loaded() {
    let made = |seed| {
        let mut random = Generator::new(seed);
        (Linear::options(3, 4).init_with(&mut random).unwrap(), LayerNorm::new(4).unwrap())
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for half in HALVES {
        let (mut linear, norm) = made(1);
        linear.to_dtype(half).unwrap();
        let state = [linear.state_dict(), norm.state_dict()];
        let named = |(i, x): (usize, &Vec<(String, Tensor)>)| {
            x.iter().map(|(name, x)| (format!("{i}.{name}"), x.clone())).collect::<Vec<_>>()
        };
        let state: Vec<_> = state.iter().enumerate().flat_map(named).collect();
        samebits::io::save_safetensors(&path, state.iter().map(|(name, x)| (name, x))).unwrap();
        let loaded: Vec<_> = samebits::io::load_safetensors(&path).unwrap().into_iter().collect();
        for linear_type in [half, DType::F32] {
            let mut model = nn::Sequential::new();
            let (mut linear, norm) = made(2);
            linear.to_dtype(linear_type).unwrap();
            model = model.append(linear).append(norm);
            model.load_state_dict(&loaded, true).unwrap();
            for ((name, x), (_, expected)) in model.state_dict().iter().zip(&state) {
                let is_linear = name.starts_with("0.");
                assert_eq!(x.dtype(), if is_linear { linear_type } else { DType::F32 }, "{name}");
                let expected = expected.to_dtype(x.dtype()).unwrap();
                assert_eq!(x.to_bytes(), expected.to_bytes(), "{name}");
            }
        }
        // Rounding is left to the caller.
        let (mut all, _) = made(3);
        let state = all.state_dict();
        all.to_dtype(half).unwrap();
        let error = all.load_state_dict(&state, true).unwrap_err().to_string();
        assert!(error.contains(&format!("should be {half} of shape")), "{error}");
    }
}

/// A rounded random number could be 1, so floats are refused; integers are rounded once.
#[test]
fn random_numbers_in_the_form_of_halves_are_refused_or_cast() {
    samebits::manual_seed(1);
    for half in HALVES {
        let x = Tensor::zeros(&[4], half).unwrap();
        for found in [f::rand_like(&x), f::randn_like(&x)] {
            let error = found.unwrap_err().to_string();
            assert!(error.contains("_like: ") && error.contains(half.name()), "{error}");
        }
        // Above 2^24 a detour by f32 would round twice.
        let bounds = (0, 1 << 40);
        let whole = samebits::Generator::new(1);
        let found = f::randint_like_with(&x, bounds.0, bounds.1, &mut whole.clone()).unwrap();
        let numbers = f::randint_with(bounds.0, bounds.1, &[4], &mut whole.clone()).unwrap();
        assert_eq!(found.to_bytes(), numbers.to_dtype(half).unwrap().to_bytes());
    }
}
