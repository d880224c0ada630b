//! Half precision: each function has the bits of f32 on its exact arguments, rounded once; and so has
//! each gradient.

use samebits::functional as f;
use samebits::nn::{
    self, BatchNorm1d, Conv2d, Dropout, Gpt, LSTM, Layer, LayerNorm, Linear, MaxPool2d, Module,
    RMSNorm,
};
use samebits::optim::{AdamW, GradScaler, Optimizer};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor, autocast, autocast_dtype, backward, bf16, f16};
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
    let pairs: Vec<(&Tensor, Tensor)> = pairs
        .map(|(y, seed)| match y.dtype() == half {
            true => (y, seed.clone()),
            false => (y, widened(seed, half)),
        })
        .collect();
    let grads = if pairs.is_empty() { Default::default() } else { backward(&pairs, false)? };
    Ok((results, x.iter().map(|x| grads.of(x).cloned()).collect()))
}

/// Returns the positions at which halves differ from rounded results of f32.
fn differences(sample: &Sample, gradient: &Gradient, half: DType) -> Vec<String> {
    let name = format!("{} {half}", sample.name);
    let inputs = gradient.inputs.iter().enumerate();
    let made = inputs.map(|(i, input)| {
        let x = rounded(&Value::into(input.make(Make::HOST, DType::F32, i)), half);
        input.prepared(&x)
    });
    let x: Vec<Tensor> = match made.collect::<Result<_>>() {
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
