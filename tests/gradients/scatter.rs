use samebits::functional as f;
use samebits::ops::ScatterReduceKind::{self, Amax, Amin, Prod};
use samebits::{Result, Tensor, backward};

#[test]
fn a_product_with_several_zeros_has_no_second_derivative() {
    let source =
        Tensor::from_slice(&[0.0, 0.0, 2.0], &[3]).unwrap().set_requires_grad(true).unwrap();
    let index = Tensor::from_slice(&[0i64, 0, 0], &[3]).unwrap();
    let input = Tensor::from_slice(&[3.0], &[1]).unwrap();
    let y = f::scatter_reduce(&input, 0, &index, &source, Prod, true).unwrap();
    let one = Tensor::from_slice(&[1.0], &[1]).unwrap();
    let grads = y.backward_from(one, true).unwrap();
    let error = grads.of(&source).unwrap().sum_all().unwrap().backward().unwrap_err();
    let expected = "scatter_reduce of several zeros: this gradient cannot be differentiated again";
    assert_eq!(error.to_string(), expected);
}

/// Returns the gradients of the sum of a reduction of `source` into `input` at `index`.
fn gradients(
    kind: ScatterReduceKind,
    include_self: bool,
    input: &[f64],
    source: &[f64],
    index: &[i64],
) -> Result<(Vec<f64>, Vec<f64>)> {
    let variable = |values: &[f64]| -> Result<Tensor> {
        Ok(Tensor::from_slice(values, &[values.len()])?.set_requires_grad(true).unwrap())
    };
    let (x, s) = (variable(input)?, variable(source)?);
    let index = Tensor::from_slice(index, &[index.len()])?;
    let y = f::scatter_reduce(&x, 0, &index, &s, kind, include_self)?;
    let ones = Tensor::from_slice(&vec![1.0; input.len()], &[input.len()])?;
    let grads = backward(&[(&y, ones)], false)?;
    let of = |x: &Tensor| grads.of(x).unwrap().to_vec::<f64>();
    Ok((of(&x)?, of(&s)?))
}

#[test]
fn zeros_and_ties() {
    // The product without each factor, with no, one and two zeros.
    let (own, sent) =
        gradients(Prod, true, &[2.0, 5.0], &[3.0, 0.0, 0.0, 4.0], &[0, 0, 1, 1]).unwrap();
    assert_eq!((own, sent), (vec![0.0, 0.0], vec![0.0, 6.0, 20.0, 0.0]));
    let (own, sent) = gradients(Prod, true, &[0.0], &[3.0, 4.0], &[0, 0]).unwrap();
    assert_eq!((own, sent), (vec![12.0], vec![0.0, 0.0]));
    let (own, sent) = gradients(Prod, false, &[7.0], &[0.0, 4.0, 0.0], &[0, 0, 0]).unwrap();
    assert_eq!((own, sent), (vec![0.0], vec![0.0, 0.0, 0.0]));
    // Equal extremes share the gradient; the old element shares only if it counts.
    let (own, sent) = gradients(Amax, true, &[2.0, 9.0], &[2.0, 2.0, 1.0], &[0, 0, 0]).unwrap();
    let third = 1.0 / 3.0;
    assert_eq!((own, sent), (vec![third, 1.0], vec![third, third, 0.0]));
    let (own, sent) = gradients(Amin, false, &[2.0, 9.0], &[2.0, 2.0, 3.0], &[0, 0, 0]).unwrap();
    assert_eq!((own, sent), (vec![0.0, 1.0], vec![0.5, 0.5, 0.0]));
}
