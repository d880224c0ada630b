//! Operations of the user's own: gradients, levels, records, and every way to break the contract.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use samebits_autograd::gradcheck::{Error as Wrong, Place};
use samebits_autograd::{
    DType, Error, Function, Gradients, Result, Save, Saved, Tensor, backward, gradcheck,
    gradgradcheck,
};
use samebits_tensor_core::device::DeviceKind;
use samebits_tensor_core::observe::{self, Call, Observer};
use samebits_tensor_core::registry::{self, Pass};
use samebits_tensor_core::{Determinism, determinism, parameters, rerun};

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_slice(values, &[values.len()]).unwrap().set_requires_grad(true).unwrap()
}

fn of(gradients: &Gradients, x: &Tensor) -> Vec<f64> {
    gradients.of(x).unwrap().to_vec().unwrap()
}

/// Implements the constants of a portable function.
macro_rules! portable {
    ($name:literal) => {
        const NAME: &'static str = $name;
        const LEVEL: Determinism = Determinism::Portable;
        const WHY: &'static str = "composed of portable operations";
    };
}

/// The product and the quotient of two tensors, and the sign of the first as an integer. The
/// gradient uses a result.
struct ProductAndQuotient;

impl Function for ProductAndQuotient {
    portable!("product_and_quotient");

    fn forward(&self, inputs: &[Tensor], save: &mut Save) -> Result<Vec<Tensor>> {
        let [a, b] = inputs else {
            return Err(Error::invalid(
                Self::NAME,
                format!("expected 2 inputs, got {}", inputs.len()),
            ));
        };
        save.input(0);
        save.input(1);
        save.result(1);
        Ok(vec![a.mul(b)?, a.div(b)?, a.sign()?.to_dtype(DType::I64)?])
    }

    fn backward(&self, saved: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        assert_eq!(grads.len(), 3);
        assert_eq!(grads[2].dtype(), DType::I64);
        let (a, b, quotient) = (saved.input(0)?, saved.input(1)?, saved.result(1)?);
        let (product, ratio) = (&grads[0], &grads[1]);
        let by_a = product.mul(b)?.add(&ratio.div(b)?)?;
        let by_b = product.mul(a)?.sub(&ratio.mul(&quotient.div(b)?)?)?;
        Ok(vec![Some(by_a), saved.needs(1).then_some(by_b)])
    }
}

#[test]
fn several_inputs_and_results_have_gradients_of_both_orders() {
    let (a, b) = (leaf(&[1.5, -2.0, 0.5]), leaf(&[0.5, 1.25, -3.0]));
    let call = |x: &[Tensor]| ProductAndQuotient.apply::<3>(&[&x[0], &x[1]]);
    gradcheck(call, &[&a, &b]).unwrap();
    gradgradcheck(call, &[&a, &b]).unwrap();
    // One of them constant.
    gradcheck(call, &[&a, &b.detach()]).unwrap();
    gradgradcheck(call, &[&a.detach(), &b]).unwrap();
}

#[test]
fn results_that_are_not_used_count_as_zero_and_may_be_dropped() {
    let (a, b) = (leaf(&[1.5, -2.0]), leaf(&[0.5, 1.25]));
    let gradients = {
        let [product, _, sign] = ProductAndQuotient.apply(&[&a, &b]).unwrap();
        assert!(product.requires_grad() && !sign.requires_grad());
        assert_eq!(sign.to_vec::<i64>().unwrap(), [1, -1]);
        product.sum_all().unwrap().backward().unwrap()
    };
    assert_eq!(of(&gradients, &a), [0.5, 1.25]);
    assert_eq!(of(&gradients, &b), [1.5, -2.0]);

    // Only the quotient, whose own node is gone when its value enters the second derivative:
    // d²(a/b)/db² = 2a/b³.
    let first = {
        let [_, quotient, _] = ProductAndQuotient.apply(&[&a, &b]).unwrap();
        let ones = Tensor::ones(&[2], DType::F64).unwrap();
        backward(&[(&quotient, ones)], true).unwrap().of(&b).unwrap().clone()
    };
    let second = first.sum_all().unwrap().backward().unwrap();
    let expected = [2.0 * 1.5 / 0.125, 2.0 * -2.0 / (1.25 * 1.25 * 1.25)];
    for (found, expected) in of(&second, &b).into_iter().zip(expected) {
        assert!((found - expected).abs() < 1e-12 * expected.abs(), "{found} {expected}");
    }
    // Used in both places, and twice as an input.
    let x = leaf(&[3.0]);
    let [product, quotient, _] = ProductAndQuotient.apply(&[&x, &x]).unwrap();
    let gradients = product.add(&quotient).unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(of(&gradients, &x), [6.0]);
}

#[test]
fn nothing_is_recorded_where_no_gradient_is_wanted() {
    let a = Tensor::new([1.5f64]).unwrap();
    let [product, ..] = ProductAndQuotient.apply::<3>(&[&a, &a]).unwrap();
    assert!(!product.requires_grad());
    let x = leaf(&[1.5]);
    let [product, ..] =
        samebits_autograd::no_grad(|| ProductAndQuotient.apply::<3>(&[&x, &x])).unwrap();
    assert!(!product.requires_grad());
    let error = ProductAndQuotient.apply::<3>(&[&x]).unwrap_err();
    assert_eq!(error.to_string(), "product_and_quotient: expected 2 inputs, got 1");
}

/// `2x`, at a level of its own.
struct Fast;

impl Function for Fast {
    const NAME: &'static str = "fast_double";
    const LEVEL: Determinism = Determinism::NotGuaranteed;
    const WHY: &'static str = "adds in any order";

    fn forward(&self, inputs: &[Tensor], _: &mut Save) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].affine(2.0, 0.0)?])
    }

    fn backward(&self, _: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(grads[0].affine(2.0, 0.0)?)])
    }
}

#[test]
fn a_level_is_refused_or_warned_about_as_that_of_any_operation() {
    let x = leaf(&[1.0]);
    let refused = |error: Error, expected: Pass, level: Determinism| {
        let Error::LevelUnavailable { op, pass, required, best, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(
            (op, pass, required, best),
            ("fast_double", expected, level, Determinism::NotGuaranteed)
        );
    };
    refused(Fast.apply::<1>(&[&x]).unwrap_err(), Pass::Forward, Determinism::Portable);
    determinism::scope(Determinism::RunToRun, || {
        refused(Fast.apply::<1>(&[&x]).unwrap_err(), Pass::Forward, Determinism::RunToRun);
    });
    let [y] = determinism::scope(Determinism::NotGuaranteed, || Fast.apply::<1>(&[&x])).unwrap();
    // The backward pass obeys the level in force when it runs.
    let sum = y.sum_all().unwrap();
    refused(sum.backward().unwrap_err(), Pass::Backward, Determinism::Portable);
    let gradients = determinism::scope(Determinism::NotGuaranteed, || sum.backward()).unwrap();
    assert_eq!(of(&gradients, &x), [2.0]);
    let gradients = determinism::scope_warn_only(Determinism::Portable, || -> Result<Gradients> {
        let [y] = Fast.apply(&[&x])?;
        y.sum_all()?.backward()
    });
    assert_eq!(of(&gradients.unwrap(), &x), [2.0]);
}

/// A function that runs on CUDA devices only.
struct Elsewhere;

impl Function for Elsewhere {
    portable!("elsewhere");

    fn level(device: DeviceKind, _: Pass) -> Option<Determinism> {
        (device == DeviceKind::Cuda).then_some(Self::LEVEL)
    }

    fn forward(&self, inputs: &[Tensor], _: &mut Save) -> Result<Vec<Tensor>> {
        Ok(inputs.to_vec())
    }

    fn backward(&self, _: &Saved<'_>, _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![None])
    }
}

#[test]
fn a_device_without_a_kernel_is_an_error() {
    let error = Elsewhere.apply::<1>(&[&leaf(&[1.0])]).unwrap_err();
    assert!(matches!(error, Error::NoKernel { op: "elsewhere", .. }), "{error}");
    let listed = |(info, _): &(registry::KernelInfo, u64)| info.op == "elsewhere";
    let kernels: Vec<_> = registry::kernels().into_iter().filter(listed).collect();
    assert_eq!(kernels.len(), 1);
    assert_eq!(kernels[0].0.why, Elsewhere::WHY);
}

/// A function whose backward pass returns given tensors.
struct Returning(Vec<Option<Tensor>>);

impl Function for Returning {
    portable!("returning");

    fn forward(&self, inputs: &[Tensor], _: &mut Save) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].square()?])
    }

    fn backward(&self, _: &Saved<'_>, _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        Ok(self.0.clone())
    }
}

#[test]
fn gradients_that_do_not_fit_are_errors() {
    let (x, y) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
    let fails = |grads: Vec<Option<Tensor>>| {
        let [result] = Returning(grads).apply(&[&x, &y]).unwrap();
        let error = result.sum_all().unwrap().backward().unwrap_err();
        assert!(matches!(error, Error::InvalidFunction { op: "returning", .. }), "{error}");
        error.to_string()
    };
    assert_eq!(
        fails(vec![None]),
        "returning: backward: expected 2 gradients, one for each input, got 1"
    );
    assert_eq!(
        fails(vec![None; 3]),
        "returning: backward: expected 2 gradients, one for each input, got 3"
    );
    let of_shape = |shape: &[usize], dtype| Some(Tensor::ones(shape, dtype).unwrap());
    assert_eq!(
        fails(vec![None, of_shape(&[1], DType::F64)]),
        "returning: backward: expected f64 [2] on cpu for the gradient of input 1, got f64 [1] on \
         cpu"
    );
    assert_eq!(
        fails(vec![of_shape(&[2], DType::F32), None]),
        "returning: backward: expected f64 [2] on cpu for the gradient of input 0, got f32 [2] on \
         cpu"
    );
    // Gradients of 0, and a gradient that nobody asked for.
    let [result] =
        Returning(vec![None, of_shape(&[2], DType::F64)]).apply(&[&x, &y.detach()]).unwrap();
    let gradients = result.sum_all().unwrap().backward().unwrap();
    assert!(gradients.of(&x).is_none());
}

/// A function that saves, reads and returns what the numbers say.
struct Saving {
    save: [Option<usize>; 2],
    read: [Option<usize>; 3],
}

impl Function for Saving {
    portable!("saving");

    fn forward(&self, inputs: &[Tensor], save: &mut Save) -> Result<Vec<Tensor>> {
        self.save[0].into_iter().for_each(|number| save.input(number));
        self.save[1].into_iter().for_each(|number| save.result(number));
        Ok(vec![inputs[0].square()?])
    }

    fn backward(&self, saved: &Saved<'_>, _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        self.read[0].map(|number| saved.input(number)).transpose()?;
        self.read[1].map(|number| saved.result(number)).transpose()?;
        self.read[2].map(|number| saved.tensor(number)).transpose()?;
        assert_eq!(saved.input_shape(0)?, [1]);
        assert!(saved.needs(0) && !saved.needs(1));
        saved.input_shape(1)?;
        Ok(vec![None])
    }
}

#[test]
fn tensors_that_were_not_saved_are_errors() {
    let x = leaf(&[1.0]);
    let error = |save, read| {
        let result = Saving { save, read }
            .apply::<1>(&[&x])
            .and_then(|[y]| y.sum_all()?.backward().map(drop));
        result.unwrap_err().to_string()
    };
    assert_eq!(
        error([Some(1), None], [None; 3]),
        "saving: forward: saved input 1, but there are 1"
    );
    assert_eq!(
        error([None, Some(7)], [None; 3]),
        "saving: forward: saved result 7, but there are 1"
    );
    let unsaved = |what| format!("saving: backward: {what} was not saved by forward");
    assert_eq!(error([None; 2], [Some(0), None, None]), unsaved("input 0"));
    assert_eq!(error([None; 2], [None, Some(0), None]), unsaved("result 0"));
    assert_eq!(error([None; 2], [None, None, Some(3)]), unsaved("tensor 3"));
    assert_eq!(error([Some(0), Some(0)], [Some(0), Some(0), None]), unsaved("input 1"));

    let error = Saving { save: [None; 2], read: [None; 3] }.apply::<2>(&[&x]).unwrap_err();
    assert_eq!(error.to_string(), "saving: returned 1 results, expected 2");
}

/// `x²` by a value that forward saves: as a tensor that depends on `x`, or as a constant.
struct Keeping {
    constant: bool,
}

impl Function for Keeping {
    portable!("keeping");

    fn forward(&self, inputs: &[Tensor], save: &mut Save) -> Result<Vec<Tensor>> {
        let slope = inputs[0].affine(2.0, 0.0)?;
        if self.constant {
            save.constant(&slope)
        } else {
            save.tensor(&slope)
        }
        Ok(vec![inputs[0].square()?])
    }

    fn backward(&self, saved: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(grads[0].mul(saved.tensor(0)?)?)])
    }
}

/// `x²` whose gradient cannot be differentiated again.
struct Once;

impl Function for Once {
    portable!("once");
    const ONCE: bool = true;

    fn forward(&self, inputs: &[Tensor], save: &mut Save) -> Result<Vec<Tensor>> {
        save.input(0);
        Ok(vec![inputs[0].square()?])
    }

    fn backward(&self, saved: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let values = saved.input(0)?.to_vec::<f64>()?;
        let slopes = Tensor::from_vec(values, grads[0].shape())?.affine(2.0, 0.0)?;
        Ok(vec![Some(grads[0].mul(&slopes)?)])
    }
}

#[test]
fn second_derivatives_are_right_or_errors() {
    let x = leaf(&[1.5, -2.0]);
    let fails = |result: Result<[Tensor; 1]>, expected: &str| {
        let [y] = result.unwrap();
        let sum = y.sum_all().unwrap();
        assert_eq!(of(&sum.backward().unwrap(), &x), [3.0, -4.0]);
        let first = sum.backward_from(Tensor::scalar(1.0f64), true).unwrap();
        let first = first.of(&x).unwrap();
        assert_eq!(first.to_vec::<f64>().unwrap(), [3.0, -4.0]);
        let error = first.sum_all().unwrap().backward().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    fails(Once.apply(&[&x]), "once: this gradient cannot be differentiated again");
    let kept = Keeping { constant: false };
    fails(kept.apply(&[&x]), "keeping: a tensor that forward saved as a value");
    gradcheck(|x| Once.apply::<1>(&[&x[0]]), &[&x]).unwrap();

    // As a constant it is differentiated as one, which gradgradcheck shows.
    let constant = |x: &[Tensor]| Keeping { constant: true }.apply::<1>(&[&x[0]]);
    gradcheck(constant, &[&x]).unwrap();
    let error = gradgradcheck(constant, &[&x]).unwrap_err();
    assert!(matches!(error, Wrong::Differs { input: 0, .. }), "{error}");
}

/// A result that differs at every call.
struct Drifting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

impl Function for Drifting {
    portable!("drifting");

    fn forward(&self, inputs: &[Tensor], _: &mut Save) -> Result<Vec<Tensor>> {
        let calls = CALLS.fetch_add(1, Ordering::Relaxed);
        Ok(vec![inputs[0].affine(1.0, calls as f64)?])
    }

    fn backward(&self, _: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(grads[0].clone())])
    }
}

#[test]
fn re_run_mode_and_gradcheck_find_results_that_do_not_repeat() {
    let x = leaf(&[1.0, 2.0]);
    let error = rerun::scope(2, || Drifting.apply::<1>(&[&x])).unwrap_err();
    assert!(matches!(error, Error::RerunDiffers { op: "drifting", .. }), "{error}");
    let error = gradcheck(|x| Drifting.apply::<1>(&[&x[0]]), &[&x]).unwrap_err();
    assert_eq!(error, Wrong::Varies { result: 0, element: vec![0], gradient: None });
    rerun::scope(2, || ProductAndQuotient.apply::<3>(&[&x, &x])).unwrap();
}

/// `factor · x`, with its parameter in records.
struct Scale {
    factor: f64,
}

impl Function for Scale {
    portable!("scale_by");
    parameters![factor];

    fn forward(&self, inputs: &[Tensor], _: &mut Save) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].affine(self.factor, 0.0)?])
    }

    fn backward(&self, _: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(grads[0].affine(self.factor, 0.0)?)])
    }
}

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn observe(&self, call: &Call<'_>) -> Result<()> {
        let Call { op, pass, inputs, outputs, parameters, level, .. } = call;
        let line = format!("{op} {pass} {} {} {parameters:?} {level}", inputs.len(), outputs.len());
        self.0.lock().unwrap().push(line);
        Ok(())
    }
}

#[test]
fn records_name_the_operation_of_both_passes() {
    let x = leaf(&[1.0]);
    let seen = std::sync::Arc::new(Seen::default());
    observe::scope(seen.clone(), || {
        let [y] = Scale { factor: 3.0 }.apply(&[&x]).unwrap();
        assert_eq!(of(&y.backward().unwrap(), &x), [3.0]);
    });
    let lines = seen.0.lock().unwrap();
    let own: Vec<&String> = lines.iter().filter(|line| line.starts_with("scale_by")).collect();
    assert_eq!(
        own,
        [
            "scale_by forward 1 1 [(\"factor\", 3.0)] Portable",
            "scale_by backward 1 1 [(\"factor\", 3.0)] Portable"
        ]
    );
}

#[test]
fn threads_may_apply_a_function_first_at_the_same_time() {
    struct Fresh;
    impl Function for Fresh {
        portable!("fresh");

        fn forward(&self, inputs: &[Tensor], _: &mut Save) -> Result<Vec<Tensor>> {
            Ok(inputs.to_vec())
        }

        fn backward(&self, _: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
            Ok(grads.iter().cloned().map(Some).collect())
        }
    }
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                let x = leaf(&[1.0]);
                let [y] = Fresh.apply(&[&x]).unwrap();
                assert_eq!(of(&y.backward().unwrap(), &x), [1.0]);
            });
        }
    });
    // A chain longer than any stack is deep.
    let x = leaf(&[1.0]);
    let mut y = x.clone();
    for _ in 0..100_000 {
        [y] = Fresh.apply(&[&y]).unwrap();
    }
    assert_eq!(of(&y.backward().unwrap(), &x), [1.0]);
}

#[test]
fn gradcheck_names_the_input_and_the_element() {
    let (x, weights) = (leaf(&[1.0, 2.0, 3.0]), leaf(&[0.5, -1.0, 2.0]));
    // The gradient of the second input's last element is off by one part in a hundred.
    struct Off;
    impl Function for Off {
        portable!("off");

        fn forward(&self, inputs: &[Tensor], save: &mut Save) -> Result<Vec<Tensor>> {
            save.input(0);
            save.input(1);
            Ok(vec![inputs[0].mul(&inputs[1])?])
        }

        fn backward(&self, saved: &Saved<'_>, grads: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
            let off = Tensor::new([1.0f64, 1.0, 1.01])?;
            let by_second = grads[0].mul(saved.input(0)?)?.mul(&off)?;
            Ok(vec![Some(grads[0].mul(saved.input(1)?)?), Some(by_second)])
        }
    }
    let error = gradcheck(|x| Off.apply::<1>(&[&x[0], &x[1]]), &[&x, &weights]).unwrap_err();
    let Wrong::Differs { result, ref result_element, input, ref element, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((result, result_element, input, element), (0, &vec![2], 1, &vec![2]));
    let expected = "gradcheck: result 0 at [2] by input 1 at [2]: the backward pass gives 3.03";
    assert!(error.to_string().starts_with(expected), "{error}");

    let error = gradcheck(|x| x[0].square(), &[&x.detach()]).unwrap_err();
    assert_eq!(error, Wrong::NothingToCheck);
    let narrow = Tensor::new([1.0f32]).unwrap().set_requires_grad(true).unwrap();
    let error = gradcheck(|x| x[1].square(), &[&x, &narrow]).unwrap_err();
    assert_eq!(error, Wrong::NotF64 { place: Place::Input(1), got: DType::F32 });
    let error = gradcheck(|x| x[0].to_dtype(DType::F32), &[&x]).unwrap_err();
    assert_eq!(error, Wrong::NotF64 { place: Place::Result(0), got: DType::F32 });
    let error = gradcheck(|x| x[0].matmul(&x[0].reshape([1, 3])?), &[&x]).unwrap_err();
    assert!(matches!(error, Wrong::Call(_)), "{error}");
    // Where the slope does not exist, the two cannot agree.
    let zero = leaf(&[0.0]);
    assert!(matches!(gradcheck(|x| x[0].log(), &[&zero]), Err(Wrong::Differs { .. })));
}
