use std::sync::Arc;

use samebits::functional as f;
use samebits::ops::Cast;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor, backward, dispatch};

use super::{Cases, FAMILIES, Gradient, Make, Sample, Samples, normal_of};

/// Adds products, and one case for each function and each type of half precision, with the small
/// arguments of the gradient check, and their gradients.
pub(super) fn add(cases: &mut Cases, make: Make) {
    for half in HALVES {
        products(cases, make, half);
    }
    for &(family, _, add) in FAMILIES {
        for sample in Samples::of(add).all.into_iter().filter(takes_halves).map(Arc::new) {
            let Some(gradient) = sample.gradients.first() else { continue };
            for half in HALVES {
                let inputs = gradient.inputs.iter().enumerate();
                let values = inputs.map(|(i, input)| {
                    let x = input.make(make, DType::F32, i);
                    if x.dtype() == DType::F32 { make.here(rounded(x, half)) } else { x }
                });
                let values: Vec<Value> = values.collect();
                let name = format!("halves {family}, {} {half}", sample.name);
                make.check(&name, &values);
                let (sample, gradient) = (Arc::clone(&sample), gradient.clone());
                cases.call(name, move || computed(make, &sample, &gradient, &values));
            }
        }
    }
}

const HALVES: [DType; 2] = [DType::BF16, DType::F16];

/// There are no sparse tensors of halves.
fn takes_halves(sample: &Sample) -> bool {
    !["sparse_", "from_dense", "to_dense"].iter().any(|name| sample.name.contains(name))
}

fn rounded(x: Value, half: DType) -> Value {
    dispatch(&Cast { x, to: half }).expect("room for the result")
}

/// Returns the results, and the gradients of the variables for seeded gradients of the results.
fn computed(
    make: Make,
    sample: &Sample,
    gradient: &Gradient,
    values: &[Value],
) -> Result<Vec<Value>> {
    let variables: Vec<Tensor> = gradient
        .inputs
        .iter()
        .zip(values)
        .map(|(input, x)| {
            Tensor::from(x).set_requires_grad(x.dtype().is_float() && !input.constant)
        })
        .collect::<Result<_>>()?;
    let results = sample.call(&gradient.inputs, &variables, &(0..0))?;
    let walked: Vec<(&Tensor, Tensor)> = results
        .iter()
        .filter(|y| y.requires_grad())
        .map(|y| (y, Tensor::from(make.here(normal_of(y.shape(), y.dtype(), 99)))))
        .collect();
    let mut found: Vec<Value> = results.iter().map(Value::from).collect();
    if !walked.is_empty() {
        let gradients = backward(&walked, false)?;
        found.extend(variables.iter().filter_map(|x| gradients.of(x)).map(Value::from));
    }
    Ok(found)
}

/// Products of several blocks, in each layout: their operands are widened while they are packed.
fn products(cases: &mut Cases, make: Make, half: DType) {
    let of = |shape: &[usize], seed| make.here(rounded(make.normal(shape, DType::F32, seed), half));
    for [m, k, n] in [[131, 700, 130], [1, 900, 257], [1030, 40, 17], [33, 20, 1040]] {
        let arguments = [of(&[m, k], 71), of(&[n, k], 72), of(&[n], 73)];
        make.check("linear", &arguments);
        cases.call(format!("halves linear {half} [{m}, {k}] [{n}, {k}]"), move || {
            make.with_gradients(&arguments, |x| f::linear(&x[0], &x[1], Some(&x[2])))
        });
    }
    let arguments = [of(&[9, 7, 5], 74), of(&[9, 5, 6], 75)];
    cases.call(format!("halves bmm {half}"), move || {
        make.with_gradients(&arguments, |x| f::bmm(&x[0], &x[1]))
    });
}
