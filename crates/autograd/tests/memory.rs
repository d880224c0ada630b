//! Memory that is not there is an error under the name of the function; the stack is enough for any
//! graph.

use samebits_autograd::functional::{affine_grid, mul, neg};
use samebits_autograd::{DType, Error, Result, Tensor};

#[test]
fn a_grid_of_more_points_than_memory_holds_is_refused() {
    let theta = Tensor::zeros(&[1, 2, 3], DType::F32).unwrap();
    let error = affine_grid(&theta, &[1, 1, 1 << 24, 1 << 24], false).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { op: "affine_grid", .. }), "{error}");
}

/// With a call for each link, the 2 MiB of stack that a test's thread has would be too little.
#[test]
fn long_graphs_are_walked_and_freed() {
    const LINKS: usize = 100_000;
    let x = Tensor::scalar(1.0f32).set_requires_grad(true).unwrap();
    let chain = |link: &dyn Fn(&Tensor) -> Result<Tensor>| {
        (0..LINKS).try_fold(x.clone(), |y, _| link(&y)).unwrap()
    };
    let gradient = |y: &Tensor| y.backward().unwrap().of(&x).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(gradient(&chain(&neg)), [1.0]);
    // A link that keeps its inputs, and each of them twice.
    assert_eq!(gradient(&chain(&|y| mul(y, &x))), [1.0 + LINKS as f32]);
    assert_eq!(gradient(&chain(&|y| mul(y, y))), [f32::INFINITY]);
    // A graph of gradients, which also holds the one of the values.
    let gradients = chain(&|y| mul(y, &x)).backward_from(Tensor::scalar(1.0f32), true).unwrap();
    assert!(gradients.of(&x).unwrap().requires_grad());
    // Never walked.
    drop(chain(&neg));
}
