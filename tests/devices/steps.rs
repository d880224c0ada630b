//! Steps of optimisers, and the functions of gradients before them: the bits of the CPU, in as many launches
//! for many parameters as for one.

use samebits::functional as f;
use samebits::nn::{Kind, Layer as _, Linear, Module};
use samebits::optim::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, Optimizer, RAdam, RmsProp, Sgd, clip_grad_norm,
    clip_grad_value, first_not_finite,
};
use samebits::{DType, Device, Gradients, Result, Tensor};

use super::{CUDA, Launches, is_available};

type MakeOptimizer = Box<dyn Fn() -> Result<Box<dyn Optimizer>>>;

/// The optimisers with a kernel for all parameters, and the kernel that each launches once for each group.
#[test]
fn an_optimiser_steps_all_parameters_in_one_launch() {
    if !is_available() {
        return;
    }
    let is_bias = |_: &str, parameter: &Tensor| parameter.rank() == 1;
    let optimizers: [(&str, usize, MakeOptimizer); 4] = [
        ("adam_all_f32", 1, Box::new(|| Ok(Box::new(Adam::new(0.1)?)))),
        (
            "adam_all_f32",
            2,
            Box::new(move || {
                let options =
                    AdamW::options(0.1).group(is_bias, |options| options.weight_decay(0.0));
                Ok(Box::new(options.init()?))
            }),
        ),
        ("sgd_all_f32", 1, Box::new(|| Ok(Box::new(Sgd::new(0.1)?)))),
        ("sgd_all_f32", 1, Box::new(|| Ok(Box::new(Sgd::options(0.1).momentum(0.9).init()?)))),
    ];
    for (kernel, launches, optimizer) in &optimizers {
        let train = |device: Device| -> Result<(Vec<Vec<u8>>, Vec<String>)> {
            samebits::manual_seed(0);
            let mut model = [Linear::new(5, 40)?, Linear::new(40, 300)?, Linear::new(300, 1)?];
            model.to(device)?;
            let x = f::reshape(&Tensor::arange(15)?.to(DType::F32)?.to(device)?, [3, 5])?;
            let mut optimizer = optimizer()?;
            let mut launched = Vec::new();
            for _ in 0..3 {
                let y = model.iter().try_fold(x.clone(), |x, layer| layer.forward(&x))?;
                let loss = f::mean(&f::square(&y)?, (), false)?;
                let gradients = loss.backward()?;
                let mut stepped = Ok(());
                let seen = Launches::of(|| stepped = optimizer.step(&mut model, &gradients));
                stepped?;
                launched = std::mem::take(&mut seen.0.lock().unwrap().names);
            }
            let bytes = model.parameters().iter().map(Tensor::to_bytes).collect::<Result<_>>()?;
            Ok((bytes, launched))
        };
        let (expected, none) = train(Device::Cpu).unwrap();
        assert_eq!(none, [""; 0]);
        let (found, launched) = train(CUDA).unwrap();
        assert_eq!(launched, vec![*kernel; *launches], "launches of a step");
        assert!(found == expected, "other bits by {kernel}");
    }
}

/// A module that is only a list of parameters.
struct Bag(Vec<(String, Tensor)>);

impl Module for Bag {
    fn visit(&self, _: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        for (name, tensor) in &self.0 {
            visit(name, Kind::Parameter, tensor);
        }
    }

    fn visit_mut(&mut self, _: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        for (name, tensor) in &mut self.0 {
            visit(name, Kind::Parameter, tensor);
        }
    }
}

const SIZES: [usize; 9] = [129, 0, 7, 1, 4, 515, 128, 3, 2049];
/// Enough for `RAdam` to adapt.
const STEPS: usize = 6;

/// Returns numbers in [-1, 1), different for each seed.
fn numbers(n: usize, seed: usize) -> Vec<f64> {
    let number = |i: usize| ((i + 1) * (2 * seed + 1) * 7919 % 2003) as f64 / 1001.5 - 1.0;
    (0..n).map(number).collect()
}

/// Returns values as a tensor that begins one element into its storage.
fn view(values: &[f64], dtype: DType, device: Device) -> Result<Tensor> {
    let before: Vec<f64> = [&[f64::NAN], values].concat();
    let all = Tensor::from_slice(&before, &[before.len()])?.to_dtype(dtype)?.to(device)?;
    all.narrow(0, 1, values.len())
}

/// Returns views as parameters, `count` of them.
fn bag(count: usize, dtype: DType, device: Device) -> Result<Bag> {
    let parameter = |k: usize| {
        let values = numbers(SIZES[k % SIZES.len()], k);
        let leaf = view(&values, dtype, device)?.detach().set_requires_grad(true)?;
        Ok((format!("p{k}"), leaf))
    };
    Ok(Bag((0..count).map(parameter).collect::<Result<_>>()?))
}

/// Returns gradients of the parameters of a step, which are views; every seventh has none in the first step.
fn gradients(bag: &Bag, step: usize, skips: bool) -> Result<Gradients> {
    let mut gradients = Gradients::default();
    for (k, (_, parameter)) in bag.0.iter().enumerate() {
        if skips && step == 0 && k % 7 == 6 {
            continue;
        }
        let values = numbers(parameter.numel(), 100 * step + k + 50);
        let gradient = view(&values, parameter.dtype(), parameter.device())?;
        gradients.set(parameter, Some(gradient))?;
    }
    Ok(gradients)
}

/// Returns the bytes of all parameters and of the state after some steps, and the launches of each step.
fn trained(
    make: &MakeOptimizer,
    count: usize,
    dtype: DType,
    device: Device,
    skips: bool,
) -> Result<(Vec<Vec<u8>>, Vec<usize>)> {
    let (mut optimizer, mut bag) = (make()?, bag(count, dtype, device)?);
    let mut launches = Vec::new();
    for step in 0..STEPS {
        let gradients = gradients(&bag, step, skips)?;
        let mut stepped = Ok(());
        let seen = Launches::of(|| stepped = optimizer.step(&mut bag, &gradients));
        stepped?;
        launches.push(seen.0.lock().unwrap().names.len());
    }
    let state = optimizer.state()?;
    let all = bag.0.iter().chain(&state).map(|(_, tensor)| tensor.to_bytes());
    Ok((all.collect::<Result<_>>()?, launches))
}

fn optimizers() -> Vec<(&'static str, usize, MakeOptimizer)> {
    fn boxed<O: Optimizer + 'static>(make: impl Fn() -> Result<O> + 'static) -> MakeOptimizer {
        Box::new(move || Ok(Box::new(make()?)))
    }
    vec![
        ("sgd", 1, boxed(|| Sgd::new(0.1))),
        ("nesterov", 1, boxed(|| Sgd::options(0.1).momentum(0.9).nesterov(true).init())),
        ("adam", 1, boxed(|| Adam::new(0.1))),
        ("adam, maximising", 2, boxed(|| Adam::options(0.1).maximize(true).init())),
        ("amsgrad", 3, boxed(|| AdamW::options(0.1).amsgrad(true).init())),
        ("rmsprop", 2, boxed(|| RmsProp::new(0.01))),
        (
            "rmsprop, centred",
            4,
            boxed(|| RmsProp::options(0.01).weight_decay(0.1).momentum(0.9).centered(true).init()),
        ),
        (
            "adagrad",
            2,
            boxed(|| {
                let options = Adagrad::options(0.01).weight_decay(0.1).lr_decay(0.25);
                options.initial_accumulator_value(0.5).init()
            }),
        ),
        ("adadelta", 3, boxed(|| Adadelta::options(0.5).weight_decay(0.1).init())),
        ("adamax", 3, boxed(|| Adamax::options(0.1).weight_decay(0.1).init())),
        ("radam", 3, boxed(|| RAdam::options(0.1).weight_decay(0.1).init())),
        (
            "radam, decoupled",
            3,
            boxed(|| RAdam::options(0.1).weight_decay(0.1).decoupled_weight_decay(true).init()),
        ),
    ]
}

#[test]
fn a_step_has_as_many_launches_for_many_parameters_as_for_one() {
    if !is_available() {
        return;
    }
    for (name, launches, make) in optimizers() {
        let sizes = [(1, DType::F32), (3, DType::F32), (40, DType::F32), (3, DType::F64)];
        let halves = [(3, DType::F16), (3, DType::BF16), (40, DType::BF16)];
        for (count, dtype) in sizes.into_iter().chain(halves) {
            let (expected, _) = trained(&make, count, dtype, Device::Cpu, false).unwrap();
            let (found, launched) = trained(&make, count, dtype, CUDA, false).unwrap();
            let what = format!("{name}, {count} parameters of {dtype}");
            assert!(found == expected, "{what}: other bits");
            // Parameter and gradient to f32, and back; then also the old master, and where it is replaced.
            let casts = |step| if step == 0 { 3 } else { 6 };
            let casts = |step| if dtype.is_half() { casts(step) } else { 0 };
            let expected: Vec<usize> = (0..STEPS).map(|step| launches + casts(step)).collect();
            assert_eq!(launched, expected, "{what}: launches of each step");
        }
        // Parameters that begin later, and master weights.
        for (count, dtype) in [(15, DType::F32), (9, DType::BF16)] {
            let (expected, _) = trained(&make, count, dtype, Device::Cpu, true).unwrap();
            let (found, _) = trained(&make, count, dtype, CUDA, true).unwrap();
            assert!(found == expected, "{name}, {count} parameters of {dtype}: other bits");
        }
    }
}

/// Returns the launches of `f`.
fn launches(f: impl FnOnce()) -> Vec<String> {
    std::mem::take(&mut Launches::of(f).0.lock().unwrap().names)
}

#[test]
fn gradients_are_limited_and_added_in_one_launch() {
    if !is_available() {
        return;
    }
    let changed = |count: usize, dtype: DType, device: Device| {
        let bag = bag(count, dtype, device)?;
        let parameters = bag.parameters();
        let (mut first, second) = (gradients(&bag, 0, true)?, gradients(&bag, 1, false)?);
        let mut launched = Vec::new();
        let mut done = Ok(());
        launched.push(launches(|| done = first.accumulate(&second)));
        done.clone()?;
        launched.push(launches(|| done = clip_grad_value(&parameters, &mut first, 0.75)));
        done?;
        let bytes = parameters.iter().map(|parameter| first.of(parameter).unwrap().to_bytes());
        Ok::<_, samebits::Error>((bytes.collect::<Result<Vec<_>>>()?, launched))
    };
    for dtype in [DType::F32, DType::F64, DType::F16] {
        for count in [1, 3, 40] {
            let (expected, _) = changed(count, dtype, Device::Cpu).unwrap();
            let (found, launched) = changed(count, dtype, CUDA).unwrap();
            assert!(found == expected, "{count} gradients of {dtype}: other bits");
            if dtype != DType::F16 {
                let each: Vec<usize> = launched.iter().map(Vec::len).collect();
                assert_eq!(each, [1, 1], "{count} gradients of {dtype}: {launched:?}");
            }
        }
    }
}

#[test]
fn the_first_tensor_that_is_not_finite_is_found_in_a_launch_for_each_type() {
    if !is_available() {
        return;
    }
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16];
    let number = |k: usize, dtype: DType, bad: Option<f64>| {
        let mut values = numbers(SIZES[k % SIZES.len()], k);
        if let (Some(bad), Some(last)) = (bad, values.last_mut()) {
            *last = bad;
        }
        view(&values, dtype, CUDA).unwrap()
    };
    let search = |all: &[Tensor]| {
        let mut found = None;
        let launched = launches(|| found = Some(first_not_finite(all).unwrap()));
        (found.unwrap(), launched.len())
    };
    for dtype in dtypes {
        for count in [1, 3, 40] {
            let all: Vec<Tensor> = (0..count).map(|k| number(k, dtype, None)).collect();
            assert_eq!(search(&all), (None, 1), "{count} tensors of {dtype}");
        }
    }
    let mixed = |bad: &[(usize, f64)]| -> Vec<Tensor> {
        let of = |k: usize| bad.iter().find(|(place, _)| *place == k).map(|(_, bad)| *bad);
        (0..24).map(|k| number(k, dtypes[k % 4], of(k))).collect()
    };
    assert_eq!(search(&mixed(&[])), (None, 4));
    for place in [0, 2, 3, 5, 12, 13, 14, 15, 23] {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let all = mixed(&[(23, bad), (place, bad)]);
            assert_eq!(search(&all), (Some(place), 4), "{bad} in tensor {place}");
        }
    }
    let integers = Tensor::new([i64::MIN, -1]).unwrap().to(CUDA).unwrap();
    assert_eq!(search(&[integers]), (None, 0));
}

/// Numbers and the type in which they are a gradient.
type Numbers = (DType, Vec<f64>);

/// Returns the norm, and the gradients after clipping, of leaves with these gradients.
fn clipped(all: &[Numbers], p: f64, device: Device) -> Result<(u64, Vec<Vec<u8>>)> {
    let mut gradients = Gradients::default();
    let mut parameters = Vec::new();
    for (dtype, values) in all {
        let parameter = Tensor::zeros(&[values.len()], *dtype)?.to(device)?;
        let parameter = parameter.detach().set_requires_grad(true)?;
        gradients.set(&parameter, Some(view(values, *dtype, device)?))?;
        parameters.push(parameter);
    }
    let norm = clip_grad_norm(&parameters, &mut gradients, 0.5, p)?;
    let bytes = parameters.iter().map(|parameter| gradients.of(parameter).unwrap().to_bytes());
    Ok((norm.to_bits(), bytes.collect::<Result<_>>()?))
}

#[test]
fn clipping_by_norm_reads_no_gradient_and_has_the_bits_of_the_cpu() {
    if !is_available() {
        return;
    }
    let plain = |k: usize| numbers(SIZES[k % SIZES.len()], k);
    let many = |dtype| (0..40).map(|k| (dtype, plain(k))).collect();
    // Of exponents that are far apart, so that no two numbers hold a sum of their squares.
    let wide = |range: i64| -> Vec<f64> {
        let exponent = |i: usize| (i as i64 * 37) % (2 * range) - range + 1023;
        let scale = |i| f64::from_bits((exponent(i) as u64) << 52);
        numbers(5000, 3).iter().enumerate().map(|(i, x)| x * scale(i)).collect()
    };
    let (f32, f64, f16, bf16) = (DType::F32, DType::F64, DType::F16, DType::BF16);
    let cases: [(&str, Vec<Numbers>); 14] = [
        ("none", vec![]),
        ("empty", vec![(f32, vec![]), (f64, vec![])]),
        ("zeros", vec![(f32, vec![0.0, -0.0]), (f64, vec![-0.0])]),
        ("many of f32", many(f32)),
        ("many of f64", many(f64)),
        ("halves", vec![(f16, plain(5)), (bf16, plain(8)), (f32, plain(0))]),
        ("wide f32", vec![(f32, wide(120))]),
        ("wide f64", vec![(f64, wide(1000)), (f64, plain(5))]),
        ("huge", vec![(f64, vec![1e300, -1.7e308, 3.0]), (f32, vec![3e38, 1.0])]),
        ("huge f32", vec![(f32, vec![3.4e38; 300])]),
        ("tiny", vec![(f64, vec![5e-324, -1e-310, 0.0]), (f64, vec![2.5e-323; 130])]),
        ("tiny f32", vec![(f32, vec![1e-45, -1e-40, 0.0])]),
        ("NaN", vec![(f32, plain(0)), (f32, vec![1.0, f64::NAN]), (f64, vec![1e200])]),
        ("infinite", vec![(f32, vec![f64::NEG_INFINITY]), (f64, wide(1000))]),
    ];
    for (name, case) in &cases {
        for p in [2.0, f64::INFINITY, 1.0, 3.0, 0.5, 7.5] {
            let expected = clipped(case, p, Device::Cpu).unwrap();
            let mut found = None;
            let launched = launches(|| found = Some(clipped(case, p, CUDA).unwrap()));
            let norms = [expected.0, found.as_ref().unwrap().0].map(f64::from_bits);
            assert!(found.unwrap() == expected, "{name}, p = {p}: {norms:?}");
            let casts = launched.iter().filter(|kernel| kernel.starts_with("cast")).count();
            let halves = case.iter().any(|(dtype, _)| dtype.is_half());
            assert!(halves || casts == 0, "{name}: {launched:?}");
        }
    }
    // One for halves in f32, one for the largest, one for the sum, and one to scale.
    for (dtype, limit, expected) in [(f32, 0.5, 2), (f64, 0.5, 3), (f16, 1e9, 2), (bf16, 1e9, 2)] {
        for count in [1, 3, 40] {
            let bag = bag(count, dtype, CUDA).unwrap();
            let mut gradients = gradients(&bag, 0, false).unwrap();
            let launched = launches(|| {
                clip_grad_norm(&bag.parameters(), &mut gradients, limit, 2.0).unwrap();
            });
            assert_eq!(launched.len(), expected, "{count} gradients of {dtype}: {launched:?}");
        }
    }
}
